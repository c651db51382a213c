//! STEV: the first of the EV's 10-bit fields is the uplink.

use super::{ByUplink, UplinkChoice, ip};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "stev",
    about: "The first STEV field of the EV (bits 31 to 22) is the uplink; the EVs of an uplink without carrier move to others.",
    paths: PathNames::UplinkNumbers,
    params: &[],
    check: None,
    build: |_, _| Box::new(ByUplink(Stev)),
};

struct Stev;

impl UplinkChoice for Stev {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let field = (ip::entropy(packet) >> 22) as usize;
        // Only the EVs of an uplink without carrier move: the others keep the paths that their senders know.
        let port = ctx.all_uplinks()[field % ctx.all_uplinks().len()];
        if ctx.is_up(port) { port } else { ctx.uplinks()[field % ctx.uplinks().len()] }
    }
}
