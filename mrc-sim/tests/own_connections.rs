//! `connections = "per-message"` with MRC: a queue pair at each end lives as long as its message needs it.

use std::path::Path;

use mrc_core::Instant;
use mrc_sim::run::{Options, Results, run};
use mrc_sim::scenario::{Built, TransportSettings, load_str};
use mrc_sim::workload::Exchange;
use mrc_sim::{Captured, Host, LinkId, MrcSettings, MrcTransport, Packet, Sim, Tap, Transport, payload_tag};
use mrc_wire::PortNum;

const SHORT: &str = "limit_us = 100000\n[topology]\nplanes = 1\nt0 = 2\nhosts_per_t0 = 4\n[transport]\nconnections = \"per-message\"\n\
    [[workload]]\nkind = \"poisson\"\nflows = 400\nload = 0.6\nsizes = [[1000, 0.0], [20000, 1.0]]\n";

fn built(text: &str) -> Built {
    load_str("test.toml", text, Path::new("."), &[], Some(3)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn settings(built: &Built) -> &MrcSettings {
    match &built.transports[0].settings {
        TransportSettings::Mrc(settings) => settings,
        _ => panic!("MRC is the default"),
    }
}

fn play(text: &str, threads: usize) -> Results {
    let options = Options { threads, ..Options::default() };
    run(&built(text), &options, &mut |_| {}).expect("a run").results
}

/// What happened to a run whose hosts have `open` connections, or as many as the scenario says, after each microsecond.
struct Seen {
    /// Most queue pairs of all hosts, and of one.
    most: (usize, usize),
    /// Messages that waited, and packets that found no queue pair.
    crowded: u64,
}

/// Runs the messages of a scenario to the end and longer, then lets `then` act.
fn drive(built: &Built, open: Option<[u32; 2]>, then: impl FnOnce(&mut Sim<MrcTransport<'_>>)) -> Seen {
    let mut settings = settings(built).clone();
    if let Some(open) = open {
        settings.open.fill(open);
    }
    let clos = *built.topology.as_clos().expect("two tiers");
    let mut storages = settings.storages(&built.topology, &built.pairs).expect("storage");
    let hosts = MrcTransport::build(&settings, &built.topology, &built.pairs, &mut storages, 1).expect("hosts");
    let (mut hosts, exchange) = (hosts.into_iter(), Exchange::new(built.plan.clone(), clos.hosts, 1_000));
    let mut sim = Sim::new(clos, 1, exchange, |_| hosts.next().expect("one for each index")).expect("fabric");
    sim.attach_tap(Tap::around(Instant::ZERO, 0, 100_000), &[LinkId(0).lower()]);
    let mut most = (0, 0);
    while !sim.world().is_done() {
        assert!(sim.now() < Instant::from_nanos(50_000_000), "{} of 400", sim.world().completed());
        sim.run_until(sim.now().after(1_000));
        let of_hosts = || (0..clos.hosts).map(|host| sim.host(host).queue_pairs());
        most = (most.0.max(of_hosts().sum()), most.1.max(of_hosts().max().unwrap_or(0)));
    }
    sim.run_until(sim.now().after(1_000_000));
    assert_eq!((sim.world().failed(), sim.world().misplaced()), (0, 0));
    assert_eq!(live(&sim), 0, "nothing is left of connections that are done");
    let crowded = (0..clos.hosts).map(|host| sim.host(host).counters().crowded).sum();
    then(&mut sim);
    Seen { most, crowded }
}

fn live(sim: &Sim<MrcTransport<'_>>) -> usize {
    (0..sim.topology().hosts()).map(|host| sim.host(host).queue_pairs()).sum()
}

#[test]
fn connections_that_are_done_give_their_memory_back() {
    let seen = drive(&built(SHORT), None, |_| {});
    assert!(seen.most.0 > 8 && seen.most.0 < 400, "{} of 800 queue pairs at once", seen.most.0);
    assert_eq!(seen.crowded, 0);
}

#[test]
fn a_host_has_no_more_queue_pairs_than_it_may_and_its_messages_wait() {
    let seen = drive(&built(SHORT), Some([2, 3]), |_| {});
    assert_eq!(seen.most.1, 5);
    assert!(seen.crowded > 50, "{}", seen.crowded);
}

#[test]
fn a_message_over_several_queue_pairs_gives_all_of_them_back() {
    let text = SHORT.replace("[[workload]]", "[transport.mrc]\nqps = 3\n[[workload]]");
    let (one, three) = (drive(&built(SHORT), None, |_| {}), drive(&built(&text), None, |_| {}));
    assert!(three.most.0 > one.most.0 * 3 / 2, "{} and {}", three.most.0, one.most.0);
}

/// The number in a packet that names its message: behind Ethernet, IPv6, perhaps another IPv6, UDP and five bytes of the BTH.
fn number(packet: &Captured) -> u32 {
    let at = 14 + 40 + 8 + 5 + if packet.header[20] == 41 { 40 } else { 0 };
    packet.header[at..at + 3].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

/// The sender's acknowledgement was lost, or a copy of a packet took its time.
#[test]
fn a_late_copy_draws_an_acknowledgement_and_is_not_placed_again() {
    drive(&built(SHORT), None, |sim| {
        let to_host = |&(_, message): &(u32, &mrc_sim::workload::Message)| message.dst == 0 && message.bytes < 4_000;
        let (id, message) = (0..).zip(sim.world().messages()).find(to_host).expect("a message of one packet");
        let (src, len) = (message.src, message.bytes);
        let is_it = |packet: &&Captured| !packet.egress && packet.wire_len > len && number(packet) == 4 + id;
        let first = sim.tap().expect("attached").packets().find(is_it).expect("it arrived").clone();
        let mut packet = Packet::new();
        packet.buffer()[..first.header.len()].copy_from_slice(&first.header);
        packet.set_header_len(first.header.len());
        packet.wire_len = first.wire_len;
        packet.payload = payload_tag(src, id, 0, len);
        let (placed, sent) = (sim.world().placed_bytes(), sim.host(0).counters());
        sim.with_host(0, |host, now, world| {
            host.on_packet(now, PortNum::from_plane(0), &packet, world);
        });
        assert_eq!((sim.host(0).queue_pairs(), live(sim)), (1, 1), "the receiver's is back");
        sim.run_until(sim.now().after(5_000));
        assert!(sim.host(0).counters().control > sent.control, "it acknowledges");
        assert_eq!((sim.world().placed_bytes(), sim.world().misplaced()), (placed, 0));
        sim.run_until(sim.now().after(1_000_000));
        assert_eq!(live(sim), 0, "and ends again; the sender has none for what it hears");
    });
}

#[test]
fn messages_complete_although_packets_and_acknowledgements_are_lost() {
    let lossy = format!("{SHORT}[[fault]]\nkind = \"loss\"\nat_us = 0\ntier = \"host\"\nprobability = 0.03\n");
    let results = play(&lossy, 1);
    assert_eq!((results.completed, results.failed, results.misplaced), (400, 0, 0));
    assert!(results.retransmitted_packets > 20, "{}", results.retransmitted_packets);
    assert_eq!(results.digest, play(&lossy, 1).digest, "the same again");
}

#[test]
fn both_ends_come_up_in_parts_that_run_apart() {
    let text = format!("partitions = 2\n{SHORT}");
    let [one, two] = [1, 2].map(|threads| play(&text, threads));
    assert_eq!((one.completed, one.misplaced), (400, 0));
    assert_eq!((&one.digest, one.events, &one.fct_us), (&two.digest, two.events, &two.fct_us));
}
