//! LetFlow (Vanini et al., NSDI 2017): a flow draws a new uplink at random when it has been silent for a while.

use std::collections::HashMap;

use mrc_core::Instant;

use super::{ByUplink, UplinkChoice, ip};
use crate::fabric::{Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, table_bytes};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "letflow",
    about: "LetFlow: a flow draws a new uplink at random when it has been silent for `gap_us`.",
    paths: PathNames::Entropy,
    params: &[Param {
        name: "gap_us",
        about: "Silence that ends a flowlet, in microseconds; LetFlow uses 500 at 10 Gb/s.",
        default: 50.0,
        range: (0.0, 1e6),
        whole: false,
    }],
    check: None,
    build: |_, values| Box::new(ByUplink(LetFlow { gap_ns: (values[0] * 1e3) as u64, flows: HashMap::new() })),
};

struct LetFlow {
    gap_ns: u64,
    /// Uplink and latest packet of each flow. Looked up only, so that the order of the map is without effect.
    flows: HashMap<u64, (PortId, Instant)>,
}

impl UplinkChoice for LetFlow {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let (now, flow, uplinks) = (ctx.now(), ip::flow(packet), ctx.uplinks());
        // A flow leaves an uplink that lost its carrier; all others stay where they are.
        let known = self.flows.get(&flow).filter(|(port, last)| now.since(*last) <= self.gap_ns && ctx.is_up(*port));
        let port = match known {
            Some(&(port, _)) => port,
            None => uplinks[ctx.rng().below(uplinks.len() as u32) as usize],
        };
        self.flows.insert(flow, (port, now));
        port
    }

    fn state_bytes(&self) -> usize {
        table_bytes::<u64, (PortId, Instant)>(self.flows.len())
    }
}
