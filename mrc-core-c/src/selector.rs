//! Path selectors of the C interface. Those without a structure of their own run with their published parameters.

use mrc_core::path::{EvIndex, Selector};
#[cfg(feature = "research")]
use mrc_core::path::{FlowBenderConfig, FlowingJumpingConfig, HopperConfig, PlbConfig, RepsConfig};

use crate::{
    codes::*,
    convert::range,
    fault::Fault,
    types::{mrc_core_flowbender, mrc_core_hopper, mrc_core_paths},
};

pub(crate) fn selector(c: &mrc_core_paths) -> Result<Selector, Fault> {
    Ok(match c.selector {
        MRC_CORE_SELECT_SPRAY => Selector::Spray,
        MRC_CORE_SELECT_OBLIVIOUS => Selector::Oblivious,
        MRC_CORE_SELECT_PINNED => Selector::Pinned(EvIndex(c.pinned)),
        #[cfg(feature = "research")]
        MRC_CORE_SELECT_HOPPER => Selector::Hopper(hopper(&c.hopper)),
        #[cfg(feature = "research")]
        MRC_CORE_SELECT_FLOWBENDER => Selector::FlowBender(FlowBenderConfig {
            threshold_permille: c.flowbender.threshold_permille,
            epochs: c.flowbender.epochs,
            rtt_percent: c.flowbender.rtt_percent,
            first: EvIndex(c.flowbender.first),
        }),
        #[cfg(feature = "research")]
        MRC_CORE_SELECT_PLB => Selector::Plb(PlbConfig::DEFAULT),
        #[cfg(feature = "research")]
        MRC_CORE_SELECT_REPS => Selector::Reps(RepsConfig::DEFAULT),
        #[cfg(feature = "research")]
        MRC_CORE_SELECT_FLOWING_JUMPING => Selector::FlowingJumping(FlowingJumpingConfig::DEFAULT),
        _ => return Err(range("selector")),
    })
}

/// Parameters as they were published; zeros where selectors of research are left out, and refused.
#[cfg(not(feature = "research"))]
pub(crate) fn published() -> (mrc_core_hopper, mrc_core_flowbender) {
    Default::default()
}

#[cfg(feature = "research")]
pub(crate) fn published() -> (mrc_core_hopper, mrc_core_flowbender) {
    let (hopper, flowbender) = (HopperConfig::DEFAULT, FlowBenderConfig::DEFAULT);
    let hopper = mrc_core_hopper {
        alpha_percent: hopper.alpha_percent,
        th_probe_percent: hopper.th_probe_percent,
        th_cong_percent: hopper.th_cong_percent,
        ttl_probe_percent: hopper.ttl_probe_percent,
        delta_rtt_percent: hopper.delta_rtt_percent,
        switch_delay_percent: hopper.switch_delay_percent,
        switch_delay_max_percent: hopper.switch_delay_max_percent,
        first: hopper.first.0,
        move_on_loss: hopper.move_on_loss.into(),
        probe_on_mark: hopper.probe_on_mark.into(),
    };
    let flowbender = mrc_core_flowbender {
        threshold_permille: flowbender.threshold_permille,
        rtt_percent: flowbender.rtt_percent,
        first: flowbender.first.0,
        epochs: flowbender.epochs,
    };
    (hopper, flowbender)
}

#[cfg(feature = "research")]
fn hopper(c: &mrc_core_hopper) -> HopperConfig {
    HopperConfig {
        alpha_percent: c.alpha_percent,
        th_probe_percent: c.th_probe_percent,
        th_cong_percent: c.th_cong_percent,
        ttl_probe_percent: c.ttl_probe_percent,
        delta_rtt_percent: c.delta_rtt_percent,
        switch_delay_percent: c.switch_delay_percent,
        switch_delay_max_percent: c.switch_delay_max_percent,
        move_on_loss: c.move_on_loss != 0,
        probe_on_mark: c.probe_on_mark != 0,
        first: EvIndex(c.first),
    }
}

#[cfg(all(test, feature = "research"))]
mod tests {
    use super::*;

    /// No parameter stays behind on its way from C: each has a value of its own.
    #[test]
    fn every_parameter_arrives() {
        let c = mrc_core_hopper {
            alpha_percent: 1,
            th_probe_percent: 2,
            th_cong_percent: 3,
            ttl_probe_percent: 4,
            delta_rtt_percent: 5,
            switch_delay_percent: 6,
            switch_delay_max_percent: 7,
            first: 8,
            move_on_loss: 0,
            probe_on_mark: 1,
        };
        let expected = HopperConfig {
            alpha_percent: 1,
            th_probe_percent: 2,
            th_cong_percent: 3,
            ttl_probe_percent: 4,
            delta_rtt_percent: 5,
            switch_delay_percent: 6,
            switch_delay_max_percent: 7,
            first: EvIndex(8),
            move_on_loss: false,
            probe_on_mark: true,
        };
        assert_eq!(hopper(&c), expected);
        let (c, _) = published();
        assert_eq!(hopper(&c), HopperConfig::DEFAULT);
    }
}
