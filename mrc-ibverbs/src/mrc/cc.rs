//! From the configuration of NSCC in `mrc_ctl.h`, with its floating-point numbers, to the engine's, which has none.

use mrc_core::cc::{CcConfig, NsccConfig};

use super::abi::MrcCtlCcNsccCfg;

/// Unloaded round trip where the controller does not know it, in nanoseconds: that of one host's software.
pub(super) const BASE_RTT_NS: u32 = 100_000;

/// The nearest integer. What is negative or no number is zero, the device's own choice; anything above zero is at least one,
/// so that a small value does not turn into the default.
fn whole(value: f32) -> u32 {
    if value > 0.0 { (value.round() as u32).max(1) } else { 0 }
}

/// The same in Q16.16.
fn q16(value: f32) -> u32 {
    whole(value * 65_536.0)
}

/// The engine's configuration. Zero leaves a parameter to the engine there as here, but for `qa_threshold`: here it is no
/// threshold at all.
//= CCU-007
pub(crate) fn engine_config(config: &MrcCtlCcNsccCfg, rate_bps: u64) -> CcConfig {
    let base_rtt = if config.base_rtt == 0 { BASE_RTT_NS } else { config.base_rtt };
    CcConfig::Nscc(NsccConfig {
        disable_qa: config.disable_qa != 0,
        adjust_bytes: config.adjust_bytes_threshold,
        adjust_period_ns: config.adjust_period_threshold,
        eta_bytes: whole(config.eta),
        fi_bytes: whole(config.fi),
        fi_scale_q16: q16(config.fi_scale),
        gamma_q16: q16(config.gamma),
        max_md_jump_q16: q16(config.max_md_jump),
        max_cwnd_bytes: config.max_cwnd,
        qa_gate: config.qa_gate,
        qa_threshold_ns: if config.qa_threshold == 0 { u32::MAX } else { config.qa_threshold },
        target_delay_ns: config.target_delay,
        ..NsccConfig::new(rate_bps, base_rtt, false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No structure is the engine's own choice; a structure of zeros has a gate of zero and no threshold, which are values.
    //= CCU-007 test
    #[test]
    fn without_a_structure_everything_is_at_its_default() {
        let rate = 100_000_000_000;
        let default = NsccConfig::new(rate, BASE_RTT_NS, false);
        // The target delay is one base RTT without trimming, the threshold four.
        let threshold = NsccConfig { qa_threshold_ns: 4 * BASE_RTT_NS, ..default };
        assert_eq!(engine_config(&MrcCtlCcNsccCfg::default(), rate), CcConfig::Nscc(threshold));
        // SAFETY: numbers only, for which zeros are values.
        let zeros: MrcCtlCcNsccCfg = unsafe { core::mem::zeroed() };
        let never = NsccConfig { qa_gate: 0, qa_threshold_ns: u32::MAX, ..default };
        assert_eq!(engine_config(&zeros, rate), CcConfig::Nscc(never));
        let largest = MrcCtlCcNsccCfg { qa_threshold: u32::MAX, ..zeros };
        assert_eq!(engine_config(&largest, rate), CcConfig::Nscc(never));
        let some = MrcCtlCcNsccCfg { qa_threshold: 7, ..zeros };
        assert_eq!(engine_config(&some, rate), CcConfig::Nscc(NsccConfig { qa_threshold_ns: 7, ..never }));
    }

    /// Half a byte, or a hundred thousandth, is not the zero that stands for a default thousands of times as large.
    //= CCU-007 test
    #[test]
    fn small_values_are_not_the_default() {
        let of = |value: f32| {
            let all = MrcCtlCcNsccCfg {
                eta: value,
                fi: value,
                fi_scale: value,
                gamma: value,
                max_md_jump: value,
                ..MrcCtlCcNsccCfg::default()
            };
            let CcConfig::Nscc(c) = engine_config(&all, 100_000_000_000) else { panic!() };
            [c.eta_bytes, c.fi_bytes, c.fi_scale_q16, c.gamma_q16, c.max_md_jump_q16]
        };
        assert_eq!(of(1e-6), [1; 5]);
        assert_eq!(of(0.4), [1, 1, 26_214, 26_214, 26_214]);
        // The reference's 0.8, as the engine has it without being told.
        assert_eq!(of(0.8), [1, 1, 52_429, 52_429, 52_429]);
        assert_eq!(of(614.4)[..2], [614, 614]);
        for none in [0.0, -0.0, -1.0, f32::NAN] {
            assert_eq!(of(none), [0; 5]);
        }
    }
}
