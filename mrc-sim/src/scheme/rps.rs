//! RPS, random packet spraying (Dixit et al., INFOCOM 2013): every packet by an uplink drawn at random.

use super::{ByUplink, UplinkChoice};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "rps",
    about: "RPS: every packet by an uplink drawn at random.",
    paths: PathNames::Entropy,
    params: &[],
    check: None,
    build: |_, _| Box::new(ByUplink(Rps)),
};

struct Rps;

impl UplinkChoice for Rps {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, _: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        uplinks[ctx.rng().below(uplinks.len() as u32) as usize]
    }
}
