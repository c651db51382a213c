//! The kernel runs the program packet by packet; the tests compare the result with the settings.

use std::io::Write as _;
use std::os::fd::AsFd as _;

use super::program::{ACT_OK, ACT_REDIRECT, ACT_SHOT, TRIMMED_BYTES, draws};
use super::{Words, dscp, load, netlink, sys, threshold, verifier, word, words};
use crate::impair::{Impairment, VirtualQueue};

/// A frame of 14 + 40 + `inner` bytes with this traffic class.
fn frame(dscp: u32, ecn: u8, next_header: u8, inner: usize) -> Vec<u8> {
    let class = (dscp as u8) << 2 | ecn;
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xDD, 0x60 | class >> 4, class << 4 | 0x0A, 0xBC, 0xDE]);
    frame.extend((inner as u16).to_be_bytes());
    frame.extend([next_header, 64]);
    frame.extend((0..32 + inner).map(|n| n as u8));
    frame
}

/// A loaded program: what it does, and what it counted.
struct Loaded(std::os::fd::OwnedFd, std::os::fd::OwnedFd);

impl Loaded {
    /// `None`, with the reason printed, where bpf(2) is not allowed.
    fn new(test: &str, words: &Words) -> Option<Self> {
        match load(words) {
            Ok((program, map)) => Some(Self(program, map)),
            Err((nix::errno::Errno::EPERM, _)) => {
                let _ = writeln!(std::io::stderr(), "SKIP {test}: loading BPF programs is not allowed here");
                None
            }
            Err((errno, log)) => panic!("{errno}: {log}"),
        }
    }

    fn run(&self, frame: &[u8]) -> (i32, Vec<u8>) {
        sys::test_run(self.0.as_fd(), frame).unwrap()
    }

    fn words(&self) -> Words {
        sys::read_map(self.1.as_fd()).unwrap()
    }
}

const ALL: Impairment = Impairment { loss_ppm: 0, trim_ppm: 1_000_000, ce_ppm: 1_000_000, queue: None, seed: 1 };

#[test]
fn trimming_keeps_the_headers_and_says_so() {
    for (last_hop, code) in [(false, dscp::TRIMMED), (true, dscp::TRIMMED_LASTHOP)] {
        let words = words(&ALL, 0, last_hop, false);
        let Some(loaded) = Loaded::new("trimming_keeps_the_headers_and_says_so", &words) else { return };
        for (next_header, keep) in
            [(41, TRIMMED_BYTES as usize), (17, TRIMMED_BYTES as usize), (43, TRIMMED_BYTES as usize + 24)]
        {
            for sent in [dscp::TRIMMABLE, dscp::TRIMMABLE_RETX] {
                let whole = frame(sent, 2, next_header, 1000);
                let (verdict, out) = loaded.run(&whole);
                assert_eq!((verdict, out.len()), (ACT_REDIRECT, keep));
                let mut expected = frame(code, 2, next_header, keep - 54);
                expected[22..].copy_from_slice(&whole[22..keep]);
                assert_eq!(out, expected);
            }
        }
        assert_eq!((loaded.words()[word::TRIMMED], loaded.words()[word::PACKETS]), (6, 6));
        // Too short to be worth it: it stays whole.
        for more in [0, 16] {
            let short = frame(dscp::TRIMMABLE, 0, 41, TRIMMED_BYTES as usize - 54 + more);
            assert_eq!(loaded.run(&short), (ACT_OK, short.clone()));
        }
        let long = frame(dscp::TRIMMABLE, 0, 41, TRIMMED_BYTES as usize - 54 + 17);
        assert_eq!(loaded.run(&long).0, ACT_REDIRECT);
    }
}

#[test]
fn only_what_may_be_trimmed_or_marked_is() {
    let Some(loaded) = Loaded::new("only_what_may_be_trimmed_or_marked_is", &words(&ALL, 0, false, false)) else {
        return;
    };
    for code in (0..64).filter(|code| ![dscp::TRIMMABLE, dscp::TRIMMABLE_RETX].contains(code)) {
        for ecn in 0..4 {
            let sent = frame(code, ecn, 41, 500);
            let priority = [dscp::CONTROL, dscp::TRIMMED, dscp::TRIMMED_LASTHOP].contains(&code);
            let expected = if priority || ecn == 0 { sent.clone() } else { frame(code, 3, 41, 500) };
            assert_eq!(loaded.run(&sent), (ACT_OK, expected), "DSCP {code} ECN {ecn}");
        }
    }
    // ECT(0) and ECT(1) of 59 code points; what is CE already was marked by another.
    assert_eq!(loaded.words()[word::MARKED], 2 * 59);
    let mut other = frame(4, 2, 41, 500);
    other[12..14].copy_from_slice(&[0x08, 0x00]);
    assert_eq!(loaded.run(&other), (ACT_OK, other.clone()));
    for next_header in [0, 58] {
        let other = frame(4, 2, next_header, 500);
        assert_eq!(loaded.run(&other), (ACT_OK, other.clone()));
    }
    assert_eq!(loaded.words()[word::PACKETS], 4 * 62);

    let last_hop = Loaded::new("", &words(&ALL, 0, true, false)).unwrap();
    assert_eq!(last_hop.run(&frame(0, 2, 41, 500)), (ACT_OK, frame(0, 2, 41, 500)));
    let cable = Loaded::new("", &words(&Impairment { loss_ppm: 0, ..ALL }, 0, false, true)).unwrap();
    assert_eq!(cable.run(&frame(4, 2, 41, 500)), (ACT_OK, frame(4, 2, 41, 500)));
}

