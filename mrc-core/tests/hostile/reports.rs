//! Reports that lie: of packets that were never sent, of another time, of bytes that nobody received.

use crate::victim::{FIRST, IN_FLIGHT, MTU, PEER, REGION, Victim, with, with_cc};
use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::{Discard, Instant, Received, SendWr};
use mrc_wire::{AethRepr, Body, Ev, NackReason, Opcode, Psn, Rkey, SackRepr, Syndrome};

/// A SACK of the peer for `cack`, triggered by a packet `trigger` behind it, with the count of bytes received.
fn report(v: &Victim<'_>, cack: Psn, trigger: i16, rcvd_bytes: u32) -> Vec<u8> {
    let sack = SackRepr { offset_or_probe: trigger.cast_unsigned(), rcvd_bytes, ..v.sack(cack) };
    v.frame(PEER, Opcode::Sack, cack, &Body::Sack(sack), &[])
}

/// A SACK that names as its trigger a packet that was never sent, or one so old that its record is another's, tells nothing of any
/// packet: not that it arrived, and not how long it took.
//= SRX-002, RTT-001 test
#[test]
fn a_trigger_of_which_nothing_is_known_says_nothing() {
    let after = |trigger: i16| {
        with(|v| {
            let bytes = report(v, Psn::new(FIRST), trigger, 0);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            (v.state(), v.engine.qp_info(v.qp).unwrap().srtt_ns)
        })
    };
    // Packet 0 is acknowledged, packet 7 the last one sent: 121 to 128 have the records of 1 to 7.
    let silent = after(8);
    for trigger in [9, 10, 100, 120, 121, 122, 125, 128, 129, 500, i16::MAX, 7 - 128, 7 - 129, -500, i16::MIN] {
        assert_eq!(after(trigger), silent, "trigger {trigger}");
    }
    for trigger in [0, 1, 4, 7] {
        assert_ne!(after(trigger).1, silent.1, "trigger {trigger} was timed");
    }
}

/// Control packets of another turn of the circle end where the recent past of the connection begins.
//= SRX-001, TACK-001 test
#[test]
fn the_recent_past_has_an_end() {
    const PAST: i32 = 1 << 22;
    with(|v| {
        let unack = Psn::new(FIRST).offset(-1);
        let ack = |v: &Victim<'_>, behind: i32| {
            let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0 });
            v.frame(PEER, Opcode::Ack, unack.offset(-behind), &ack, &[])
        };
        for behind in [PAST, PAST + 1] {
            let bytes = report(v, unack.offset(-behind), 0, 0);
            v.refuse(&bytes, Discard::StalePsn);
            let bytes = ack(v, behind);
            v.refuse(&bytes, Discard::StalePsn);
        }
        let bytes = report(v, unack.offset(-(PAST - 1)), 0, 0);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        let bytes = ack(v, PAST - 1);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
    });
}

/// The peer counts more bytes than there are, and then the truth, which is less: that is understood, too, and what counts as in
/// flight is what is, but for the rounding of its counts to 256 bytes.
//= SRX-005, SRX-009 test
#[test]
fn a_true_count_is_understood_after_a_false_one() {
    for lie in [0x20, 0x100, 0x7F_FFFF] {
        with(|v| {
            let inflight = |v: &Victim<'_>| v.engine.qpcc_info(v.qp).unwrap().inflight_bytes;
            let each = inflight(v) / i64::from(IN_FLIGHT);
            let units = |packets: i64| ((packets * each + 255) / 256) as u32;
            let first = Psn::new(FIRST);
            let bytes = report(v, first, 0, lie);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            assert!((-255..=0).contains(&inflight(v)), "no more than there is: {}", inflight(v));
            for turn in 1..=8 {
                let wr =
                    SendWr { lkey: v.key, local_va: REGION.va, len: MTU.into(), rkey: Rkey(5), ..SendWr::default() };
                if v.engine.post_send(v.now, v.qp, &wr).is_err() {
                    break;
                }
                v.sent();
                // All but the last packet have arrived.
                let arrived = i64::from(IN_FLIGHT) + turn - 1;
                let bytes = report(v, first.offset(arrived as i32 - 1), 0, units(arrived));
                assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
                assert!(inflight(v).abs_diff(each) <= 255, "lie {lie:#x}, turn {turn}: {} of {each}", inflight(v));
                let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0 });
                let bytes = v.frame(PEER, Opcode::Ack, first.offset(arrived as i32 - 1), &ack, &[]);
                assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
                while v.engine.poll_completion(v.cq).is_some() {}
            }
        });
    }
}

