//! Several endpoints of one NIC behind one address: QP numbers that steer, and what the shards tell each other. In virtual
//! time and with a thread per shard.

#[path = "../examples/shards.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod shards;

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::path::{EvEntry, ProfileError};
use mrc_core::{
    ConfigError, Endpoint, EndpointConfig, Event, Instant, Limits, MAX_PORTS, OpRequest, OwnedStorage, PeerConfig,
    PlanePath, PortMask, QpState, Route, RtrAttr, RtsAttr, Shard, ShardError, ShardMessage, ShardNews, Status,
    TableError,
};
use mrc_wire::{Body, EndpointOp, Ev, Ip, PortNum, Psn, Qpn, WireConfig, parse_frame};
use shards::{Input, Unit, receivers, steer};

const QPS: usize = 4;
const FLIGHT_NS: u64 = 5_000;

/// Two hosts of `count` shards, and everything between them, in virtual time.
struct World<'s> {
    count: u8,
    units: Vec<Unit<'s>>,
    now: Instant,
    /// Arrival and order; unit and input.
    events: BTreeMap<(u64, u64), (usize, Input)>,
    order: u64,
    /// Port Status Updates that left each unit.
    updates: Vec<u64>,
    /// EVs whose data frames get lost.
    dead: BTreeSet<Ev>,
    /// Messages between shards so far.
    told: u64,
}

fn world<R>(count: u8, tweak: fn(&mut EndpointConfig), f: impl FnOnce(&mut World<'_>) -> R) -> R {
    let bits = count.ilog2() as u8;
    let limits = Limits { qps: QPS, ..Limits::default() };
    let mut storage: Vec<_> = (0..2 * count).map(|_| OwnedStorage::new(limits).unwrap()).collect();
    let units: Vec<Unit<'_>> = (0u8..)
        .zip(&mut storage)
        .map(|(n, storage)| Unit::new(n / count, Shard { bits, index: n % count }, storage, tweak))
        .collect();
    let updates = vec![0; units.len()];
    let (events, dead) = (BTreeMap::new(), BTreeSet::new());
    f(&mut World { count, units, now: Instant::ZERO, events, order: 0, updates, dead, told: 0 })
}

impl World<'_> {
    /// Shard n of host 0 and shard n + 1 of host 1 connect all their queue pairs, both ways.
    fn connect(&mut self, n: u8) {
        let (near, far) = (usize::from(n), usize::from(self.count + (n + 1) % self.count));
        let names = [near, far].map(|unit| self.units[unit].qps.clone());
        for (nth, (&far_qp, &near_qp)) in names[1].iter().zip(&names[0]).enumerate() {
            self.units[near].connect(self.now, nth, far_qp);
            self.units[far].connect(self.now, nth, near_qp);
        }
        self.drain(near);
        self.drain(far);
    }

    fn post(&mut self, n: u8) {
        let far = usize::from(self.count + (n + 1) % self.count);
        let key = self.units[far].key();
        for nth in 0..QPS {
            self.units[usize::from(n)].post(self.now, nth, key);
        }
        self.drain(n.into());
    }

    fn drain(&mut self, unit: usize) {
        let (count, bits) = (self.count, self.units[unit].engine.config().shard.bits);
        let host = unit as u8 / count;
        let (mut frames, mut news) = (vec![], vec![]);
        self.units[unit].drain(self.now, |port, frame| frames.push((port, frame)), |message| news.push(message));
        for (port, bytes) in frames {
            let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
            let shard = steer(&bytes, bits);
            assert_eq!(shard, Shard::of(frame.bth.dest_qp, bits));
            let update = matches!(&frame.body, Body::EndpointRequest(r) if r.op == EndpointOp::PortStatusUpdate);
            self.updates[unit] += u64::from(update);
            if matches!(frame.body, Body::Write { .. } | Body::Probe(_)) && self.dead.contains(&frame.entropy) {
                continue;
            }
            let to = usize::from((1 - host) * count + shard);
            self.push(FLIGHT_NS, to, Input::Frame(port, bytes));
        }
        self.told += news.len() as u64;
        assert!(self.told < 10_000, "news go in circles");
        for message in news {
            assert_eq!(message.from, unit as u8 % count);
            for shard in receivers(&message, count) {
                // A message takes its time, too.
                self.push(700, usize::from(host * count + shard), Input::News(message));
            }
        }
    }

    fn push(&mut self, after: u64, to: usize, input: Input) {
        self.order += 1;
        self.events.insert((self.now.as_nanos() + after, self.order), (to, input));
    }

    /// Runs until `done` or until `limit_ns` have passed.
    fn run(&mut self, limit_ns: u64, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now.as_nanos() + limit_ns;
        while !done(self) {
            let event = self.events.first_key_value().map(|(&(at, _), _)| at);
            let timer = self.units.iter().filter_map(|unit| unit.engine.next_timeout()).map(Instant::as_nanos).min();
            let next = event.into_iter().chain(timer).min().filter(|&next| next <= end);
            let Some(next) = next else {
                self.now = Instant::from_nanos(end);
                return false;
            };
            self.now = self.now.max(Instant::from_nanos(next));
            if event == Some(next) {
                let (_, (to, input)) = self.events.pop_first().unwrap();
                self.units[to].take(self.now, input);
                self.drain(to);
            } else {
                for unit in 0..self.units.len() {
                    self.units[unit].engine.handle_timeout(self.now);
                    self.drain(unit);
                }
            }
        }
        true
    }

    fn done(&self, unit: usize) -> usize {
        self.units[unit].done.iter().filter(|&&status| status == Status::Success).count()
    }
}