#[test]
fn chance_is_a_function_of_seed_and_number() {
    let impairment = Impairment { loss_ppm: 10_000, trim_ppm: 100_000, ce_ppm: 200_000, queue: None, seed: 7 };
    let words = words(&impairment, 3, false, false);
    let Some(loaded) = Loaded::new("chance_is_a_function_of_seed_and_number", &words) else { return };
    let mut expected = [0u64; 4];
    for n in 0..20_000 {
        let [loss, trim, ce] = draws(words[word::SEED], n);
        let verdict = loaded.run(&frame(dscp::TRIMMABLE, 2, 41, 300));
        let (code, fate) = if loss < threshold(10_000) {
            (ACT_SHOT, 0)
        } else if trim < threshold(100_000) {
            (ACT_REDIRECT, 1)
        } else if ce < threshold(200_000) {
            (ACT_OK, 2)
        } else {
            (ACT_OK, 3)
        };
        assert_eq!(verdict.0, code, "packet {n}");
        expected[fate] += 1;
    }
    let counted = loaded.words();
    assert_eq!([counted[word::LOST], counted[word::TRIMMED], counted[word::MARKED]], expected[..3]);
    // Five standard deviations of the binomial distributions.
    for (count, mean, sigma) in [(expected[0], 200, 14), (expected[1], 1980, 42), (expected[2], 3564, 54)] {
        assert!(count.abs_diff(mean) <= 5 * sigma, "{expected:?}");
    }
}

#[test]
fn the_queue_marks_then_trims_or_drops() {
    // 8 kbit/s: a millisecond per byte, so that nothing drains while the test runs.
    let queue = VirtualQueue { bits_per_second: 8_000, mark_bytes: 5_000, trim_bytes: 10_000, drop_bytes: 20_000 };
    let words = words(&Impairment { queue: Some(queue), ..Impairment::default() }, 0, false, false);
    let Some(loaded) = Loaded::new("the_queue_marks_then_trims_or_drops", &words) else { return };
    let (bulk, trimmable) = (frame(0, 2, 41, 946), frame(dscp::TRIMMABLE, 2, 41, 946));
    let fates: Vec<i32> = (0..25)
        .map(|_| match loaded.run(&bulk) {
            (ACT_SHOT, _) => 2,
            (_, out) => i32::from(out[15] & 0x30 == 0x30),
        })
        .collect();
    let run = |fate| fates.iter().filter(|seen| **seen == fate).count();
    // The first thousand bytes drain for a moment before the second packet comes: one more may fit.
    assert!((6..=7).contains(&run(0)) && (14..=16).contains(&run(1)) && run(2) >= 3, "{fates:?}");
    assert!(fates.is_sorted(), "{fates:?}");
    assert_eq!(loaded.run(&trimmable).0, ACT_REDIRECT);
    // Control overtakes the queue.
    assert_eq!(loaded.run(&frame(dscp::CONTROL, 0, 41, 946)).0, ACT_OK);
    let counted = loaded.words();
    assert_eq!((counted[word::DROPPED], counted[word::MARKED]), (run(2) as u64, run(1) as u64));
}

#[test]
fn settings_survive_extremes() {
    let queue = |bits_per_second, bytes| VirtualQueue {
        bits_per_second,
        mark_bytes: bytes,
        trim_bytes: bytes,
        drop_bytes: bytes,
    };
    for queue in [queue(1, u64::MAX), queue(u64::MAX, 0), queue(0, 1)] {
        let words = words(&Impairment { queue: Some(queue), ..ALL }, u64::MAX, false, false);
        assert!(words[word::PS_PER_BYTE] > 0);
    }
    assert_eq!((threshold(0), threshold(1_000_000), threshold(u32::MAX)), (0, 1 << 21, 1 << 21));
    assert!(threshold(1) >= 1);
}

#[test]
fn a_refusal_shows_what_the_verifier_said() {
    let text = verifier((nix::errno::Errno::EACCES, "0: (95) exit\nR0 !read_ok\n\n".into())).to_string();
    assert!(text.contains("R0 !read_ok"), "{text}");
    // And a namespace without clsact is told from one with.
    assert!(netlink::TrafficControl::open().is_ok());
}