/// A packet that was trimmed at the last hop met congestion as any trimmed one did, but no path is to blame. A refusal for other
/// reasons is neither.
//= NACK-002, NACK-003 test
#[test]
fn a_trim_at_the_last_hop_is_congestion_of_no_path() {
    let nscc = NsccConfig { avg_weight_q16: 1 << 14, ..NsccConfig::new(100_000_000_000, 10_000, true) };
    let after = |reason: NackReason| {
        with_cc(Some(CcConfig::Nscc(nscc)), 1_000, |v| {
            // On which path the packet was it does not tell: one of the eight is right.
            for ev in (0..4).flat_map(|uplink| [uplink, 1 << 8 | uplink]) {
                let bytes = v.nack(reason, Psn::new(FIRST).offset(2), Ev(ev));
                let _ = v.hear(&bytes);
            }
            (v.engine.qpcc_info(v.qp).unwrap().avg_delay_ns, v.engine.qp_info(v.qp).unwrap().evs.skip)
        })
    };
    let trimmed = after(NackReason::Trimmed);
    assert!(trimmed.0 > 0 && trimmed.1 > 0, "{trimmed:?}");
    assert_eq!(after(NackReason::TrimmedLastHop), (trimmed.0, 0));
    assert_eq!(after(NackReason::PsnOorWindow), (0, 0));
}

/// The timestamp that comes back tells how long the responder let a packet wait. None, one of a packet that left longer ago than the
/// field reaches, and one that claims more than the whole time, say nothing.
//= RTT-001, TS-002 test
#[test]
fn a_round_trip_is_without_what_the_responder_waited() {
    const REACH: u64 = 8_000_000;
    let measured = |sent: u64, elapsed: u64, timestamp: fn(u64) -> u16| {
        with_cc(None, sent, |v| {
            v.now = Instant::from_nanos(sent + elapsed);
            let before = v.engine.qp_info(v.qp).unwrap().srtt_ns;
            let sack = SackRepr { timestamp: timestamp(sent), ..v.sack(Psn::new(FIRST)) };
            let bytes = v.frame(PEER, Opcode::Sack, sack.cack, &Body::Sack(sack), &[]);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            let after = v.engine.qp_info(v.qp).unwrap().srtt_ns;
            (after - (before - before / 8)) * 8
        })
    };
    // Time goes in steps of 128 ns; the second packet leaves 768 ns before their 16 bits are all zero again.
    let near = |elapsed, timestamp: fn(u64) -> u16, want: u64| {
        for sent in [1_000, (128 << 16) - 768] {
            let rtt = measured(sent, elapsed, timestamp);
            assert!(rtt.abs_diff(want) <= 24, "{rtt} of {want} ns, sent at {sent}");
        }
    };
    let waited: fn(u64) -> u16 = |sent| (sent / 128 + 100) as u16;
    near(1_000_000, |sent| (sent / 128) as u16, 1_000_000);
    near(1_000_000, waited, 1_000_000 - 12_800);
    near(1_000_000, |_| 0, 1_000_000);
    near(12_800, waited, 12_800);
    near(REACH - 16, waited, REACH - 16 - 12_800);
    near(REACH + 16, waited, REACH + 16);
}