const SECOND: u64 = 1_000_000_000;

fn port(n: u8) -> PortNum {
    PortNum::new(n).unwrap()
}

/// However the random bits fall, no two endpoints of a NIC draw the same number, and each number names its shard.
//= QP-008 test
#[test]
fn queue_pair_numbers_name_their_shard() {
    let mut seen = BTreeSet::new();
    for index in 0..8 {
        let limits = Limits { qps: 4_096, mpr: 1, send_queue: 1, recv_queue: 1, wimm: 0, ..Limits::default() };
        let limits = Limits { evs: 1, active_evs: 1, profile_evs: 1, ..limits };
        let mut storage = OwnedStorage::new(limits).unwrap();
        let shard = Shard { bits: 3, index };
        let mut cfg = EndpointConfig { shard, ..EndpointConfig::default() };
        cfg.gids[0] = Some(Ip::V6([1; 16]));
        cfg.ports[0] = Some(mrc_core::PortConfig { mac: [2; 6], sid: None, addr: None });
        // The same seed for all of them, as a careless driver would have it.
        let mut engine = Endpoint::new(cfg, storage.lend(), 7).unwrap();
        let cq = engine.create_cq().unwrap();
        for _ in 0..4_096 {
            let init = mrc_core::QpInit { pd: mrc_core::Pd(0), send_cq: cq, recv_cq: cq };
            let qpn = engine.create_qp(&init).unwrap().qpn();
            assert_eq!((Shard::of(qpn, 3), qpn.value() > 2), (index, true));
            assert!(seen.insert(qpn.value()), "{qpn:?} twice");
        }
    }
    assert_eq!(Shard::of(Qpn::ENDPOINT, 3), 0, "QP 2 is the first shard's");
    assert_eq!(Shard::of(Qpn::new(0xFF_FFFF), 0), 0);
}

#[test]
fn shards_that_cannot_be_are_refused() {
    let limits = Limits { qps: 1 << 16, mpr: 1, send_queue: 1, recv_queue: 1, wimm: 0, ..Limits::default() };
    let limits = Limits { evs: 1, active_evs: 1, profile_evs: 1, ..limits };
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut make = |bits, index| {
        let mut cfg = EndpointConfig { shard: Shard { bits, index }, ..EndpointConfig::default() };
        cfg.gids[0] = Some(Ip::V6([1; 16]));
        cfg.ports[0] = Some(mrc_core::PortConfig { mac: [2; 6], sid: None, addr: None });
        Endpoint::new(cfg, storage.lend(), 7).map(drop)
    };
    assert_eq!(make(6, 63), Ok(()), "16 bits of slots, 6 of shards, 2 random ones");
    for (bits, index) in [(7, 0), (3, 8), (0, 1), (255, 0)] {
        assert_eq!(make(bits, index), Err(ConfigError::Range { what: "shard" }), "{bits} {index}");
    }
}

