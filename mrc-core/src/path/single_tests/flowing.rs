//! Flowing & Jumping: the arithmetic, figure 4 by hand, and what holds for every table and demand.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::{
    super::flowing::{RING, Ring, decay_q16},
    *,
};

fn ring(loads: &[u32]) -> Ring {
    let mut ring = Ring::EMPTY;
    for (nth, &load) in loads.iter().enumerate() {
        ring.add(Instant::ZERO, EvIndex(nth as u16));
        ring.entries[nth].load = load;
    }
    ring
}

fn loads(ring: &Ring) -> Vec<u32> {
    ring.used().iter().map(|entry| entry.load).collect()
}

fn quotas(ring: &Ring) -> Vec<u16> {
    ring.used().iter().map(|entry| entry.quota).collect()
}

fn flowing(tune: impl FnOnce(&mut FlowingJumpingConfig)) -> Qp {
    let mut cfg = FlowingJumpingConfig::default();
    tune(&mut cfg);
    Qp::new(Selector::FlowingJumping(cfg), 2, 16, 3)
}

//= FLJ-001 test
#[test]
fn the_fixed_point_exponential_is_that_of_the_books() {
    for step in 0..4_000u64 {
        let x = step as f64 / 250.0;
        let error = f64::from(decay_q16(step * 32, 250 * 32)) / 65_536.0 - (-x).exp();
        assert!(error.abs() < 1.0 / 8_192.0, "exp(-{x}) is off by {error}");
    }
    assert_eq!((decay_q16(0, 5), decay_q16(u64::MAX, 1), decay_q16(7, 0)), (65_536, 0, 0));
}

//= FLJ-001, FLJ-002 test
#[test]
fn the_load_is_bandwidth_times_delay_aged() {
    let mut state = FlowingState::new(FlowingJumpingConfig::DEFAULT);
    let now = Instant::from_nanos(1_600_000);
    state.ring.add(now, EvIndex(4));
    // 100 Gb/s for 8 us are 100000 bytes; one base round trip later the weight of the old load is 1/e = 0.3679.
    state.on_rtt(now.after(BASE), EvIndex(4), BASE, false, BASE);
    assert!(state.ring.entries[0].load.abs_diff(63_212) < 15, "{}", state.ring.entries[0].load);
    state.on_rtt(now.after(2 * BASE), EvIndex(4), 2 * BASE, false, BASE);
    // 0.3679 * 63212 + 0.6321 * 200000.
    assert!(state.ring.entries[0].load.abs_diff(149_679) < 30, "{}", state.ring.entries[0].load);
    state.on_rtt(now.after(2 * BASE), EvIndex(9), 2 * BASE, false, BASE);
    assert_eq!(loads(&state.ring).len(), 1, "a path that is not on the ring is of no interest");
}

/// Figure 4: six flows; path 1 fills path 2, path 6 fills paths 5 and 7.
//= FLJ-003 test
#[test]
fn demand_flows_to_lighter_neighbours_until_level() {
    let mut table = ring(&[5, 4, 2, 6, 6, 4, 6, 4]);
    assert_eq!(table.flow(1, 6, 1), 2);
    assert_eq!(loads(&table), [5, 4, 4, 6, 6, 4, 6, 4]);
    assert_eq!(table.flow(6, 4, 1), 4);
    assert_eq!(loads(&table), [5, 4, 4, 6, 6, 6, 6, 6]);
    assert_eq!(quotas(&table), [0, 0, 2, 0, 0, 2, 0, 2]);
    // A valley fills itself up to the lower of its neighbours, and the ring closes.
    let mut table = ring(&[1, 4, 9, 6]);
    assert_eq!(table.flow(0, 20, 1), 3);
    assert_eq!(loads(&table), [4, 4, 9, 6]);
    let mut table = ring(&[8, 4, 9, 2]);
    assert_eq!(table.flow(0, 3, 1), 3, "no more than there is");
    assert_eq!(loads(&table), [8, 4, 9, 5]);
}

