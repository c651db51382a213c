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
            first: EvIndex(c.flowbender.first),
            ..FlowBenderConfig::DEFAULT
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
    };
    let flowbender = mrc_core_flowbender {
        threshold_permille: flowbender.threshold_permille,
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
        first: EvIndex(c.first),
        ..HopperConfig::DEFAULT
    }
}
