//! Priority flow control: who is told to pause, when, and what that does.

use mrc_core::Instant;
use mrc_wire::PortNum;

use super::super::port::Owner;
use super::{Event, Sim};
use crate::host::Host;

/// Bytes of a pause frame.
const PAUSE_BYTES: u64 = 64;

impl<H: Host> Sim<H> {
    /// Data that came in by port `ingress` joined or left a queue: PFC may have to tell the sender.
    pub(super) fn account(&mut self, ingress: u32, joined: bool, bytes: u32) {
        let port = &mut self.ports[ingress as usize];
        let (Some(pfc), Owner::Switch(owner)) = (self.queue.pfc, port.owner) else { return };
        let switch = &mut self.switches[owner as usize];
        let held = u64::from(bytes);
        switch.buffered = if joined { switch.buffered + held } else { switch.buffered.saturating_sub(held) };
        let limits = pfc.thresholds(switch.buffer.saturating_sub(switch.buffered));
        if let Some(paused) = port.account_ingress(joined, bytes, limits) {
            self.send_pause(ingress, paused);
        }
    }

    /// Tells the far end of a port's link to pause, or to go on.
    pub(super) fn send_pause(&mut self, ingress: u32, paused: bool) {
        // The pause frame overtakes what waits, as control frames of a MAC do: it leaves behind the frame that is being
        // sent, and needs its time on the link.
        let port = &self.ports[ingress as usize];
        let link = port.link();
        let gap = Instant::from_nanos(port.next_gap(self.now.as_nanos()));
        let at = gap.after(u64::from(link.delay_ns) + PAUSE_BYTES * 8_000_000_000 / link.rate_bps);
        let epoch = self.ports[(ingress ^ 1) as usize].epoch;
        self.fly_pause(at, ingress ^ 1, paused, epoch);
    }

    pub(super) fn pause(&mut self, port_id: u32, paused: bool, epoch: u16) {
        let now = self.now;
        let port = &mut self.ports[port_id as usize];
        if port.epoch != epoch {
            return; // the link was cut while the frame was on it: both ends have begun anew
        }
        port.set_paused(paused);
        match port.owner {
            Owner::Switch(_) => {
                if let Some(at) = port.wake(now.as_nanos()) {
                    self.wheel.schedule(Instant::from_nanos(at), Event::PortFree { port: port_id });
                }
            }
            Owner::Host { host, plane } => {
                let slot = &mut self.hosts[host];
                slot.host.on_pause(now, PortNum::from_plane(plane), paused, &mut self.world);
                self.wake_host(host, now);
            }
        }
    }
}
