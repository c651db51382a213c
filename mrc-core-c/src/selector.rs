//! Path selectors of the C interface. Those without a structure of their own run with their published parameters.

use mrc_core::path::{EvIndex, Selector};
#[cfg(feature = "research")]
use mrc_core::path::{FlowBenderConfig, FlowingJumpingConfig, HopperConfig, PlbConfig, RepsConfig};

use crate::{codes::*, convert::range, fault::Fault, types::mrc_core_paths};

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

#[cfg(feature = "research")]
fn hopper(c: &crate::types::mrc_core_hopper) -> HopperConfig {
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
