//! Single-path permutations of the parity preset, held against an independent model of the published algorithm on the same
//! paths: what luck of the draw there is, both have it. And held against the published figures over many draws, like for
//! like: `MRC_PARITY_SEEDS=200 cargo test --release -p mrc-sim --test parity -- --nocapture` prints the tables of
//! `docs/experiments.md`.

mod model;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use mrc_core::Instant;
use mrc_sim::scenario::{TransportSettings, load};
use mrc_sim::workload::Exchange;
use mrc_sim::{LinkId, MrcTransport, Sim, Tap, Transport, address};

use model::{Flow, PACKETS, WIDTH};

/// Completion times in microseconds, packets sent again, and the path of each message.
struct Ours {
    fct_us: Vec<f64>,
    retransmitted: u64,
    flows: Vec<Flow>,
}

fn ours(seed: u64) -> Ours {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/parity/perm128-single.toml");
    let built = load(&file, &[], Some(seed)).unwrap_or_else(|error| panic!("{error}"));
    let TransportSettings::Mrc(settings) = &built.transports[0].settings else { panic!("the preset is of MRC") };
    let (topology, pairs) = (&built.topology, built.pairs.clone());
    let clos = *topology.as_clos().expect("two tiers");
    let mut storages = settings.storages(topology, &pairs).expect("storage");
    let mut hosts = MrcTransport::build(settings, topology, &pairs, &mut storages, seed).expect("hosts").into_iter();
    let exchange = Exchange::new(built.plan.clone(), clos.hosts, 1_000);
    let mut sim = Sim::new(clos, seed, exchange, |_| hosts.next().expect("one host for each index")).expect("fabric");

    // The first packets through the uplinks say which one each message has.
    let uplinks: Vec<LinkId> = (clos.hosts..clos.links()).map(LinkId).collect();
    let ports: Vec<_> = uplinks.iter().map(|link| link.upper()).collect();
    sim.attach_tap(Tap::around(Instant::ZERO, 0, 20_000), &ports);
    while !sim.world().is_done() && sim.now() < Instant::from_nanos(10_000_000) {
        sim.run_until(sim.now().after(100_000));
    }
    assert!(sim.world().is_done(), "seed {seed}: {} of 128 messages", sim.world().completed());
    let mut spines = vec![None; clos.hosts as usize];
    for packet in sim.tap().expect("attached").packets().filter(|packet| !packet.egress && packet.wire_len > 1_000) {
        let from = (0..clos.hosts).find(|&host| packet.header[22..38] == address::gid(host)).expect("a host's address");
        let uplink = ports.iter().position(|&port| port == packet.port).expect("a tapped port");
        let spine = spines[from as usize].get_or_insert(uplink % WIDTH);
        assert_eq!((uplink / WIDTH, uplink % WIDTH), (from as usize / WIDTH, *spine), "one path");
    }
    let world = sim.world();
    let ended = |id| world.completed_at(id).expect("done") - world.started(id).expect("started");
    let mut messages: Vec<_> = (0..).zip(world.messages()).collect();
    messages.sort_by_key(|(_, message)| message.src);
    let flow = |message: &mrc_sim::workload::Message| {
        let spine = spines[message.src as usize].expect("it has sent");
        Flow { from: message.src as usize, to: message.dst as usize, spine }
    };
    Ours {
        fct_us: messages.iter().map(|&(id, _)| ended(id) as f64 / 1e3).collect(),
        retransmitted: (0..clos.hosts).map(|host| sim.host(host).counters().retransmitted).sum(),
        flows: messages.iter().map(|(_, message)| flow(message)).collect(),
    }
}

/// Mean, 99th percentile and maximum of completion times in microseconds, and per cent of packets sent again: of one draw, or
/// means over draws.
type Row = [f64; 4];

/// Published for five draws; the maximum was between these two.
const PUBLISHED: Row = [347.0, 710.0, 725.0, 3.1];
const PUBLISHED_MAX: [f64; 2] = [671.0, 830.0];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn row(fct_us: &[f64], again: u64) -> Row {
    let mut sorted = fct_us.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (p99, max) = (sorted[(sorted.len() * 99).div_ceil(100) - 1], sorted[sorted.len() - 1]);
    [mean(fct_us), p99, max, again as f64 / (sorted.len() * PACKETS as usize) as f64 * 100.0]
}

fn means(rows: &[Row]) -> Row {
    std::array::from_fn(|column| mean(&rows.iter().map(|row| row[column]).collect::<Vec<_>>()))
}

