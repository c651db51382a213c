//! NSCC parameters: what a deployment sets, and the fixed-point numbers derived from it once per controller.
//! Source: `congestion.md` 1 and 7.

use super::crowd::LEAST_PART;

/// Fastest link a profile may name, all planes together: 10 Tb/s keeps every product below 2^128.
const MAX_RATE_BPS: u64 = 10_000_000_000_000;
const MAX_BASE_RTT_NS: u32 = 1_000_000_000;
/// Longest nominal packet, in bytes; IP carries no longer one.
const MAX_PACKET: u32 = 1 << 16;
/// Four fifths.
const GAMMA_Q16: u64 = (ONE_Q16 as u64 * 4 + 2) / 5;
/// Largest window in bytes; a terabyte in flight is a configuration error, not a network.
const MAX_WINDOW: u64 = 1 << 40;
/// One in Q16.16.
const ONE_Q16: u32 = 1 << 16;
/// 8 bits per byte, 1e9 ns per second.
const BITS_NS: u128 = 8_000_000_000;
/// Rate times RTT that gives a scale A of one: 150000 bytes (100 Gb/s for 12 us), in bit * ns / s.
const SCALE_ONE: u128 = 150_000 * BITS_NS;

/// Parameters of NSCC as the published configuration has them. A field of 0 stands for its default, except `qa_gate`
/// and the switches, where it is a value. Fractions are Q16.16: 65536 is one.
///
/// # Source
/// MRC congestion-control profile, `mrc_ctl_cc_nscc_cfg`; defaults of UET 1.0 section 3.6.13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NsccConfig {
    /// Link speed in bit/s, the smaller one of sender and receiver, all planes together. At most 10 Tb/s.
    pub rate_bps: u64,
    /// Unloaded round trip of a full packet over the longest path, in nanoseconds. At most 1 s.
    pub base_rtt_ns: u32,
    /// The fabric trims: shortens the default target delay and disables the default quick-adapt threshold.
    pub trimming: bool,
    /// Queueing delay to aim at, in nanoseconds. Default: 0.75 base RTTs with trimming, 1.0 without.
    pub target_delay_ns: u32,
    /// Fair increase per received byte, in bytes. Default: 5 packets times scale A.
    pub fi_bytes: u32,
    /// Fixed increase per adjustment period, in bytes. Default: 0.15 packets times scale A.
    pub eta_bytes: u32,
    /// Part of the received bytes by which fast increase grows the window, Q16.16. Default: 0.25 times scale A.
    pub fi_scale_q16: u32,
    /// Weight of the excess delay in a decrease, Q16.16. Default: 0.8.
    pub gamma_q16: u32,
    /// Smallest factor of one decrease, Q16.16, at most one. Default: 0.5.
    pub max_md_jump_q16: u32,
    /// Quick adapt acts only on epochs that delivered less than the maximum window shifted right by this; at most 31.
    pub qa_gate: u8,
    /// Delay that calls for quick adapt by itself, in nanoseconds; `u32::MAX` = never. Default: never with trimming,
    /// 4 target delays without.
    pub qa_threshold_ns: u32,
    /// Apply increases after this many received bytes. Default: 8 packets.
    pub adjust_bytes: u32,
    /// Apply increases after this long, in nanoseconds. Default: the base RTT.
    pub adjust_period_ns: u32,
    /// Largest window in bytes. Default: 1.5 bandwidth-delay products.
    pub max_cwnd_bytes: u32,
    /// No quick adapt.
    pub disable_qa: bool,
    /// No probe asks for the base RTT, and no probe's round trip lowers it: only what data packets need counts.
    pub disable_rtt_probe: bool,
    /// What a full packet takes longer than a probe over the longest path of an idle fabric, in nanoseconds: a third of a
    /// microsecond for each hop of 100 Gb/s, 3.3 us at 10 Gb/s. A probe's round trip that would lower the base RTT is first
    /// longer by so much, that of a packet with less payload by a part. With 0, as the specification has it, the difference
    /// counts as queueing, and on slow links the window becomes too small for their rate.
    pub probe_shortfall_ns: u32,
    /// A base RTT that falls cuts the window to the largest one at once, not when increases are applied next. An incast whose
    /// messages are shorter than a window then trims half as much.
    pub window_follows_rtt: bool,
    /// Many senders share the link of one host, whose switch marks nothing: windows go below a packet, a delay of the target or more
    /// decreases them without a mark, and small ones grow slowly. As specified, windows of a packet or more grow until packets
    /// are trimmed.
    pub crowds: bool,
    /// Delays below this count as zero, in nanoseconds. Default: 1000.
    pub clear_delay_ns: u32,
    /// Weight of a delay sample in the average, Q16.16, at most one. 0: by the time since the last sample, so that the
    /// average forgets over one base RTT. With a weight, a sample above the target without a mark counts as a quarter of
    /// the base RTT, as in the published simulators of UET, which use 0.0125.
    pub avg_weight_q16: u32,
}

