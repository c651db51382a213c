//! What time alone brings about, one deadline at a time: packet timers, tail probes, lost probes.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::{Instant, RetryConfig, Stats};

/// Nothing arrives, so only time acts. T0 = 1.024 us * 2^8; base RTT and target delay are 10 us.
fn alone<R>(f: impl FnOnce(&mut Net<'_>) -> R) -> R {
    let retry = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
    net(1, &Setup { retry, ..Setup::default() }, Weather { dead: true, ..Weather::default() }, f)
}

const T0: u64 = 1_024 << 8;

/// Counters of the sender at `ns`.
fn at(net: &mut Net<'_>, ns: u64) -> Stats {
    net.run(ns, |_| false);
    net.now = net.now.max(Instant::from_nanos(ns));
    *net.sides[0].engine.stats()
}

/// Each packet has its own timer: the second one does not expire with the first.
//= TIMER-001 test
#[test]
fn packets_expire_one_by_one() {
    alone(|net| {
        net.post(0, 0, 0, 100).unwrap();
        at(net, 100_000);
        net.post(0, 1, 100, 100).unwrap();
        assert_eq!(at(net, T0 - 1_000).lost_timeout, 0);
        assert_eq!(at(net, T0 + 1_000).lost_timeout, 1);
        assert_eq!(at(net, T0 + 99_000).lost_timeout, 1);
        let stats = at(net, T0 + 101_000);
        assert_eq!((stats.lost_timeout, stats.retransmitted), (2, 2));
        // The copies have timers of their own, counted from when they left.
        assert_eq!(at(net, 2 * T0 - 1_000).lost_timeout, 2);
        assert_eq!(at(net, 2 * T0 + 2_000).lost_timeout, 3);
        assert_eq!(at(net, 2 * T0 + 102_000).lost_timeout, 4);
    });
}

/// Silence for three round trips draws a probe, then one every five; each that stays unanswered is counted once.
//= PROBE-006 test
#[test]
fn silence_is_probed_at_three_and_every_five_round_trips() {
    alone(|net| {
        net.post(0, 0, 0, 100).unwrap();
        for (ns, probes) in [(29_000, 0), (31_000, 1), (79_000, 1), (81_000, 2)] {
            assert_eq!(at(net, ns).tx_probe, probes, "at {ns} ns");
        }
        // At these round trips patience is 100 us: the first is lost at 130 us, the second at 180.
        for (ns, lost) in [(129_000, 0), (135_000, 1), (179_000, 1), (185_000, 2)] {
            assert_eq!(at(net, ns).probe_lost, lost, "at {ns} ns");
        }
        assert_eq!(at(net, 185_000).tx_data, 1);
    });
}