/// How many messages the fullest link carries.
fn fullest(flows: &[Flow]) -> usize {
    let mut links = BTreeMap::new();
    for flow in flows {
        *links.entry(("up", flow.from / WIDTH, flow.spine)).or_insert(0) += 1;
        *links.entry(("down", flow.to / WIDTH, flow.spine)).or_insert(0) += 1;
    }
    links.into_values().max().unwrap_or(0)
}

/// When a link that carries so many messages can be done, in microseconds.
fn soonest(messages: usize) -> f64 {
    let flow = |from| Flow { from, to: WIDTH * (from + 1), spine: 0 };
    model::fluid(&(0..messages).map(flow).collect::<Vec<_>>()).0
}

/// The maximum of a draw tells how many messages its fullest link carries (663 to 822 us for four and 830 to 948 us for five,
/// in 200 draws), so the published range tells which draws are behind the published means: two with a link of five would add
/// up to more, whatever the other three.
#[test]
fn the_published_draws_are_four_with_a_link_of_four_and_one_with_a_link_of_five() {
    let [least, most] = PUBLISHED_MAX;
    assert!(soonest(4) < least && least < soonest(5), "{least} us: a link of four");
    assert!(soonest(5) < most && most < soonest(6), "{most} us: a link of five");
    let rounding = 0.5;
    let sum = 5.0 * (PUBLISHED[2] + rounding);
    assert!(2.0 * soonest(5) + 3.0 * (least - rounding) > sum, "a second draw with a link of five");
}

/// Seed 6 has a message that two full links starve: it is far behind what fair shares would give it, in both.
#[test]
fn single_paths_do_as_an_independent_model_of_the_published_algorithm() {
    let seeds = match std::env::var("MRC_PARITY_SEEDS").map(|seeds| seeds.parse()) {
        Ok(seeds) => 1..=seeds.expect("MRC_PARITY_SEEDS is a number"),
        Err(_) => 6..=6,
    };
    let mut draws = Vec::new();
    for seed in seeds {
        let ours = ours(seed);
        let model = model::run(&ours.flows, seed);
        let (fluid_max, fluid_mean) = model::fluid(&ours.flows);
        let (links, ours) = (fullest(&ours.flows), row(&ours.fct_us, ours.retransmitted));
        let model = row(&model.fct_us, model.retransmitted.into());
        println!(
            "seed {seed}, {links} on one link: mean, p99, max, % sent again: ours {ours:.1?}, model {model:.1?}, fluid \
             [{fluid_mean:.1}, {fluid_max:.1}]"
        );
        let [[mean, _, max, again], [model_mean, _, model_max, model_again]] = [ours, model];
        assert!((mean / model_mean - 1.0).abs() < 0.02, "seed {seed}: mean {mean} against {model_mean} us");
        assert!((max / model_max - 1.0).abs() < 0.10, "seed {seed}: max {max} against {model_max} us");
        assert!((again / model_again - 1.0).abs() < 0.15, "seed {seed}: {again} % sent again against {model_again} %");
        assert!(max > fluid_max, "seed {seed}: {max} us is sooner than {fluid_max} us, when all links are full");
        draws.push((links, [ours, model, [fluid_mean, 0.0, fluid_max, 0.0]]));
    }
    let of = |links: RangeInclusive<usize>, who: usize| -> Vec<Row> {
        draws.iter().filter(|draw| links.contains(&draw.0)).map(|draw| draw.1[who]).collect()
    };
    let any = 0..=WIDTH;
    for links in [3..=3, 4..=4, 5..=5, 6..=6, any.clone()] {
        let [ours, model, fluid] = [0, 1, 2].map(|who| means(&of(links.clone(), who)));
        let many = of(links.clone(), 0).len();
        println!("{links:?} on the fullest link, {many} draws: ours {ours:.2?}, model {model:.2?}, fluid {fluid:.1?}");
    }
    let [ours, model] = [0, 1].map(|who| means(&of(any.clone(), who)));
    assert!((ours[2] / model[2] - 1.0).abs() < 0.05, "the last finisher: {} us against {}", ours[2], model[2]);
    if draws.len() >= 100 {
        let [four, five] = [4, 5].map(|links| means(&of(links..=links, 0)));
        let alike: Row = std::array::from_fn(|column| 0.8 * four[column] + 0.2 * five[column]);
        println!("four draws of four for each of five: ours {alike:.2?}, published {PUBLISHED:?}");
        for (ours, published) in alike.into_iter().zip(PUBLISHED) {
            assert!((ours / published - 1.0).abs() < 0.03, "{ours} against {published} published");
        }
    }
}