/// Writes between all shards; the peer of every shard hears that a port went down, and that it is up again; one update per
/// plane leaves, and answers of the peer's first shard end it.
//= EPOP-002, EPOP-005, EPOP-006, PORT-004, PORT-005 test
fn ports_reach_all_shards(count: u8) {
    world(
        count,
        |_| {},
        |world| {
            (0..count).for_each(|n| world.connect(n));
            (0..count).for_each(|n| world.post(n));
            let all = |world: &World<'_>| (0..usize::from(count)).all(|n| world.done(n) == QPS);
            assert!(world.run(SECOND, all));
            world.run(SECOND, |_| false);
            for up in [false, true] {
                world.updates.fill(0);
                let unanswered = |world: &World<'_>| world.units[0].engine.stats().port_update_unanswered;
                let before = unanswered(world);
                for n in 0..usize::from(count) {
                    world.push(0, n, Input::Port(port(2), up));
                }
                let heard = |world: &World<'_>| {
                    world.units[usize::from(count)..]
                        .iter()
                        .all(|unit| unit.engine.peer_ports(unit.peer).unwrap().contains(port(2)) == up)
                };
                assert!(world.run(SECOND / 100, heard), "within a round trip and a message, up {up}");
                world.run(SECOND, |_| false);
                let (first, others) = world.updates.split_first().unwrap();
                assert_eq!((*first, others.iter().sum::<u64>()), (if up { 2 } else { 1 }, 0), "the first shard speaks");
                assert_eq!(unanswered(world), before);
            }
            (0..count).for_each(|n| world.post(n));
            assert!(world.run(SECOND, |world| (0..usize::from(count)).all(|n| world.done(n) == 2 * QPS)));
        },
    );
}

#[test]
fn ports_reach_two_shards() {
    ports_reach_all_shards(2);
}

#[test]
fn ports_reach_eight_shards() {
    ports_reach_all_shards(8);
}

/// Only shard 3 has queue pairs. The first one, which has none, speaks of our ports for it, and hears for it.
//= EPOP-006 test
#[test]
fn a_first_shard_without_queue_pairs_speaks_for_the_others() {
    world(
        4,
        |_| {},
        |world| {
            world.connect(3);
            world.run(SECOND, |_| false);
            assert!(world.updates[0] > 0, "a queue pair entered RTS");
            assert_eq!(world.updates[1..4], [0; 3]);
            world.updates.fill(0);
            (0..4).for_each(|n| world.push(0, n, Input::Port(port(1), false)));
            let far = &world.units[4];
            assert_eq!(far.qps.len(), QPS, "shard 0 of the other host, whose queue pairs talk to shard 3");
            world.run(SECOND / 10, |_| false);
            let far = &world.units[4];
            assert!(!far.engine.peer_ports(far.peer).unwrap().contains(port(1)));
            assert_eq!(world.updates[..4], [1, 0, 0, 0]);

            // The last queue pair goes: the first shard forgets.
            let peer = world.units[0].peer;
            assert_eq!(world.units[0].engine.remove_peer(peer), Err(TableError::Busy("peer")));
            let profile = world.units[0].profile;
            assert_eq!(world.units[0].engine.ev_profile_info(profile).unwrap().users, 1);
            assert_eq!(world.units[0].engine.destroy_ev_profile(profile), Err(ProfileError::Busy { users: 1 }));
            for nth in 0..QPS {
                let qp = world.units[3].qps[nth];
                world.units[3].engine.destroy_qp(qp).unwrap();
            }
            let own = world.units[3].peer;
            assert_eq!(
                world.units[3].engine.remove_peer(own),
                Err(TableError::Busy("peer")),
                "shard 0 does not know yet"
            );
            world.drain(3);
            world.run(SECOND / 10, |_| false);
            assert_eq!(world.units[3].engine.remove_peer(own), Ok(()));
            assert_eq!(world.units[0].engine.ev_profile_info(profile).unwrap().users, 0);
            world.updates.fill(0);
            (0..3).for_each(|n| world.push(0, n, Input::Port(port(1), true)));
            world.run(SECOND, |_| false);
            assert_eq!(world.updates[..4], [0; 4], "nobody there cares");
            assert_eq!(world.units[0].engine.remove_peer(peer), Ok(()));
        },
    );
}

