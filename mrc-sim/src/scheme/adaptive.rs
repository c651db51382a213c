//! The shortest queue, packet by packet.

use super::{ByUplink, UplinkChoice};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "adaptive",
    about: "The shortest queue, without the frame being sent; by a coin among equals.",
    paths: PathNames::Entropy,
    params: &[],
    check: None,
    build: |_, _| Box::new(ByUplink(Adaptive)),
};

struct Adaptive;

impl UplinkChoice for Adaptive {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, _: &mut Packet) -> PortId {
        // In turn, hosts in step would each keep to one of several equals.
        let uplinks = ctx.uplinks();
        let (mut least, mut equals, mut choice) = (u32::MAX, 0, uplinks[0]);
        for &port in uplinks {
            let bytes = ctx.queued_bytes(port);
            if bytes < least {
                (least, equals, choice) = (bytes, 1, port);
            } else if bytes == least {
                equals += 1;
                choice = if ctx.rng().below(equals) == 0 { port } else { choice };
            }
        }
        choice
    }
}