/// A path between a heavier neighbour and a level one is no valley: nothing is placed there.
//= FLJ-003 test
#[test]
fn only_a_path_below_both_neighbours_fills_itself() {
    for loads_before in [[5, 2, 2, 9], [2, 2, 5, 9]] {
        let mut table = ring(&loads_before);
        assert_eq!(table.flow(1, 20, 1), 0);
        assert_eq!(loads(&table), loads_before);
    }
}

/// Wherever demand jumps to, it goes to where it can flow: a valley is filled before anything is placed on level paths.
//= FLJ-003, FLJ-004 test
#[test]
fn demand_finds_the_valley() {
    for seed in 0..32 {
        let mut table = ring(&[4, 4, 4, 4, 4, 4, 1, 4]);
        table.place(3, 1, &mut Rng::new(seed));
        assert_eq!(loads(&table), [4; 8]);
        table.place(0, 1, &mut Rng::new(seed));
        assert_eq!(quotas(&table).iter().sum::<u16>(), 3);
    }
    // Without a path nothing is placed, and nothing drawn.
    let (mut rng, mut same) = (Rng::new(1), Rng::new(1));
    Ring::EMPTY.clone().place(5, 1, &mut rng);
    assert_eq!(rng.next_u64(), same.next_u64());
}

/// A retransmission does not wait for the port of the ring; and where the ring has no path, the last resort is left.
//= FLJ-006 test
#[test]
fn what_the_ring_cannot_carry_goes_another_way() {
    let mut qp = flowing(|cfg| cfg.paths = 2);
    let first = packets(&mut qp, 64);
    let ring: Vec<EvIndex> = (0..16).filter(|&nth| first[nth as usize] > 0).map(EvIndex).collect();
    // Both paths leave through busy ports, which are up.
    let busy = ring.iter().fold(ALL, |ports, &path| ports.without(qp.port_of(path)));
    let free = if busy.contains(PortNum::from_plane(0)) || busy.contains(PortNum::from_plane(1)) {
        busy
    } else {
        PortMask::NONE
    };
    if !free.is_empty() && free.bits() & 0b110 != 0 {
        assert_eq!(qp.select(free), None, "new packets wait");
        let avoid = qp.slots[usize::from(ring[0].0)].ev();
        let other = qp.set.select_other(qp.now, &mut qp.slots, &mut qp.order, free, avoid, &qp.cfg, &mut qp.rng);
        assert!(other.is_some());
    }
    qp.cfg.ev_min_active = 0;
    for path in 0..16 {
        qp.feed(EvIndex(path), Feedback::Timeout);
    }
    assert!(qp.select(ALL).is_some(), "the last resort");
}

/// Packets go out path by path, and the next demand begins where the last packet went. What waits for a port is placed once.
//= FLJ-003 test
#[test]
fn packets_go_out_path_by_path() {
    let mut qp = flowing(|cfg| (cfg.paths, cfg.demand_packets) = (2, 4));
    let sent: Vec<EvIndex> = (0..8).map(|_| qp.path()).collect();
    let (a, b) = (sent[0], sent[2]);
    assert_eq!(sent, [a, a, b, b, b, b, a, a]);
    let placed = |qp: &Qp| qp.set.loads(&qp.slots).map(|row| u32::from(row.placed_packets)).sum::<u32>();
    for _ in 0..3 {
        assert_eq!((qp.select(PortMask::NONE), placed(&qp)), (None, 4));
    }
}

/// The path that waits longest is probed once per look. One whose probe is under way is passed over at the next look; one whose
/// probe was lost is asked again.
//= FLJ-008 test
#[test]
fn one_path_is_probed_at_a_time() {
    for (lost, again) in [(false, false), (true, true)] {
        let mut qp = flowing(|_| {});
        let first = packets(&mut qp, 64);
        let paths: Vec<EvIndex> = (0..16).filter(|&nth| first[nth as usize] > 0).map(EvIndex).collect();
        assert_eq!(qp.poll(), None);
        qp.sleep(10 * BASE - 1);
        assert_eq!(qp.poll(), None, "nothing is old enough");
        qp.sleep(1);
        paths.iter().skip(1).for_each(|&path| qp.rtt(path, BASE));
        assert_eq!(qp.probes(), [paths[0]]);
        if lost {
            qp.feed(paths[0], Feedback::ProbeLost);
        }
        assert_eq!(qp.set.next_timeout(), qp.now.after(10 * BASE), "one look per refresh");
        qp.sleep(10 * BASE - 1);
        assert_eq!(qp.poll(), None);
        qp.sleep(1);
        assert_eq!(qp.probes() == [paths[0]], again);
    }
}

