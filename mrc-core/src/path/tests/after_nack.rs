//! The retransmission of a packet that a NACK refused.

use super::*;

impl Qp {
    fn again(&mut self, ports: PortMask, nacked: EvIndex) -> Option<EvIndex> {
        let ev = self.slots[usize::from(nacked.0)].ev();
        let Qp { set, slots, order, cfg, rng, now } = self;
        set.select_after_nack(*now, slots, order, ports, ev, cfg, rng).map(|choice| choice.index)
    }
}

fn only(plane: u8) -> PortMask {
    PortMask::NONE.with(PortNum::from_plane(plane))
}

/// Another port that is merely busy will do soon; the knob does not wait.
//= SND-005 test
#[test]
fn a_busy_port_is_worth_the_wait() {
    for (reuse, expected) in [(false, None), (true, Some(EvIndex(0)))] {
        let mut qp = Qp::spray(2, 1, 0, |cfg| cfg.reuse_nacked_ev = reuse);
        let plane = qp.slots[0].plane() as u8;
        for _ in 0..20 {
            assert_eq!(qp.again(only(plane), EvIndex(0)), expected);
            assert_eq!(qp.again(ALL, EvIndex(0)), Some(EvIndex(1)));
        }
        // A port that is down will not.
        qp.set.set_usable_ports(only(plane));
        assert_eq!(qp.again(only(plane), EvIndex(0)), Some(EvIndex(0)));
    }
}

/// A healthy EV in reserve comes before a bad one.
//= SND-005 test
#[test]
fn the_reserve_serves() {
    let mut qp = Qp::spray(1, 1, 2, |_| {});
    let active = qp.indices(EvSlot::is_active)[0];
    let backups = qp.indices(|slot| !slot.is_active());
    qp.feed(backups[0], Feedback::Timeout);
    for _ in 0..20 {
        assert_eq!(qp.again(ALL, active), Some(backups[1]));
    }
    qp.check(1, 1);
}

/// Bad EVs carry one packet per base RTT, none that the controller has denied, and none without last resort.
//= SND-005, SEL-005 test
#[test]
fn a_bad_ev_is_tried_before_the_one_that_was_named() {
    for last_resort in [true, false] {
        let mut qp = Qp::spray(1, 3, 0, |cfg| cfg.last_resort = last_resort);
        qp.deny(EvIndex(0));
        qp.feed(EvIndex(1), Feedback::Timeout);
        for _ in 0..20 {
            qp.sleep(qp.cfg.base_rtt_ns);
            if last_resort {
                assert_eq!(qp.again(ALL, EvIndex(2)), Some(EvIndex(1)));
                assert_eq!(qp.again(ALL, EvIndex(2)), None);
                assert!(qp.set.next_timeout() <= qp.now.after(qp.cfg.base_rtt_ns));
            } else {
                assert_eq!(qp.again(ALL, EvIndex(2)), Some(EvIndex(2)));
            }
        }
    }
}

/// What has no other EV does not stop: one in the profile, one that is not denied, or a policy that keeps to its path.
#[test]
fn the_only_ev_is_used_again() {
    let mut one = Qp::spray(1, 1, 0, |_| {});
    let pinned = Selector::Pinned(EvIndex(3));
    let mut pinned = Qp::with(pinned, &profile(1, 8), PathConfig::default(), 1);
    let mut denied = Qp::spray(1, 2, 0, |_| {});
    denied.deny(EvIndex(1));
    for qp in [&mut one, &mut pinned, &mut denied] {
        for _ in 0..20 {
            qp.feed(EvIndex(0), Feedback::Trimmed);
            assert_eq!(qp.again(ALL, EvIndex(0)), Some(EvIndex(0)));
        }
    }
}
