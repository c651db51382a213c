//! The frames of endpoint operations: answers, Port Status Updates and requests as they leave. Source: `wire.md` 8.

use mrc_wire::{EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ip, Opcode, Psn, Qpn, TsethRepr};

use super::{
    Endpoint, Transmit,
    below::{Below, Entries, RouteKind, control_bth},
    op_table::Stage,
    profiles::profile,
    schedule::ATTEMPTS,
};
use crate::{
    num::Counter,
    path::{Choice, EvEntry},
    port::PortMask,
    time::Instant,
};

/// The mask on the wire (open question 30).
fn wire_mask(ports: PortMask, zero_based: bool) -> u32 {
    if zero_based { ports.bits() >> 1 } else { ports.bits() }
}

pub(super) fn ports_of(mask: u32, zero_based: bool) -> PortMask {
    PortMask::from_bits(if zero_based { mask << 1 } else { mask })
}

/// Writes another source into an IP header without options.
fn set_source(header: &mut [u8], src: &Ip) {
    match src {
        Ip::V6(src) => header.iter_mut().skip(8).zip(src).for_each(|(to, from)| *to = *from),
        Ip::V4(src) => {
            let bytes = header.iter_mut().skip(10).zip([0, 0].iter().chain(src));
            bytes.for_each(|(to, from)| *to = *from);
            let words = header.as_chunks::<2>().0.iter().take(10).map(|word| u32::from(u16::from_be_bytes(*word)));
            let sum = words.fold(0, u32::wrapping_add);
            let sum = (sum & 0xFFFF).wrapping_add(sum >> 16);
            let sum = !((sum & 0xFFFF).wrapping_add(sum >> 16) as u16);
            header.iter_mut().skip(10).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
        }
    }
}

