//! A floating-point model of the equations beside the fixed-point one, and bounds that no input may break.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// One call with arbitrary arguments.
#[derive(Clone, Debug)]
enum Op {
    Send(u32),
    Ack { bytes: u32, mark: bool, rtt: Option<u64>, penalty: u8, restore: bool },
    Nack { bytes: u32, trimmed: bool, rtt: Option<u64> },
    Loss(u32),
    Unloss(u32),
    BaseRtt(u64),
    Settled(i64),
}

fn op(bytes: impl Strategy<Value = u32> + Clone, rtt: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Op> {
    let sample = prop::option::weighted(0.8, rtt.clone());
    prop_oneof![
        4 => bytes.clone().prop_map(Op::Send),
        8 => (bytes.clone(), any::<bool>(), sample.clone(), prop_oneof![8 => Just(0u8), 1 => any::<u8>()], any::<bool>())
            .prop_map(|(bytes, mark, rtt, penalty, restore)| Op::Ack { bytes, mark, rtt, penalty, restore }),
        2 => (bytes.clone(), any::<bool>(), sample).prop_map(|(bytes, trimmed, rtt)| Op::Nack { bytes, trimmed, rtt }),
        1 => bytes.clone().prop_map(Op::Loss),
        1 => bytes.prop_map(Op::Unloss),
        1 => rtt.prop_map(Op::BaseRtt),
    ]
}

/// Some payload.
fn bytes_of(rtt: u64) -> u32 {
    (rtt >> 3) as u32
}

fn perform(cc: &mut Nscc, now: Instant, op: &Op) {
    match *op {
        Op::Send(bytes) => cc.on_send(bytes),
        Op::Ack { bytes, mark, rtt, penalty, restore } => {
            cc.on_ack(now, &AckSample { newly_bytes: bytes, marked: mark, rtt_ns: rtt, penalty, restore });
        }
        Op::Nack { bytes, trimmed, rtt } => cc.on_nack(now, bytes, trimmed, rtt),
        Op::Loss(bytes) => cc.on_loss(now, bytes),
        Op::Unloss(bytes) => cc.on_unloss(bytes),
        Op::BaseRtt(rtt) => cc.on_base_rtt(cc.full_rtt_ns(rtt, bytes_of(rtt))),
        Op::Settled(bytes) => cc.on_settled(bytes),
    }
}

/// The same equations in doubles, from the state of the fixed-point controller: what one step should make of it.
struct Model {
    cwnd: f64,
    avg: f64,
    inc: f64,
    base: f64,
    /// How far a window in integers may be from it: a byte for each quotient that this step rounded.
    within: f64,
}

impl Model {
    fn step(cc: &Nscc, now: Instant, newly: u32, mark: bool, rtt: u64) -> Self {
        let (target, n) = (9_000.0, f64::from(newly));
        let (alpha, fi, eta, scale) = (4_096.0 / 3_000.0, 20_480.0, 614.0, 0.25);
        let base = rtt.min(cc.base_rtt_ns) as f64;
        let max = (18.75 * base).floor().max(4_096.0);
        let (mut cwnd, mut inc) = (cc.cwnd as f64, cc.inc as f64);
        let delay = rtt as f64 - base;
        let mut avg = cc.avg_delay_q8 as f64 / 256.0;
        avg += (now.since(cc.t_avg) as f64 / base).min(1.0) * (delay - avg);
        let mut received = cc.received as f64 + n;
        let (mut achieved, ignored) = (cc.achieved as f64 + n, cc.ignored as f64 + n);
        let mut handled = mark && ignored < cc.to_ignore as f64;
        if !handled && now >= cc.qa_end {
            if cc.qa_end > Instant::ZERO && cc.trigger_qa && achieved < (max / 8.0).floor() {
                cwnd = achieved.max(4_096.0);
                handled = true;
            }
            achieved = 0.0;
        }
        let _ = achieved;
        if handled {
            return Self { cwnd, avg, inc: 0.0, base, within: 1.0 };
        }
        let mut within = 1.0;
        let boosts = !mark && delay < 1_000.0 && (cc.boost || cc.fi_count as f64 + n > cwnd);
        if boosts {
            cwnd = (cwnd + (n * scale).floor()).min(max);
        } else if !mark {
            inc += if delay >= target { fi * n } else { alpha * n * (target - delay) };
        } else if delay >= target && avg > target && now.since(cc.t_dec) as f64 > base {
            cwnd = (cwnd * (1.0 - 0.8 * (avg - target) / avg).max(0.5)).floor().max(4_096.0);
            // The excess over the average and its product with the window, before the window may be rounded once more.
            within += 2.0;
        }
        let period = now.since(cc.t_adj) >= 12_000;
        if period || received > 32_768.0 {
            cwnd += (inc / cwnd).floor() + if period { eta } else { 0.0 };
            cwnd = cwnd.min(max);
            (inc, received) = (0.0, 0.0);
        }
        let _ = received;
        Self { cwnd, avg, inc, base, within }
    }
}

proptest! {
    // A failure prints its seed and the shortest steps that show it; nothing is written into the source tree.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    //= NSCC-026 test
    #[test]
    fn every_acknowledgement_is_within_its_roundings_of_the_equations(
        steps in prop::collection::vec((0u64..20_000, op(0u32..200_000, 8_000u64..80_000)), 1..200)
    ) {
        let mut cc = Nscc::new(&lab(), MTU, Instant::ZERO);
        let mut now = Instant::ZERO;
        for (pause, op) in steps {
            now = now.after(pause);
            let model = match op {
                Op::Ack { bytes, mark, rtt: Some(rtt), penalty: 0, .. } if cc.saved_cwnd == 0 => {
                    Some(Model::step(&cc, now, bytes, mark, rtt))
                }
                _ => None,
            };
            perform(&mut cc, now, &op);
            if let Some(want) = model {
                prop_assert!((cc.cwnd as f64 - want.cwnd).abs() <= want.within, "{op:?}: cwnd {} not {}", cc.cwnd, want.cwnd);
                let average = cc.avg_delay_q8 as f64 / 256.0;
                prop_assert!((average - want.avg).abs() <= 0.1, "{op:?}: average {average} not {}", want.avg);
                prop_assert!((cc.inc as f64 - want.inc).abs() <= 1.0 + want.inc * 1e-6, "{op:?}: inc {}", cc.inc);
                prop_assert_eq!(cc.base_rtt_ns as f64, want.base);
            }
        }
    }

    #[test]
    fn no_input_overflows_or_leaves_the_window(
        rate_bps in 1u64..10_000_000_000_001,
        base_rtt_ns in 1u32..1_000_000_001,
        fields in any::<[u32; 9]>(),
        defaults in any::<u16>(),
        qa_gate in 0u8..32,
        mtu in 0u32..70_000,
        steps in prop::collection::vec((any::<u64>(), op(any::<u32>(), any::<u64>())), 1..100),
        settled in any::<i64>(),
    ) {
        let field = |n: usize| if defaults >> n & 1 == 0 { 0 } else { fields[n] };
        let config = NsccConfig {
            trimming: defaults >> 9 & 1 == 0,
            disable_qa: defaults >> 10 & 1 == 0,
            disable_rtt_probe: defaults >> 15 & 1 == 0,
            crowds: defaults >> 11 & 1 == 0,
            target_delay_ns: field(0),
            fi_bytes: field(1),
            eta_bytes: field(2),
            fi_scale_q16: field(3),
            gamma_q16: field(4) % (16 << 16),
            max_md_jump_q16: field(5) % 65_537,
            probe_shortfall_ns: field(8) ^ field(0),
            qa_gate,
            qa_threshold_ns: field(6),
            adjust_bytes: field(7),
            adjust_period_ns: field(8),
            ..NsccConfig::new(rate_bps, base_rtt_ns, true)
        };
        prop_assert_eq!(config.validate(), Ok(()));
        let mut cc = Nscc::new(&config, mtu, Instant::ZERO);
        let most = cc.max_wnd;
        let mut ops: Vec<Op> = steps.iter().map(|(_, op)| op.clone()).collect();
        ops.push(Op::Settled(settled));
        let mut now = Instant::ZERO;
        for (n, op) in ops.iter().enumerate() {
            // Pauses of every order of magnitude, mostly short ones.
            let pause = steps.get(n).map_or(0, |(pause, _)| pause >> (pause % 64));
            now = now.after(pause);
            perform(&mut cc, now, op);
            let packet = u64::from(mtu.clamp(1, 65_536));
            let least = if config.crowds { (packet / 16).max(1) } else { packet };
            prop_assert!((least..=most).contains(&cc.cwnd), "{op:?}: {} of {most}", cc.cwnd);
            let _ = (cc.can_send(), cc.avg_delay_ns());
            prop_assert!(cc.pause_ns().is_none_or(|ns| config.crowds && ns >= cc.base_rtt_ns));
        }
    }
}
