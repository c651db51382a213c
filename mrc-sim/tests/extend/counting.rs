//! A scheme that counts hops, drops what has crossed too many switches, and tells the sender's leaf.

use mrc_sim::scheme::ip;
use mrc_sim::{NoForward, Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, Way};

pub(super) static COUNTING: SchemeInfo = SchemeInfo {
    name: "counting",
    about: "Counts hops.",
    paths: PathNames::Entropy,
    params: &[Param { name: "most", about: "Hops.", default: 3.0, range: (0.0, 255.0), whole: true }],
    check: None,
    build: |site, values| {
        let (spine, leaf, hosts_per_leaf) = (site.spine, site.index as u8, site.clos.hosts_per_t0());
        Box::new(Counting { spine, leaf, hosts_per_leaf, most: values[0] as u8, ticks: 0, notes: 0 })
    },
};

/// In the last byte of the scratch area: a note to the leaf of a sender. Packets of hosts have zeros there.
const NOTE: u8 = 1;

/// A whole scheme: IP forwarding in which every switch counts hops in the packet's scratch area, tells the time, and drops
/// what has crossed too many. A note of 64 bytes then goes back to a host of the sender's leaf, and that leaf, which takes it
/// out, tries its next uplink.
struct Counting {
    spine: bool,
    leaf: u8,
    hosts_per_leaf: u32,
    most: u8,
    ticks: u32,
    notes: u32,
}

impl SwitchScheme for Counting {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, ingress: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let host = ip::next_hop(packet)?;
        let way = ctx.way(host).ok_or(NoForward::NoRoute)?;
        if packet.scratch[15] == NOTE {
            return match way {
                Way::Down(port) if self.spine => Ok(Verdict::To(port)),
                _ => {
                    self.notes += 1;
                    Ok(Verdict::Consume)
                }
            };
        }
        if packet.scratch[0] == 0 {
            packet.scratch[1] = self.leaf;
        }
        packet.scratch[0] += 1;
        if packet.scratch[0] > self.most {
            let (mut scratch, to) = ([0; 16], u32::from(packet.scratch[1]) * self.hosts_per_leaf);
            scratch[15] = NOTE;
            ctx.emit(ingress, ip::control_packet(to, 64, scratch));
            return Err(NoForward::HopLimit);
        }
        if self.ticks == 0 {
            self.ticks = 1;
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
        match way {
            Way::Down(port) => Ok(Verdict::To(port)),
            Way::Up => {
                let uplinks = ctx.uplinks();
                let next = self.notes as usize % uplinks.len().max(1);
                Ok(Verdict::To(*uplinks.get(next).ok_or(NoForward::NoRoute)?))
            }
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
