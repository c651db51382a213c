//! A scheme that counts hops, and drops what has crossed too many switches.

use mrc_sim::scheme::ip;
use mrc_sim::{NoForward, Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, Way};

pub(super) static COUNTING: SchemeInfo = SchemeInfo {
    name: "counting",
    about: "Counts hops.",
    paths: PathNames::Entropy,
    params: &[Param { name: "most", about: "Hops.", default: 3.0, range: (0.0, 255.0) }],
    check: None,
    build: |_, values| Box::new(Counting { most: values[0] as u8, ticks: 0 }),
};

/// A whole scheme: IP forwarding in which every switch counts hops in the packet's scratch area, tells the time, and drops
/// what has crossed too many.
struct Counting {
    most: u8,
    ticks: u32,
}

impl SwitchScheme for Counting {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let host = ip::next_hop(packet)?;
        packet.scratch[0] += 1;
        if packet.scratch[0] > self.most {
            return Err(NoForward::HopLimit);
        }
        if self.ticks == 0 {
            self.ticks = 1;
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
        match ctx.way(host).ok_or(NoForward::NoRoute)? {
            Way::Down(port) => Ok(Verdict::To(port)),
            Way::Up => Ok(Verdict::To(*ctx.uplinks().first().ok_or(NoForward::NoRoute)?)),
        }
    }

    fn on_timer(&mut self, ctx: &mut SwitchCtx<'_>, timer: u32) {
        assert_eq!(timer, 7);
        self.ticks += 1;
        if self.ticks < 5 {
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
    }
}