/// The first shard hears of the first queue pair towards a peer, when it can receive, and of no other one.
//= EPOP-006 test
#[test]
fn the_first_queue_pair_towards_a_peer_is_told() {
    world(
        2,
        |_| {},
        |world| {
            let now = world.now;
            let unit = &mut world.units[1];
            let (peer, profile, qps) = (unit.peer, unit.profile, unit.qps.clone());
            for (nth, qp) in qps.into_iter().enumerate() {
                unit.engine.modify_to_init(qp).unwrap();
                let rtr = RtrAttr::software(peer, Qpn::new(40), Psn::new(0), profile);
                unit.engine.modify_to_rtr(now, qp, &rtr).unwrap();
                let told = unit.engine.poll_shard_message().map(|message| (message.to, message.news));
                let used =
                    ShardNews::PeerUsed { local: addr(0), remote: addr(1), profile: Some(profile), entered_rts: false };
                assert_eq!(told, (nth == 0).then_some((Some(0), used)), "queue pair {nth}");
            }
        },
    );
}

/// A shard that begins to use a peer hears which ports the peer lost before.
//= EPOP-005 test
#[test]
fn a_shard_that_comes_later_hears_what_was_said_before() {
    world(
        4,
        |_| {},
        |world| {
            world.connect(0);
            world.run(SECOND, |_| false);
            // Shard 2 of host 1 forgets the peer and adds it again, after host 0 lost a port.
            (0..4).for_each(|n| world.push(0, n, Input::Port(port(2), false)));
            world.run(SECOND / 10, |_| false);
            let late = &mut world.units[6];
            let again = ShardMessage {
                from: 0,
                to: None,
                news: ShardNews::PeerPorts { local: addr(1), remote: addr(0), ports: PortMask::ALL },
            };
            late.engine.handle_shard_message(world.now, &again).unwrap();
            assert!(late.engine.peer_ports(late.peer).unwrap().contains(port(2)), "as if it had not heard");
            world.connect(1);
            world.run(SECOND / 10, |_| false);
            let late = &world.units[6];
            assert!(!late.engine.peer_ports(late.peer).unwrap().contains(port(2)));
        },
    );
}

fn addr(host: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = host;
    Ip::V6(octets)
}

/// Every shard probes a path; the answers, which all go to QP 2, come to who asked.
//= EPOP-001, EPOP-002 test
#[test]
fn answers_to_probes_come_to_the_shard_that_asked() {
    world(
        8,
        |_| {},
        |world| {
            (0..8).for_each(|n| world.connect(n));
            // Updates of ports have been answered, and the limit of answers has room for 32.
            world.run(SECOND / 10, |_| false);
            for n in 0..8usize {
                let peer = world.units[n].peer;
                for path in 0..4u32 {
                    let request = OpRequest {
                        cookie: n as u64 * 100 + u64::from(path),
                        op: EndpointOp::EvProbe,
                        ports: PortMask::NONE,
                        path: EvEntry::new(Ev(path), port(1)),
                        dscp: None,
                        timeout_ns: 10 * FLIGHT_NS,
                    };
                    world.units[n].engine.post_endpoint_op(peer, &request).unwrap();
                }
                world.drain(n);
            }
            world.run(SECOND / 10, |_| false);
            for n in 0..8usize {
                let unit = &mut world.units[n];
                let mut outcomes: Vec<_> = std::iter::from_fn(|| unit.engine.poll_endpoint_op()).collect();
                outcomes.sort_by_key(|outcome| outcome.cookie);
                let cookies: Vec<u64> = outcomes.iter().map(|outcome| outcome.cookie).collect();
                assert_eq!(cookies, (0..4).map(|path| n as u64 * 100 + path).collect::<Vec<_>>());
                for outcome in outcomes {
                    let answer = outcome.answer.expect("a path that works");
                    let carried = if n == 0 { 0 } else { 700 };
                    assert_eq!(answer.rtt_ns, 2 * FLIGHT_NS + carried, "shard {n}");
                }
            }
            assert_eq!(world.units[0].engine.stats().discarded(mrc_core::Discard::StaleProbe), 0);
        },
    );
}