impl NsccConfig {
    /// Defaults for links of `rate_bps` bit/s (all planes together) and an unloaded round trip of `base_rtt_ns`.
    pub const fn new(rate_bps: u64, base_rtt_ns: u32, trimming: bool) -> Self {
        Self {
            rate_bps,
            base_rtt_ns,
            trimming,
            target_delay_ns: 0,
            fi_bytes: 0,
            eta_bytes: 0,
            fi_scale_q16: 0,
            gamma_q16: 0,
            max_md_jump_q16: 0,
            qa_gate: 3,
            qa_threshold_ns: 0,
            adjust_bytes: 0,
            adjust_period_ns: 0,
            max_cwnd_bytes: 0,
            disable_qa: false,
            disable_rtt_probe: false,
            probe_shortfall_ns: 0,
            window_follows_rtt: false,
            crowds: false,
            clear_delay_ns: 0,
            avg_weight_q16: 0,
        }
    }

    /// Refuses what no controller could run with, naming the field.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        let refuse = Err;
        if self.rate_bps == 0 || self.rate_bps > MAX_RATE_BPS {
            return refuse("nscc.rate_bps");
        }
        if self.base_rtt_ns == 0 || self.base_rtt_ns > MAX_BASE_RTT_NS {
            return refuse("nscc.base_rtt_ns");
        }
        if self.gamma_q16 > 16 * ONE_Q16 {
            return refuse("nscc.gamma_q16");
        }
        if self.max_md_jump_q16 > ONE_Q16 {
            return refuse("nscc.max_md_jump_q16");
        }
        if self.qa_gate > 31 {
            return refuse("nscc.qa_gate");
        }
        if self.avg_weight_q16 > ONE_Q16 {
            return refuse("nscc.avg_weight_q16");
        }
        Ok(())
    }
}

/// The configuration as the algorithm uses it: every default filled in, every quotient taken. First what most acknowledgements
/// read, so that they touch few lines of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Params {
    pub(super) target_ns: u64,
    pub(super) disable_qa: bool,
    pub(super) disable_rtt_probe: bool,
    pub(super) window_follows_rtt: bool,
    pub(super) qa_gate: u32,
    pub(super) avg_weight_q16: u64,
    pub(super) clear_delay_ns: u64,
    /// Bytes per nanosecond of distance to the target, Q32.
    pub(super) alpha_q32: u64,
    pub(super) fi_scale_q16: u64,
    pub(super) adjust_bytes: u64,
    pub(super) adjust_period_ns: u64,
    /// Nominal bytes of a full packet.
    pub(super) mtu: u64,
    /// Smallest window.
    pub(super) min_cwnd: u64,
    pub(super) base_rtt_ns: u64,
    pub(super) fi_bytes: u64,
    pub(super) eta_bytes: u64,
    pub(super) gamma_q16: u64,
    pub(super) max_md_jump_q16: u64,
    pub(super) qa_threshold_ns: u64,
    /// Bytes of maximum window per nanosecond of base RTT, Q24: 1.5 times the rate.
    window_per_ns_q24: u64,
    max_cwnd: u64,
    pub(super) probe_shortfall_ns: u64,
}

/// `value`, or `default` when it is 0.
fn or(value: u32, default: u64) -> u64 {
    if value == 0 { default } else { value.into() }
}

