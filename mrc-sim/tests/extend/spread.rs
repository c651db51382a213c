//! A hash of the flow, and the next uplink when that one's queue is long.

use mrc_sim::scheme::{ByUplink, UplinkChoice, ip};
use mrc_sim::{Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx};

/// Registered in `SCHEMES` it is `forwarding = "spread"` of a scenario, with `scheme.after` beside it.
pub(super) static SPREAD: SchemeInfo = SchemeInfo {
    name: "spread",
    about: "A hash of the flow as long as its uplink is nearly empty; the next one when it is not.",
    paths: PathNames::Entropy,
    params: &[Param {
        name: "after",
        about: "Queue that moves a packet, in bytes.",
        default: 8000.0,
        range: (0.0, 1e9),
        whole: true,
    }],
    check: None,
    build: |site, values| Box::new(ByUplink(Spread { salt: site.salt, after: values[0] as u32 })),
};

struct Spread {
    salt: u64,
    after: u32,
}

impl UplinkChoice for Spread {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        let home = ip::mix(ip::flow(packet) ^ self.salt) as usize % uplinks.len();
        let port = uplinks[home];
        if ctx.queued_bytes(port) <= self.after { port } else { uplinks[(home + 1) % uplinks.len()] }
    }
}