/// One shard finds out that an EV is bad; the others avoid it before they lose a packet on it, and nobody is told twice.
//= SET-003 test
#[test]
fn bad_evs_are_known_to_all_shards() {
    world(
        8,
        |_| {},
        |world| {
            (0..8).for_each(|n| world.connect(n));
            world.dead.insert(Ev(3));
            for _ in 0..8 {
                world.post(5);
                world.run(SECOND, |world| world.units[5].done.len().is_multiple_of(QPS));
                world.run(SECOND / 10, |_| false);
            }
            assert!(world.units[5].engine.stats().ev_assumed_bad > 0, "shard 5 found out");
            for n in [0, 2, 7] {
                world.post(n);
                assert!(world.run(SECOND, |world| world.done(n.into()) >= QPS));
                let stats = world.units[usize::from(n)].engine.stats();
                assert!(stats.ev_learned_bad > 0, "shard {n} was told");
                assert_eq!(stats.retransmitted, 0, "shard {n} lost nothing");
            }
            world.run(SECOND / 10, |_| false);
            assert!(
                world.events.values().all(|(_, input)| !matches!(input, Input::News(_))),
                "news do not go in circles"
            );
        },
    );
}

#[test]
fn messages_that_are_not_for_a_shard_are_refused() {
    world(
        2,
        |_| {},
        |world| {
            world.connect(0);
            let engine = &mut world.units[1].engine;
            let (local, remote) = (addr(0), addr(1));
            let ports = ShardNews::PeerPorts { local, remote, ports: PortMask::NONE };
            let used = ShardNews::PeerUsed { local, remote, profile: None, entered_rts: false };
            let strange = ShardNews::PeerPorts { local: remote, remote, ports: PortMask::NONE };
            let bad = |entry: u32| ShardNews::BadEv {
                profile: mrc_core::EvProfileHandle::from_index(entry >> 16),
                entry: entry as u16,
            };
            let (op, timestamp) = (EndpointOp::EvProbe, 0);
            let response = ShardNews::Response { local, remote, id: 0x8000, op, timestamp, port: port(1) };
            let cases = [
                (1, None, ports, ShardError::Misdirected),
                (2, None, ports, ShardError::Misdirected),
                (0, Some(0), ports, ShardError::Misdirected),
                (0, Some(1), used, ShardError::Misdirected),
                (0, None, strange, ShardError::Peer),
                (0, None, bad(16), ShardError::Profile),
                (0, None, bad(9 << 16), ShardError::Profile),
                (0, Some(1), response, ShardError::Late),
            ];
            for (from, to, news, want) in cases {
                let message = ShardMessage { from, to, news };
                assert_eq!(engine.handle_shard_message(world.now, &message), Err(want), "{message:?}");
            }
            let unit = &world.units[1];
            assert_eq!(unit.engine.qp_info(unit.qps[0]).unwrap().state, QpState::Reset);
        },
    );
}

/// What a shard tells the first one at each state of its queue pair: only entry to RTS is a reason to tell a peer of our ports.
//= EPOP-006 test
#[test]
fn the_first_shard_hears_whether_a_queue_pair_entered_rts() {
    world(
        4,
        |_| {},
        |world| {
            let far = world.units[4].qps[0];
            let unit = &mut world.units[3];
            let (now, peer, profile, engine) = (world.now, unit.peer, unit.profile, &mut unit.engine);
            let told = |engine: &mut Endpoint<'_>, profile, entered_rts| {
                let news = ShardNews::PeerUsed { local: addr(0), remote: addr(1), profile, entered_rts };
                assert_eq!(engine.poll_shard_message(), Some(ShardMessage { from: 3, to: Some(0), news }));
                assert_eq!(engine.poll_shard_message(), None);
            };
            for (nth, polls) in [(0, true), (1, false)] {
                let qp = unit.qps[nth];
                engine.modify_to_init(qp).unwrap();
                let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile);
                engine.modify_to_rtr(now, qp, &rtr).unwrap();
                if polls {
                    told(engine, Some(profile), false);
                }
                engine.modify_to_rts(now, qp, &RtsAttr::software(Psn::new(0))).unwrap();
                if polls {
                    told(engine, Some(profile), true);
                }
                engine.destroy_qp(qp).unwrap();
                told(engine, None, false);
            }
            let first = &mut world.units[0];
            first.connect(world.now, 0, far);
            assert_eq!(first.engine.poll_shard_message(), None, "the first shard tells nobody");
        },
    );
}

