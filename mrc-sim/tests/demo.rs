//! The engine on the fabric: the story of `mrc demo`, short enough for a debug build.

use mrc_sim::LinkSpec;
use mrc_sim::demo::{DemoConfig, DemoError, DemoOutcome, run};
use mrc_wire::{Body, Ip, Qpn, WireConfig, parse_frame};

/// 300 virtual ms at 1 Gb/s, in messages of 96 KiB and a little.
fn short() -> DemoConfig {
    DemoConfig {
        duration_ns: 300_000_000,
        cut_at_ns: 100_000_000,
        heal_at_ns: 200_000_000,
        message_bytes: 96 * 1024 + 13,
        samples: 30,
        ..DemoConfig::default()
    }
}

fn quiet(config: &DemoConfig) -> DemoOutcome {
    run(config, &mut |_| {}).unwrap()
}

#[test]
fn a_cut_link_is_retired_bypassed_and_restored() {
    let mut heard = 0;
    let outcome = run(&short(), &mut |sample| heard = sample.at_ns).unwrap();
    assert_eq!(heard, 300_000_000);
    assert_eq!(outcome.mismatch, None);
    assert!(outcome.messages > 500, "{}", outcome.messages);
    assert_eq!(outcome.plane_bytes.iter().sum::<u64>(), outcome.bytes, "each byte was placed once");
    for &bytes in &outcome.plane_bytes {
        assert!((0.4..0.6).contains(&(bytes as f64 / outcome.bytes as f64)), "{:?}", outcome.plane_bytes);
    }
    assert!(outcome.gbit_per_s() > 1.7, "{} of 1.9 Gb/s", outcome.gbit_per_s());
    assert_eq!(outcome.t1_packets.len(), 8);
    assert!(outcome.t1_packets.iter().all(|(_, packets)| *packets > 100), "{:?}", outcome.t1_packets);
    assert!(outcome.lost_in_fabric > 0 && outcome.retransmitted > 0);
    assert!(outcome.ev_assumed_bad >= 1 && outcome.ev_restored >= 1);
    assert_eq!(outcome.cut_link, "p0-t0a-t1b");

    // While the link was down the others carried the load, and nothing stood still for long.
    let between = |from: usize, to: usize| {
        let bytes = |at: usize| outcome.samples[at].plane_bytes.iter().sum::<u64>();
        (bytes(to) - bytes(from)) as f64 * 8.0 / ((to - from) as f64 * 1e7)
    };
    assert!(between(12, 19) > 1.7, "{} Gb/s while cut", between(12, 19));
    assert!(outcome.longest_stall_ns < 20_000_000, "{} ns", outcome.longest_stall_ns);
    assert_eq!(outcome.samples[15].assumed_bad, 2, "one path of each queue pair");
    assert_eq!(outcome.samples[29].good, 16);
}

#[test]
fn the_capture_around_the_cut_parses() {
    let config = DemoConfig { capture: (40, 60), ..short() };
    let outcome = quiet(&config);
    assert_eq!(outcome.capture.len(), 100);
    assert_eq!(outcome.capture.iter().filter(|packet| packet.at.as_nanos() < config.cut_at_ns).count(), 40);
    let (mut writes, mut sacks) = (0, 0);
    for packet in &outcome.capture {
        let any = |_: &Ip| true;
        let frame = parse_frame(&packet.header, packet.wire_len as usize, &WireConfig::default(), any).unwrap();
        if frame.bth.dest_qp == Qpn::ENDPOINT {
            // The receiver looks for ways back.
            assert_eq!(packet.egress, matches!(frame.body, Body::EndpointRequest(_)), "{frame}");
            continue;
        }
        let asks = frame.bth.opcode.is_write() || matches!(frame.body, Body::Probe(_));
        writes += u32::from(frame.bth.opcode.is_write());
        sacks += u32::from(!asks);
        assert_eq!(packet.egress, !asks, "{frame}");
    }
    assert!(writes > 50 && sacks > 5, "{writes} {sacks}");
}

#[test]
fn equal_configurations_give_equal_runs() {
    let config = DemoConfig { duration_ns: 60_000_000, cut_at_ns: 20_000_000, heal_at_ns: 40_000_000, ..short() };
    let (a, b) = (quiet(&config), quiet(&config));
    assert_eq!((a.digest, a.events, &a.samples), (b.digest, b.events, &b.samples));
    assert_ne!(a.digest, quiet(&DemoConfig { seed: 2, ..config }).digest);
}

#[test]
fn no_single_link_between_switches_fails_a_queue_pair() {
    for plane in 0..2 {
        for t0 in 0..2 {
            for t1 in 0..4 {
                let outcome = quiet(&DemoConfig {
                    cut: (plane, t0, t1),
                    duration_ns: 40_000_000,
                    cut_at_ns: 10_000_000,
                    heal_at_ns: 25_000_000,
                    samples: 4,
                    ..short()
                });
                assert_eq!(outcome.mismatch, None);
                assert!(outcome.lost_in_fabric > 0 && outcome.ev_assumed_bad > 0, "{}", outcome.cut_link);
                assert!(outcome.gbit_per_s() > 1.5, "{}: {}", outcome.cut_link, outcome.gbit_per_s());
            }
        }
    }
}

#[test]
fn faster_links_carry_more() {
    let outcome = quiet(&DemoConfig {
        link: LinkSpec::new(100, 500),
        duration_ns: 3_000_000,
        cut_at_ns: 1_000_000,
        heal_at_ns: 2_000_000,
        ..short()
    });
    assert_eq!(outcome.mismatch, None);
    assert!(outcome.gbit_per_s() > 150.0, "{}", outcome.gbit_per_s());
}

#[test]
fn impossible_stories_are_refused() {
    for config in [
        DemoConfig { t1: 1, ..short() },
        DemoConfig { cut: (2, 0, 0), ..short() },
        DemoConfig { cut: (0, 0, 4), ..short() },
        DemoConfig { message_bytes: 0, ..short() },
        DemoConfig { qps: 0, ..short() },
        DemoConfig { message_bytes: 64 << 20, depth: 5, ..short() },
        DemoConfig { samples: 0, ..short() },
        DemoConfig { heal_at_ns: 100_000_000, ..short() },
    ] {
        assert!(matches!(run(&config, &mut |_| {}), Err(DemoError::Config(_))), "{config:?}");
    }
    assert!(matches!(run(&DemoConfig { planes: 9, ..short() }, &mut |_| {}), Err(DemoError::Host(_))));
}