//= FLJ-004 test
#[test]
fn all_level_takes_packets_one_by_one() {
    let mut table = ring(&[7; 8]);
    table.place(16, 1, &mut Rng::new(1));
    assert_eq!(loads(&table), [9; 8]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The demand is placed exactly, whatever the loads; each packet adds its bytes to the path that takes it.
    //= FLJ-005 test
    #[test]
    fn the_demand_is_placed_exactly(
        start in prop::collection::vec(0u32..1_000_000, 1..=RING),
        demand in 0u16..400,
        bytes in 1u32..9_000,
        seed in any::<u64>(),
    ) {
        let mut table = ring(&start);
        table.place(demand, bytes, &mut Rng::new(seed));
        prop_assert_eq!(quotas(&table).iter().sum::<u16>(), demand);
        for (entry, before) in table.used().iter().zip(start) {
            prop_assert_eq!(entry.load, before + u32::from(entry.quota) * bytes);
        }
    }

    /// Enough demand levels all paths within one packet; less never lifts one above the highest by more than that.
    //= FLJ-005 test
    #[test]
    fn enough_demand_levels_the_paths_within_a_step(
        start in prop::collection::vec(0u32..60, 2..=RING),
        more in 0u16..50,
        seed in any::<u64>(),
    ) {
        const STEP: u32 = 4_096;
        let highest = start.iter().copied().max().unwrap();
        let needed: u32 = start.iter().map(|load| highest - load).sum();
        let scaled: Vec<u32> = start.iter().map(|load| load * STEP).collect();
        let mut table = ring(&scaled);
        table.place(needed as u16 + more, STEP, &mut Rng::new(seed));
        let levels = loads(&table);
        let (least, most) = (levels.iter().min().unwrap(), levels.iter().max().unwrap());
        prop_assert!(most - least <= STEP, "{:?}", levels);
        let mut table = ring(&scaled);
        table.place((needed / 2) as u16, STEP, &mut Rng::new(seed));
        prop_assert!(loads(&table).iter().all(|&load| load <= highest * STEP));
    }
}

/// The packets of a QP by slot.
fn packets(qp: &mut Qp, n: usize) -> Vec<usize> {
    let mut counts = vec![0; 16];
    (0..n).for_each(|_| counts[qp.path().0 as usize] += 1);
    counts
}

//= FLJ-003, FLJ-005 test
#[test]
fn packets_follow_the_placement_and_avoid_the_slow_path() {
    let mut qp = flowing(|_| {});
    let first = packets(&mut qp, 64);
    let paths: Vec<u16> = (0..16).filter(|&nth| first[nth as usize] > 0).collect();
    assert_eq!((paths.len(), first.iter().sum::<usize>()), (8, 64));
    assert!(paths.iter().all(|&path| first[path as usize] == 8), "all level: {first:?}");
    // One path is ten times as slow; a while later its load is ten times that of the others.
    let slow = EvIndex(paths[0]);
    for _ in 0..10 {
        qp.sleep(BASE);
        for &path in &paths {
            qp.rtt(EvIndex(path), if path == slow.0 { 10 * BASE } else { BASE });
        }
    }
    let second = packets(&mut qp, 64);
    assert_eq!(second[slow.0 as usize], 0, "{second:?}");
    assert_eq!(second.iter().sum::<usize>(), 64);
}

//= FLJ-006 test
#[test]
fn a_path_that_cannot_be_used_gives_its_place_to_another() {
    let mut qp = flowing(|_| {});
    let first = packets(&mut qp, 64);
    let gone = EvIndex(first.iter().position(|&n| n > 0).unwrap() as u16);
    qp.feed(gone, Feedback::Timeout);
    let second = packets(&mut qp, 640);
    assert_eq!(second[gone.0 as usize], 0);
    assert_eq!(second.iter().filter(|&&n| n > 0).count(), 8, "another joined: {second:?}");
    // A plane goes down: the ring is drawn anew from the other; a busy port is waited for.
    let (down, up) = (PortNum::from_plane(0), PortMask::NONE.with(PortNum::from_plane(1)));
    qp.set.set_usable_ports(ALL.without(down));
    for _ in 0..200 {
        let path = qp.select(up).unwrap();
        assert_ne!(qp.port_of(path), down);
    }
    assert_eq!(qp.select(PortMask::NONE), None);
    qp.set.set_usable_ports(ALL);
    assert!(qp.select(up).is_some());
}

//= FLJ-009, FLJ-010 test
#[test]
fn telemetry_replaces_round_trips_until_a_probe_comes_back_without_it() {
    let mut qp = flowing(|_| {});
    packets(&mut qp, 64);
    let table = |qp: &Qp| qp.set.loads(&qp.slots).collect::<Vec<_>>();
    let first = table(&qp);
    assert_eq!((first.len(), first[0].bandwidth_mbps, first[0].telemetry), (8, 100_000, false));
    let (near, far) = (first[0].index, first[1].index);
    qp.sleep(100 * BASE);
    qp.rtt(near, BASE);
    let of = |qp: &Qp, path| table(qp).into_iter().find(|row| row.index == path).unwrap();
    assert_eq!((of(&qp, near).delay_ns, of(&qp, far).delay_ns), (8_064, 0), "63 steps of 128 ns; never measured");
    // Two links of 40 Gb/s and 3 us: 15000 bytes, whatever the round trip of the probe says.
    let told = PathTelemetry { bandwidth_mbps: 40_000, delay_ns: 3_000 };
    qp.sleep(100 * BASE);
    qp.feed(near, Feedback::Telemetry(told));
    qp.answer(near, 7 * BASE);
    let row = of(&qp, near);
    assert_eq!((row.delay_ns, row.bandwidth_mbps, row.load_bytes, row.telemetry), (2_944, 40_000, 15_000, true));
    // Data on any path is not timed now.
    qp.sleep(100 * BASE);
    qp.rtt(far, 9 * BASE);
    assert_eq!((of(&qp, far).delay_ns, of(&qp, far).telemetry), (0, true));
    // Eight paths are looked at within one refresh.
    qp.poll();
    let due = qp.set.next_timeout();
    assert!(due <= qp.now.after(10 * BASE / 8 + 1), "{:?}", due.since(qp.now));
    // A probe that no switch wrote into: round trips count again.
    qp.answer(far, 2 * BASE);
    assert_eq!((of(&qp, far).delay_ns, of(&qp, far).telemetry), (16_000, false));
    assert_eq!((of(&qp, far).ev, of(&qp, far).port), (qp.slots[far.0 as usize].ev(), qp.port_of(far)));
    let spray = Qp::new(Selector::Spray, 2, 16, 3);
    assert_eq!(spray.set.loads(&spray.slots).count(), 0, "other selectors keep no loads");
}

//= FLJ-008 test
#[test]
fn a_path_of_which_nothing_was_heard_is_probed() {
    let mut qp = flowing(|_| {});
    assert_eq!(qp.set.next_timeout(), Instant::FAR, "nothing to probe before the first packet");
    let first = packets(&mut qp, 64);
    let paths: Vec<EvIndex> = (0..16).filter(|&nth| first[nth as usize] > 0).map(EvIndex).collect();
    assert!(qp.set.next_timeout() <= qp.now);
    assert_eq!(qp.poll(), None, "all are fresh");
    qp.sleep(10 * BASE);
    paths.iter().skip(1).for_each(|&path| qp.rtt(path, BASE));
    assert_eq!(qp.probes(), [paths[0]], "once");
    qp.answer(paths[0], 3 * BASE);
    qp.sleep(10 * BASE);
    assert_eq!(qp.probes().len(), 1);
    // An idle QP asks nothing, and no timer runs.
    qp.sleep(10 * BASE);
    assert!(qp.set.poll_probe(qp.now, &mut qp.slots, ALL, &qp.cfg, true).is_none());
    assert_eq!(qp.set.next_timeout(), Instant::FAR);
    qp.set.on_busy();
    assert!(qp.set.next_timeout() <= qp.now);
}