/// A node may be registered again between what a shard says first and what it says last: the older registration is free then.
#[test]
fn an_older_registration_hears_that_a_shard_uses_it_no_longer() {
    world(
        2,
        |_| {},
        |world| {
            let Unit { engine, peer, profile, .. } = &mut world.units[0];
            let say = |engine: &mut Endpoint<'_>, profile| {
                let news =
                    ShardNews::PeerUsed { local: addr(0), remote: addr(1), profile, entered_rts: profile.is_some() };
                engine.handle_shard_message(world.now, &ShardMessage { from: 1, to: Some(0), news }).unwrap();
            };
            say(engine, Some(*profile));
            assert_eq!(engine.remove_peer(*peer), Err(TableError::Busy("peer")));
            let mut planes = [None; MAX_PORTS];
            planes[0] = Some(PlanePath { next_hop: [2; 6], outer_src: None });
            let (local, remote) = (addr(0), addr(1));
            let again = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
            engine.add_peer(&again).unwrap();
            say(engine, None);
            assert_eq!(engine.remove_peer(*peer), Ok(()));
        },
    );
}

/// The first shard loses its own queue pairs while the peer has not answered it: it goes on for those of another shard.
//= EPOP-006 test
#[test]
fn the_first_shard_repeats_updates_for_the_others() {
    world(
        4,
        |_| {},
        |world| {
            world.connect(0);
            world.connect(3);
            world.run(SECOND, |_| false);
            world.updates.fill(0);
            world.push(0, 0, Input::Port(port(1), false));
            world.run(1, |_| false);
            assert_eq!(world.updates[0], 1);
            world.events.clear();
            for qp in world.units[0].qps.clone() {
                world.units[0].engine.destroy_qp(qp).unwrap();
            }
            world.drain(0);
            world.run(SECOND, |_| false);
            assert_eq!(world.updates[0], 2, "lost, and repeated once");
            let far = &world.units[4];
            assert!(!far.engine.peer_ports(far.peer).unwrap().contains(port(1)));
        },
    );
}

/// A shard that hears of a mask from another one does as if the peer had told it: it raises one event, and for a while
/// believes no packet from the masked port.
//= EPOP-005, EPOP-008 test
#[test]
fn a_mask_heard_from_another_shard_holds_as_one_from_the_peer() {
    world(
        2,
        |_| {},
        |world| {
            world.connect(1);
            world.run(SECOND, |_| false);
            let one = PortMask::first(2).without(port(2));
            let events = |world: &mut World<'_>| {
                let engine = &mut world.units[1].engine;
                let ports = |event| if let Event::PeerPorts { ports, .. } = event { Some(ports) } else { None };
                std::iter::from_fn(|| engine.poll_event()).filter_map(ports).collect::<Vec<_>>()
            };
            events(world);
            let hear = |world: &mut World<'_>, ports| {
                let (news, now) = (ShardNews::PeerPorts { local: addr(0), remote: addr(1), ports }, world.now);
                let message = ShardMessage { from: 0, to: None, news };
                world.units[1].engine.handle_shard_message(now, &message).unwrap();
            };
            let before = world.units[1].engine.stats().peer_ports_changed;
            hear(world, one);
            assert_eq!(events(world), [one]);
            assert_eq!(world.units[1].engine.stats().peer_ports_changed, before + 1);
            // Acknowledgements come back through both ports.
            let after_ns = world.units[1].engine.config().port_unmask_after_ns;
            world.post(1);
            assert!(world.run(after_ns / 2, |world| world.done(1) == QPS));
            assert!(world.units[1].engine.stats().ports[1].rx_packets > 0);
            assert_eq!(events(world), []);
            world.run(after_ns, |_| false);
            world.post(1);
            assert!(world.run(after_ns, |world| world.done(1) == 2 * QPS));
            assert_eq!(events(world).len(), 1, "unmasked by a packet");
            let known = world.units[1].engine.peer_ports(world.units[1].peer).unwrap();
            hear(world, known);
            assert_eq!(events(world), [], "nothing new");
        },
    );
}

/// The example of the documentation, a thread per shard.
#[test]
fn two_shards_with_threads() {
    assert_eq!(shards::run(2), (2 * 2 * QPS, 2));
}

/// As above.
#[test]
fn eight_shards_with_threads() {
    assert_eq!(shards::run(8), (2 * 8 * QPS, 8));
}