impl Params {
    //= CCU-003, CCU-004, CCU-005, CCU-006, CCU-007
    pub(super) fn derive(cfg: &NsccConfig, mtu_bytes: u32) -> Self {
        // MTU below 2^14, base RTT 2^32, rate 2^41: the products below stay within 2^124.
        let mtu = u64::from(mtu_bytes.min(MAX_PACKET).max(1));
        let base_rtt_ns = u64::from(cfg.base_rtt_ns.max(1));
        let rate = u128::from(cfg.rate_bps.min(MAX_RATE_BPS));
        // Scale A is this over SCALE_ONE; it stays a fraction so that only the result is rounded.
        let rate_rtt = rate.wrapping_mul(base_rtt_ns.into());
        let packets_a = |numerator: u128| rate_rtt.wrapping_mul(mtu.into()).wrapping_mul(numerator);
        let target_ns =
            or(cfg.target_delay_ns, if cfg.trimming { base_rtt_ns.wrapping_mul(3) / 4 } else { base_rtt_ns }).max(1);
        let threshold = match cfg.qa_threshold_ns {
            u32::MAX => u64::MAX,
            0 if cfg.trimming => u64::MAX,
            ns => or(ns, target_ns.saturating_mul(4)),
        };
        Self {
            mtu,
            min_cwnd: if cfg.crowds { (mtu / LEAST_PART).max(1) } else { mtu },
            base_rtt_ns,
            target_ns,
            // 4 * A * B * MTU / T, and B is T / 12000 ns: the target cancels out.
            alpha_q32: ((packets_a(4) << 32) / (SCALE_ONE * 12_000)) as u64,
            fi_bytes: or(cfg.fi_bytes, (packets_a(5) / SCALE_ONE) as u64),
            eta_bytes: or(cfg.eta_bytes, (packets_a(15) / (100 * SCALE_ONE)) as u64),
            fi_scale_q16: or(cfg.fi_scale_q16, (rate_rtt.wrapping_mul(u128::from(ONE_Q16 / 4)) / SCALE_ONE) as u64),
            gamma_q16: or(cfg.gamma_q16, GAMMA_Q16),
            max_md_jump_q16: or(cfg.max_md_jump_q16, u64::from(ONE_Q16 / 2)),
            qa_gate: u32::from(cfg.qa_gate).min(31),
            qa_threshold_ns: threshold,
            adjust_bytes: or(cfg.adjust_bytes, mtu << 3),
            adjust_period_ns: or(cfg.adjust_period_ns, base_rtt_ns),
            clear_delay_ns: or(cfg.clear_delay_ns, 1_000),
            disable_qa: cfg.disable_qa,
            disable_rtt_probe: cfg.disable_rtt_probe,
            window_follows_rtt: cfg.window_follows_rtt,
            avg_weight_q16: cfg.avg_weight_q16.into(),
            window_per_ns_q24: ((rate.wrapping_mul(3) << 24) / (2 * BITS_NS)) as u64,
            max_cwnd: or(cfg.max_cwnd_bytes, MAX_WINDOW).min(MAX_WINDOW),
            probe_shortfall_ns: cfg.probe_shortfall_ns.into(),
        }
    }

    /// A full packet, as what must fit into the window.
    pub(super) const fn room(&self) -> u16 {
        self.mtu as u16
    }

    /// The largest window at a base RTT: 1.5 bandwidth-delay products, within the configured limit, at least a packet.
    //= CCU-003, CCU-011
    pub(super) fn max_wnd(&self, base_rtt_ns: u64) -> u64 {
        (self.window_per_ns_q24.saturating_mul(base_rtt_ns) >> 24).min(self.max_cwnd).max(self.mtu)
    }
}

crate::image::stored!(struct NsccConfig {
    rate_bps, base_rtt_ns, trimming, target_delay_ns, fi_bytes, eta_bytes, fi_scale_q16, gamma_q16, max_md_jump_q16, qa_gate,
    qa_threshold_ns, adjust_bytes, adjust_period_ns, max_cwnd_bytes, disable_qa, disable_rtt_probe, probe_shortfall_ns,
    window_follows_rtt, crowds, clear_delay_ns, avg_weight_q16,
});

#[cfg(test)]
mod tests {
    use super::*;