impl Endpoint<'_> {
    /// The next frame of an endpoint operation: answers, then news of our ports, then requests.
    pub(super) fn send_op(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        self.send_answer(now, ports, out)
            .or_else(|| self.send_update(now, ports, out))
            .or_else(|| self.send_request(now, ports, out))
    }

    //= EPOP-003
    fn send_answer(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        while let Some(due) = self.ops.answers.front() {
            let Some(slot) = self.peers.get(due.peer as usize).filter(|slot| slot.used) else {
                self.ops.answers.pop();
                continue;
            };
            let usable = self.ports_to_test(slot);
            let free = usable.and(ports);
            let bound = slot.ev_profile;
            let path = if let Some(index) = bound {
                let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, index);
                let slot = self.peers.get_mut(due.peer as usize);
                let choice = slot
                    .zip(entries)
                    .and_then(|(slot, entries)| slot.op_paths.pick_answer(free, entries, &mut self.rng));
                choice.and_then(|choice| self.entry_of(bound, choice))
            } else if free.contains(due.port) {
                self.leads_to(due.peer, EvEntry::new(due.ev, due.port))
            } else {
                None
            };
            let Some(path) = path else {
                if free == usable {
                    // Nothing leads there: the peer asks again.
                    self.ops.answers.pop();
                    continue;
                }
                return None;
            };
            self.ops.answers.pop();
            // 0 means "no timestamp": a sum that lands on it is moved by one tick.
            let service = if due.serviced { now.stamp().wrapping_sub(due.arrived) } else { 0 };
            let timestamp = if due.serviced { due.timestamp.wrapping_add(service).max(1) } else { due.timestamp };
            let body = EndpointResponseRepr { op: due.op, timestamp };
            let rest = self.op_headers(due.peer, &path, Opcode::EndpointResponse, due.id, None, out);
            let Some((transmit, rest)) = rest else { continue };
            body.emit_at(self.cfg.wire.eeth_op_bit, rest.first_chunk_mut()?);
            let slot = self.peers.get(due.peer as usize)?;
            if due.local != slot.local && slot.own_addresses.is_empty() {
                set_source(out.get_mut(transmit.l3_offset..)?, &due.local);
            }
            self.stats.tx_endpoint_response.inc();
            return Some(transmit);
        }
        None
    }

    //= EPOP-006
    fn send_update(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let up = wire_mask(self.up, self.cfg.port_mask_zero_based);
        for _ in 0..ATTEMPTS {
            let peer = self.ops.sending.front()?;
            let slot = self.peers.get_mut(peer as usize)?;
            slot.update.todo = slot.update.todo.and(self.up);
            let Some(port) = slot.update.todo.and(ports).lowest() else {
                if !slot.update.todo.is_empty() {
                    // The driver has no frame for these ports; others may have their turn.
                    self.ops.sending.remove(self.peers, peer);
                    self.ops.sending.push(self.peers, peer);
                } else {
                    self.round_sent(now, peer);
                }
                continue;
            };
            slot.update.todo = slot.update.todo.without(port);
            let (choice, profile, id) = (slot.op_paths.on(port), slot.ev_profile, slot.update.id);
            self.round_sent(now, peer);
            let Some(path) = choice.and_then(|choice| self.entry_of(profile, choice)) else { continue };
            let Some((transmit, rest)) = self.op_headers(peer, &path, Opcode::EndpointRequest, id, None, out) else {
                continue;
            };
            let body = EndpointRequestRepr {
                op: EndpointOp::PortStatusUpdate,
                vendor_info: 0,
                port_status_mask: up,
                tseth: TsethRepr::ns128(now.stamp()),
            };
            body.emit(rest.first_chunk_mut()?);
            self.stats.tx_endpoint_request.inc();
            return Some(transmit);
        }
        None
    }

    //= EPOP-001, BTH-014
    fn send_request(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        for _ in 0..self.ops.queue.len {
            let nth = self.ops.queue.pop()?;
            let request = *self.ops.slot(nth)?;
            if !ports.contains(request.path.port) {
                if self.up.contains(request.path.port) {
                    self.ops.queue.push(nth);
                } else {
                    self.end_request(nth, None);
                }
                continue;
            }
            let path = self.leads_to(request.peer, request.path);
            let probe = request.op == EndpointOp::EvProbe;
            let dscp = request.dscp.or_else(|| probe.then_some(self.cfg.wire.dscp.no_trim));
            let headers = path
                .and_then(|path| self.op_headers(request.peer, &path, Opcode::EndpointRequest, request.id, dscp, out));
            let Some((transmit, rest)) = headers else {
                self.end_request(nth, None);
                continue;
            };
            let ports = if probe { PortMask::NONE } else { request.ports };
            let body = EndpointRequestRepr {
                op: request.op,
                vendor_info: 0,
                port_status_mask: wire_mask(ports, self.cfg.port_mask_zero_based),
                tseth: TsethRepr::ns128(now.stamp()),
            };
            body.emit(rest.first_chunk_mut()?);
            self.stats.tx_endpoint_request.inc();
            let deadline = now.after(request.timeout_ns.max(1));
            let slot = self.ops.slot(nth)?;
            (slot.stage, slot.sent_at, slot.deadline) = (Stage::Sent, now, deadline);
            self.ops.expiry = self.ops.expiry.min(deadline);
            return Some(transmit);
        }
        None
    }

    /// The path `choice` of a profile, with the destination that its entry holds.
    fn entry_of(&self, profile: Option<u32>, choice: Choice) -> Option<EvEntry> {
        let entry = *Entries::of(self.ev_entries, &self.limits, profile?).get(choice.entry)?;
        Some(EvEntry { ev: choice.ev, port: choice.port, ..entry })
    }

    /// A path that is given entry and all, if the peer can be reached by it.
    fn leads_to(&self, peer: u32, entry: EvEntry) -> Option<EvEntry> {
        let needs_dst = self.peers.get(peer as usize)?.route == RouteKind::Srv6Entry;
        if needs_dst && entry.dst.is_none() { None } else { Some(entry) }
    }

    /// Everything up to BTH of an endpoint operation, and where its body goes. Without a code point it is a control packet.
    fn op_headers<'o>(
        &mut self,
        peer: u32,
        path: &EvEntry,
        opcode: Opcode,
        id: u16,
        dscp: Option<u8>,
        out: &'o mut [u8],
    ) -> Option<(Transmit, &'o mut [u8])> {
        let len = if opcode == Opcode::EndpointRequest { EndpointRequestRepr::LEN } else { EndpointResponseRepr::LEN };
        let peer = Below::of((self.peers, self.planes, self.routes), &self.limits, peer)?;
        let bth = control_bth(Qpn::ENDPOINT, self.cfg.pkey, opcode, Psn::new(id.into()), false);
        peer.open(&self.cfg, &mut self.stats, (path.ev, path.port), || Some(path), dscp, &bth, len, out)
    }
}

#[cfg(test)]
mod tests {
    use mrc_wire::PortNum;

    use super::*;

    #[test]
    fn masks_follow_the_numbering() {
        let ports = PortMask::NONE.with(PortNum::from_plane(0)).with(PortNum::from_plane(3));
        assert_eq!(wire_mask(ports, false), 0b1_0010);
        assert_eq!(wire_mask(ports, true), 0b1001);
        assert_eq!(ports_of(0b1_0011, false), ports);
        assert_eq!(ports_of(0b1001, true), ports);
    }

    /// RFC 1071: the words of a header with a right checksum add up to all ones, however often the sum carries.
    //= IP4-001 test
    #[test]
    fn a_header_with_another_source_has_a_right_checksum() {
        let destination = [192, 0, 2, 1];
        for source in [[0; 4], [10, 0, 0, 1], [0xFF; 4], [0xBF, 0xFF, 0xFD, 0xFE], [0, 0, 0xFF, 0xFF]] {
            for id in 0..=u16::MAX {
                let mut header = [0x45, 0xB8, 0, 60, 0, 0, 0x40, 0, 64, 17, 0x12, 0x34, 9, 9, 9, 9, 0, 0, 0, 0];
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[16..].copy_from_slice(&destination);
                set_source(&mut header, &Ip::V4(source));
                assert_eq!((&header[12..16], &header[16..]), (&source[..], &destination[..]));
                let words = header.as_chunks::<2>().0.iter().map(|word| u64::from(u16::from_be_bytes(*word)));
                let sum = words.sum::<u64>();
                assert_eq!(sum % 0xFFFF, 0, "{header:?}");
            }
        }
    }
}
