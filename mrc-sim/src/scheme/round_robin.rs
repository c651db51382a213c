//! Round robin over the uplinks, packet by packet.

use super::{ByUplink, UplinkChoice};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "round-robin",
    about: "Packet by packet in turn, in a new random order every five rounds: in one order, hosts that send in step would \
            each keep to one uplink.",
    paths: PathNames::Entropy,
    params: &[],
    check: None,
    build: |_, _| Box::new(ByUplink(RoundRobin { order: Vec::new(), sent: 0 })),
};

/// Rounds in one order.
const ROUNDS: usize = 5;

struct RoundRobin {
    order: Vec<PortId>,
    sent: usize,
}

impl UplinkChoice for RoundRobin {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, _: &mut Packet) -> PortId {
        if self.sent == ROUNDS * self.order.len() {
            self.order.clear();
            self.order.extend_from_slice(ctx.uplinks());
            (1..self.order.len())
                .rev()
                .for_each(|last| self.order.swap(last, ctx.rng().below(last as u32 + 1) as usize));
            self.sent = 0;
        }
        self.sent += 1;
        self.order[(self.sent - 1) % self.order.len()]
    }

    fn on_link(&mut self) {
        (self.order, self.sent) = (Vec::new(), 0);
    }
}
