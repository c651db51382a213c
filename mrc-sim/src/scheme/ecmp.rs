//! ECMP: a hash of addresses and UDP source port, different in every switch.

use super::{ByUplink, UplinkChoice, ip};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "ecmp",
    about: "Hash of addresses and EV, different in every switch.",
    paths: PathNames::Entropy,
    params: &[],
    check: None,
    build: |site, _| Box::new(ByUplink(Ecmp { salt: site.salt })),
};

struct Ecmp {
    salt: u64,
}

impl Ecmp {
    /// Of a packet's uplink among those with a carrier.
    #[inline]
    fn place(&self, ctx: &SwitchCtx<'_>, packet: &Packet) -> usize {
        let hash = ip::mix(ip::flow(packet) ^ self.salt) >> 32;
        ((hash * ctx.uplinks().len() as u64) >> 32) as usize
    }
}

impl UplinkChoice for Ecmp {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        ctx.uplinks()[self.place(ctx, packet)]
    }

    fn foresee(&self, ctx: &SwitchCtx<'_>, packet: &Packet) -> Option<PortId> {
        ctx.uplinks().get(self.place(ctx, packet)).copied()
    }
}
