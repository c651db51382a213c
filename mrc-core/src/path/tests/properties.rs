//! A path set beside a model of it: whatever is asked and fed, the invariants of `paths.md` 6 to 8 hold.

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

/// `paths.md` 7 read once more, row by row, by somebody who has not seen `state.rs`.
fn model(from: EvState, what: Feedback, oks: &mut u8, cfg: &PathConfig, must_stay: bool) -> EvState {
    let bad = if must_stay { EvState::Skip } else { EvState::AssumedBad };
    let skip = if from == EvState::Good { EvState::Skip } else { from };
    if from == EvState::Denied {
        return from;
    }
    if from == EvState::AssumedBad {
        return match what {
            Feedback::ProbeAnswer(Verdict::AlwaysSkip) | Feedback::ProbeLost => {
                *oks = 0;
                from
            }
            Feedback::ProbeAnswer(verdict) => {
                *oks += 1;
                match (*oks >= cfg.resurrect_probes, verdict) {
                    (false, _) => from,
                    (true, Verdict::SkipOnce) => EvState::Skip,
                    (true, _) => EvState::Good,
                }
            }
            _ => from,
        };
    }
    match what {
        Feedback::Sack(Verdict::SkipOnce) | Feedback::Trimmed => skip,
        Feedback::Sack(Verdict::AlwaysSkip) | Feedback::Timeout => bad,
        Feedback::Loss { trim_nack: true } => bad,
        Feedback::Loss { trim_nack: false } => skip,
        _ => from,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Select { ports: u32 },
    Feed { ev: u16, what: Feedback },
    Deny { ev: u16 },
    Allow { ev: u16 },
    Sleep { us: u16 },
    Poll { ports: u32 },
    Answer { nth: u8, what: Feedback },
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![4 => Just(Verdict::None), 2 => Just(Verdict::SkipOnce), 1 => Just(Verdict::AlwaysSkip)]
}

fn feedback() -> impl Strategy<Value = Feedback> {
    prop_oneof![
        4 => verdict().prop_map(Feedback::Sack),
        2 => Just(Feedback::Trimmed),
        1 => Just(Feedback::TrimmedLastHop),
        1 => Just(Feedback::OtherNack),
        6 => Just(Feedback::Timeout),
        2 => any::<bool>().prop_map(|trim_nack| Feedback::Loss { trim_nack }),
        2 => probe_result(),
        1 => Just(Feedback::Rtt { rtt_ns: 5, psn: mrc_wire::Psn::new(9), behind: 2 }),
    ]
}

fn probe_result() -> impl Strategy<Value = Feedback> {
    prop_oneof![verdict().prop_map(Feedback::ProbeAnswer), Just(Feedback::ProbeLost)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u32..16).prop_map(|ports| Step::Select { ports: ports << 1 }),
        8 => (0u16..40, feedback()).prop_map(|(ev, what)| Step::Feed { ev, what }),
        1 => (0u16..40).prop_map(|ev| Step::Deny { ev }),
        1 => (0u16..40).prop_map(|ev| Step::Allow { ev }),
        3 => (0u16..3000).prop_map(|us| Step::Sleep { us }),
        4 => (0u32..16).prop_map(|ports| Step::Poll { ports: ports << 1 }),
        3 => (0u8..4, probe_result()).prop_map(|(nth, what)| Step::Answer { nth, what }),
    ]
}

/// Plays `steps` and checks every answer against the model and the invariants.
fn play(seed: u64, planes: u8, min_active: u16, resurrect_probes: u8, steps: &[Step]) {
    let cfg = PathConfig {
        active: 4 * planes as u16,
        backup: 4 * planes as u16,
        ev_min_active: min_active,
        resurrect_probes,
        ..PathConfig::default()
    };
    let mut qp = Qp::with(Selector::Spray, &profile(planes, 9 * planes as u16), cfg, seed);
    let mut oks = vec![0u8; qp.slots.len()];
    let mut out: Vec<EvIndex> = Vec::new();
    for &step in steps {
        let before: Vec<EvState> = qp.slots.iter().map(EvSlot::state).collect();
        match step {
            Step::Sleep { us } => qp.sleep(us as u64 * 1000),
            Step::Select { ports } => check_select(&mut qp, PortMask::from_bits(ports), &before),
            Step::Feed { ev, what } => check_feedback(&mut qp, EvIndex(ev), what, &mut oks),
            Step::Answer { nth, what } => {
                if !out.is_empty() {
                    let ev = out.remove(nth as usize % out.len());
                    check_feedback(&mut qp, ev, what, &mut oks);
                }
            }
            Step::Deny { ev } | Step::Allow { ev } if ev as usize >= qp.set.universe() => {}
            Step::Deny { ev } => {
                let changed = qp.deny(EvIndex(ev));
                assert_eq!(changed.is_some(), before[ev as usize] != EvState::Denied);
                assert_eq!(qp.state(EvIndex(ev)), EvState::Denied);
                oks[ev as usize] = 0;
            }
            Step::Allow { ev } => {
                qp.allow(EvIndex(ev));
                assert_eq!(qp.state(EvIndex(ev)), EvState::Good);
                oks[ev as usize] = 0;
            }
            Step::Poll { ports } => {
                let (ports, promised) = (PortMask::from_bits(ports), qp.set.next_timeout());
                let free = qp.indices(|s| s.state() == EvState::AssumedBad && !s.is_probing());
                if let Some(choice) = qp.poll(ports, false) {
                    assert!(promised <= qp.now, "next_timeout came too late");
                    assert!(ports.contains(choice.port));
                    assert!(free.contains(&choice.index) || out.contains(&choice.index));
                    out.push(choice.index);
                } else {
                    assert!(qp.set.next_timeout() > qp.now, "nothing to do, yet due");
                }
            }
        }
        qp.check(planes, 4);
    }
}

