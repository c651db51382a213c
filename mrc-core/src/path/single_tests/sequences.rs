//! Random event sequences: what holds for every policy whatever happens.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Select(u8),
    Feed(u16, Feedback),
    Poll,
    Sleep(u64),
    Deny(u16),
    Allow(u16),
    Usable(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let feedback = prop_oneof![
        4 => (0u64..200_000, 0u32..5_000, 0u16..300)
            .prop_map(|(rtt_ns, psn, behind)| Feedback::Rtt { rtt_ns, psn: Psn::new(psn), behind }),
        2 => (0u64..200_000).prop_map(|rtt_ns| Feedback::ProbeRtt { rtt_ns }),
        3 => prop_oneof![Just(Verdict::None), Just(Verdict::SkipOnce), Just(Verdict::AlwaysSkip)].prop_map(Feedback::Sack),
        1 => Just(Feedback::Timeout),
        1 => any::<bool>().prop_map(|trim_nack| Feedback::Loss { trim_nack }),
        1 => Just(Feedback::ProbeAnswer(Verdict::None)),
        1 => Just(Feedback::ProbeLost),
        1 => Just(Feedback::Trimmed),
    ];
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Select),
        8 => (0u16..14, feedback).prop_map(|(index, what)| Step::Feed(index, what)),
        3 => Just(Step::Poll),
        4 => (0u64..40_000).prop_map(Step::Sleep),
        1 => (0u16..12).prop_map(Step::Deny),
        1 => (0u16..12).prop_map(Step::Allow),
        1 => any::<u8>().prop_map(Step::Usable),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens: packets leave on given ports; the path changes for a reason only; probes go to paths that may be
    /// probed and to no more than two in an epoch; a pause ends by itself.
    #[test]
    fn any_sequence_keeps_to_one_path(
        seed in any::<u64>(),
        which in 0..3,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let hopper = which == 0;
        let selector = match which {
            0 => Selector::Hopper(HopperConfig::default()),
            1 => Selector::FlowBender(FlowBenderConfig::default()),
            _ => Selector::Plb(PlbConfig { rounds: 2, idle_rounds: 1, ..PlbConfig::default() }),
        };
        let mut qp = Qp::new(selector, 3, 12, seed);
        qp.cfg.ev_min_active = 0;
        let mut usable = ALL;
        let mut last: Option<EvIndex> = None;
        let mut reason = true;
        for step in steps {
            match step {
                Step::Select(mask) => {
                    let mut ports = PortMask::NONE;
                    for plane in 0..3u8 {
                        let port = PortNum::from_plane(plane);
                        if mask & 1 << plane != 0 && usable.contains(port) {
                            ports = ports.with(port);
                        }
                    }
                    let choice = qp.select(ports);
                    if let Some(index) = choice {
                        let slot = qp.slots[index.0 as usize];
                        prop_assert!(ports.contains(slot.port()) && slot.state() != EvState::Denied);
                        if slot.is_healthy() {
                            if let Some(last) = last.filter(|&last| last != index) {
                                let old = qp.slots[last.0 as usize];
                                let lost = !old.is_healthy() || !usable.contains(old.port());
                                prop_assert!(reason || lost, "moved from {last:?} to {index:?} without a reason");
                            }
                            (last, reason) = (Some(index), false);
                        }
                    } else if qp.set.next_timeout() != Instant::FAR {
                        prop_assert!(qp.set.next_timeout().since(qp.now) <= 1_000_000_000);
                    }
                }
                Step::Feed(index, what) => {
                    // Only delay, here or elsewhere, marks, losses and timeouts may move a flow whose path is healthy.
                    reason |= match what {
                        Feedback::ProbeAnswer(_) | Feedback::ProbeLost => false,
                        Feedback::ProbeRtt { .. } => hopper,
                        _ => true,
                    };
                    qp.feed(EvIndex(index), what);
                }
                Step::Poll => {
                    let asked = qp.probes();
                    let good = asked.iter().filter(|&&i| qp.slots[i.0 as usize].is_healthy()).count();
                    prop_assert!(good <= 2 && (good == 0 || hopper), "{asked:?}");
                    prop_assert!(!qp.set.wants_probe());
                }
                Step::Sleep(ns) => qp.sleep(ns),
                Step::Deny(index) => {
                    qp.set.set_denied(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Allow(index) => {
                    qp.set.set_good(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Usable(mask) => {
                    usable = PortMask::NONE;
                    for plane in (0..3u8).filter(|plane| mask & 1 << plane != 0) {
                        usable = usable.with(PortNum::from_plane(plane));
                    }
                    qp.set.set_usable_ports(usable);
                }
            }
        }
        // With everything allowed, up and a while later, a packet leaves.
        qp.set.set_usable_ports(ALL);
        qp.sleep(1_000_000);
        prop_assert!(qp.select(ALL).is_some());
    }
    /// Whatever happens to the policies that spray over chosen paths: packets leave on given ports and never on denied EVs,
    /// and nothing stops them for good.
    #[test]
    fn any_sequence_leaves_by_free_ports(
        seed in any::<u64>(),
        reps in any::<bool>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let selector = if reps {
            Selector::Reps(RepsConfig { explore_packets: 3, ..RepsConfig::default() })
        } else {
            Selector::FlowingJumping(FlowingJumpingConfig { demand_packets: 5, ..FlowingJumpingConfig::default() })
        };
        let mut qp = Qp::new(selector, 3, 12, seed);
        qp.cfg.ev_min_active = 0;
        for step in steps {
            match step {
                Step::Select(mask) => {
                    let mut ports = PortMask::NONE;
                    for plane in (0..3u8).filter(|plane| mask & 1 << plane != 0) {
                        ports = ports.with(PortNum::from_plane(plane));
                    }
                    let ports = ports.and(qp.set.usable_ports());
                    if let Some(index) = qp.select(ports) {
                        let slot = qp.slots[index.0 as usize];
                        prop_assert!(ports.contains(slot.port()) && slot.state() != EvState::Denied);
                    }
                }
                Step::Feed(index, what) => {
                    qp.feed(EvIndex(index), what);
                }
                Step::Poll => {
                    prop_assert!(qp.probes().len() <= 5);
                }
                Step::Sleep(ns) => qp.sleep(ns),
                Step::Deny(index) => {
                    qp.set.set_denied(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Allow(index) => {
                    qp.set.set_good(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Usable(mask) => {
                    let mut usable = PortMask::NONE;
                    for plane in (0..3u8).filter(|plane| mask & 1 << plane != 0) {
                        usable = usable.with(PortNum::from_plane(plane));
                    }
                    qp.set.set_usable_ports(usable);
                }
            }
        }
        qp.set.set_usable_ports(ALL);
        qp.sleep(1_000_000);
        prop_assert!(qp.select(ALL).is_some());
    }
}