    //= CCU-003, CCU-004, CCU-005, CCU-006, CCU-007 test
    #[test]
    fn defaults_follow_the_formulas_and_fields_replace_them() {
        let cfg = NsccConfig::new(100_000_000_000, 12_000, true);
        let p = Params::derive(&cfg, 4_096);
        assert_eq!(p.target_ns, 9_000);
        assert_eq!(p.alpha_q32, (4_096u64 << 32) / 3_000);
        assert_eq!((p.fi_bytes, p.eta_bytes, p.fi_scale_q16), (20_480, 614, 16_384));
        assert_eq!((p.gamma_q16, p.max_md_jump_q16, p.qa_gate), (52_429, 32_768, 3));
        assert_eq!((p.adjust_bytes, p.adjust_period_ns, p.clear_delay_ns), (32_768, 12_000, 1_000));
        assert_eq!(p.qa_threshold_ns, u64::MAX);
        assert_eq!(p.max_wnd(12_000), 225_000);
        assert_eq!(p.max_wnd(1), 4_096, "never below a packet");
        // Twice the rate and twice the round trip: A is 4, B is 2.
        let p = Params::derive(&NsccConfig::new(200_000_000_000, 24_000, false), 4_096);
        assert_eq!((p.target_ns, p.qa_threshold_ns), (24_000, 96_000));
        assert_eq!((p.fi_bytes, p.fi_scale_q16, p.max_wnd(24_000)), (81_920, 65_536, 900_000));
        assert_eq!(p.alpha_q32, (4_096u64 << 34) / 3_000);
        let set = NsccConfig {
            target_delay_ns: 5,
            fi_bytes: 6,
            eta_bytes: 7,
            fi_scale_q16: 8,
            gamma_q16: 9,
            max_md_jump_q16: 10,
            qa_gate: 0,
            qa_threshold_ns: 11,
            adjust_bytes: 12,
            adjust_period_ns: 13,
            max_cwnd_bytes: 50_000,
            clear_delay_ns: 14,
            ..cfg
        };
        let p = Params::derive(&set, 4_096);
        assert_eq!((p.target_ns, p.fi_bytes, p.eta_bytes, p.fi_scale_q16), (5, 6, 7, 8));
        assert_eq!((p.gamma_q16, p.max_md_jump_q16, p.qa_gate, p.qa_threshold_ns), (9, 10, 0, 11));
        assert_eq!((p.adjust_bytes, p.adjust_period_ns, p.max_wnd(12_000), p.clear_delay_ns), (12, 13, 50_000, 14));
        assert_eq!(p.alpha_q32, (4_096u64 << 32) / 3_000, "B holds the target, too");
        let late = Params::derive(&NsccConfig { target_delay_ns: 5_000, trimming: false, ..cfg }, 4_096);
        assert_eq!((late.qa_threshold_ns, late.alpha_q32), (20_000, p.alpha_q32), "four times the target that is set");
        let never = NsccConfig { qa_threshold_ns: u32::MAX, trimming: false, ..cfg };
        assert_eq!(Params::derive(&never, 4_096).qa_threshold_ns, u64::MAX);
    }

    #[test]
    fn impossible_parameters_are_refused_by_name() {
        let good = NsccConfig::new(100_000_000_000, 12_000, true);
        assert_eq!(good.validate(), Ok(()));
        let extreme = NsccConfig {
            rate_bps: MAX_RATE_BPS,
            base_rtt_ns: MAX_BASE_RTT_NS,
            max_md_jump_q16: ONE_Q16,
            qa_gate: 31,
            avg_weight_q16: ONE_Q16,
            ..good
        };
        assert_eq!(extreme.validate(), Ok(()));
        for (bad, what) in [
            (NsccConfig { rate_bps: 0, ..good }, "nscc.rate_bps"),
            (NsccConfig { rate_bps: MAX_RATE_BPS + 1, ..good }, "nscc.rate_bps"),
            (NsccConfig { base_rtt_ns: 0, ..good }, "nscc.base_rtt_ns"),
            (NsccConfig { base_rtt_ns: MAX_BASE_RTT_NS + 1, ..good }, "nscc.base_rtt_ns"),
            (NsccConfig { gamma_q16: 17 << 16, ..good }, "nscc.gamma_q16"),
            (NsccConfig { max_md_jump_q16: ONE_Q16 + 1, ..good }, "nscc.max_md_jump_q16"),
            (NsccConfig { qa_gate: 32, ..good }, "nscc.qa_gate"),
        ] {
            assert_eq!(bad.validate(), Err(what));
        }
    }
}