fn check_select(qp: &mut Qp, ports: PortMask, before: &[EvState]) {
    let choice = qp.select(ports);
    let resets = (0u16..).zip(before).filter(|&(i, &old)| qp.state(EvIndex(i)) != old).count();
    assert!(resets <= 1, "at most one reset per packet");
    for (i, &old) in (0u16..).zip(before) {
        let new = qp.state(EvIndex(i));
        assert!(new == old || (old, new) == (EvState::Skip, EvState::Good), "{old:?} to {new:?} by a selection");
    }
    let on_port = |s: &EvSlot| ports.contains(s.port());
    match choice {
        Some(choice) => {
            assert!(ports.contains(choice.port));
            let healthy = qp.indices(EvSlot::is_healthy);
            match qp.state(choice.index) {
                EvState::AssumedBad => assert!(healthy.is_empty(), "the last resort while there are others"),
                EvState::Skip => assert_eq!(resets, 1, "the skip of another ended, on a port without room"),
                state => assert_eq!(state, EvState::Good),
            }
        }
        None => assert!(qp.indices(|s| s.is_active() && s.state() == EvState::Good && on_port(s)).is_empty()),
    }
}

fn check_feedback(qp: &mut Qp, index: EvIndex, what: Feedback, oks: &mut [u8]) {
    let at = index.0 as usize;
    if at >= qp.set.universe() {
        assert_eq!(qp.feed(index, what), None);
        return;
    }
    let slot = qp.slots[at];
    let spare = qp.indices(|s| s.plane() == slot.plane() && s.is_healthy() && !s.is_active());
    let active = qp.set.counts().active;
    let must_stay = slot.is_active() && spare.is_empty() && active <= qp.cfg.ev_min_active;
    let want = model(slot.state(), what, &mut oks[at], &qp.cfg, must_stay);
    let got = qp.feed(index, what);
    assert_eq!(qp.state(index), want, "{:?} with {what:?}", slot.state());
    assert_eq!(got.map(|t| (t.from, t.to)), (want != slot.state()).then_some((slot.state(), want)));
    if want != slot.state() {
        oks[at] = 0;
    }
    if active >= qp.cfg.ev_min_active {
        assert!(qp.set.counts().active >= qp.cfg.ev_min_active, "ev_min_active");
    }
}

proptest! {
    // A failure prints its seed and the shortest steps that show it; nothing is written into the source tree.
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_keeps_the_invariants(
        seed in any::<u64>(),
        planes in 1u8..=4,
        min_active in 0u16..=6,
        resurrect_probes in 1u8..=3,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(seed, planes, min_active, resurrect_probes, &steps);
    }

    #[test]
    fn foreign_slices_do_no_harm(
        seed in any::<u64>(),
        slots in 0usize..20,
        order in prop::collection::vec(any::<u16>(), 0..20),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut qp = Qp::spray(2, 4, 2, |_| {});
        qp.slots = vec![EvSlot::new(Ev(1), PortNum::from_plane(200), 9, EvState::Good); slots];
        qp.order = order;
        qp.rng = Rng::new(seed);
        for step in steps {
            match step {
                Step::Select { ports } => _ = qp.select(PortMask::from_bits(ports)),
                Step::Feed { ev, what } => _ = qp.feed(EvIndex(ev), what),
                Step::Deny { ev } => {
                    let _ = qp.set.set_denied(&mut qp.slots, &mut qp.order, EvIndex(ev), &mut qp.rng);
                }
                Step::Allow { ev } => {
                    let _ = qp.set.set_good(&mut qp.slots, &mut qp.order, EvIndex(ev), &mut qp.rng);
                }
                Step::Sleep { us } => qp.sleep(us as u64 * 1000),
                Step::Poll { ports } => _ = qp.poll(PortMask::from_bits(ports), true),
                Step::Answer { nth, what } => _ = qp.feed(EvIndex(nth as u16), what),
            }
        }
    }
}
