//! DRILL (Ghorbani et al., SIGCOMM 2017, section 3.2): the shortest of a few queues drawn at random and the best of last time, packet by
//! packet. Draws may repeat. The groups of symmetric paths that the paper adds for asymmetric fabrics are not here: a switch knows its own
//! links only.

use super::{ByUplink, UplinkChoice};
use crate::fabric::{Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "drill",
    about: "DRILL: the shortest of some queues drawn at random and the best of last time.",
    paths: PathNames::Entropy,
    params: &[Param {
        name: "samples",
        about: "Queues drawn for each packet (DRILL's d).",
        default: 2.0,
        range: (1.0, 64.0),
        whole: true,
    }],
    check: None,
    build: |_, values| Box::new(ByUplink(Drill { samples: values[0] as u32, best: None })),
};

struct Drill {
    samples: u32,
    /// One memory, as the paper recommends (m = 1).
    best: Option<PortId>,
}

impl UplinkChoice for Drill {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, _: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        let mut choice = uplinks[ctx.rng().below(uplinks.len() as u32) as usize];
        for _ in 1..self.samples {
            let drawn = uplinks[ctx.rng().below(uplinks.len() as u32) as usize];
            if ctx.queued_bytes(drawn) < ctx.queued_bytes(choice) {
                choice = drawn;
            }
        }
        // Equal queues: the drawn port stays.
        if let Some(best) = self.best.filter(|best| uplinks.contains(best))
            && ctx.queued_bytes(best) < ctx.queued_bytes(choice)
        {
            choice = best;
        }
        self.best = Some(choice);
        choice
    }

    fn on_link(&mut self) {
        self.best = None;
    }

    fn state_bytes(&self) -> usize {
        size_of::<PortId>()
    }
}
