//! The return paths of control packets: what teaches them, when EV probes look for others, what makes them
//! suspect. Which EV each acknowledgement takes is `path`'s ([`crate::path::ReverseSet`]). Source: `paths.md` 11.

use mrc_wire::EndpointOp;

use super::{
    Endpoint,
    op_table::{Owner, Request},
    profiles::profile,
};
use crate::num::Counter;
use crate::{
    path::Choice,
    qp::{QpHandle, QpState},
    time::Instant,
};

/// Round trips between two replacements of suspect return paths: what the last one changed must have been heard of.
const REROUTE_PAUSE_RTTS: u64 = 4;

/// Round trip that a QP which cannot send, and so measures none, is taken to have, in nanoseconds.
const UNMEASURED_RTT_NS: u64 = 50_000;

/// Longest time that an EV probe waits for its answer, in nanoseconds.
const MOST_PATIENCE_NS: u64 = 100_000_000;

impl Endpoint<'_> {
    /// A duplicate, or a probe without new data before it, hints that our acknowledgements were lost: return paths that nothing
    /// has confirmed since the last hint are replaced at once, without waiting for the result of a probe.
    pub(super) fn reroute_answers(&mut self, now: Instant, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let rtt_ns = match slot.reverse.rtt_ns() {
            0 => UNMEASURED_RTT_NS,
            measured => measured,
        };
        // ZERO: they never were, however early it is.
        let lately =
            slot.rerouted != Instant::ZERO && now.since(slot.rerouted) < rtt_ns.saturating_mul(REROUTE_PAUSE_RTTS);
        if lately {
            return;
        }
        slot.rerouted = now;
        if let Some(entries) = profile(self.ev_entries, &self.ev_profiles, &self.limits, slot.ev_profile) {
            slot.reverse.redraw(entries, &mut self.rng);
        }
    }

    /// Data or a probe came in on `qp` and it sends nothing from which it could learn: an EV probe looks for a return path.
    //= REV-003, RES-005
    #[inline(never)]
    pub(super) fn probe_return_path(&mut self, now: Instant, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let rtt_ns = if slot.state == QpState::Rts { slot.req.base_rtt_ns() } else { UNMEASURED_RTT_NS };
        // A side that only receives measures no round trip of data. Its probes do, late answers included.
        let measured_ns = slot.reverse.rtt_ns();
        let rtt_ns = rtt_ns.max(measured_ns);
        if !self.ops.may_probe(now) {
            slot.reverse.postpone(now, rtt_ns);
            return;
        }
        let patience_ns = match slot.state {
            QpState::Rts => slot.req.probe_patience_ns(),
            _ => 4 * UNMEASURED_RTT_NS,
        };
        let patience_ns = patience_ns.max(measured_ns.saturating_mul(3).min(MOST_PATIENCE_NS));
        let (peer, profile_index) = (slot.peer, slot.ev_profile);
        let handle = QpHandle { index: qp, qpn: slot.qpn };
        let ports = self.usable_ports(qp);
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, profile_index);
        let (Some(entries), Some(slot)) = (entries, self.qps.get_mut(qp as usize)) else { return };
        let choice = slot.reverse.poll_probe(now, entries, ports, rtt_ns, &mut self.rng);
        let entry = choice.and_then(|choice| Some((choice, *entries.get(usize::from(choice.entry))?)));
        if let Some((choice, path)) = entry {
            self.ops.probe(
                now,
                Request {
                    peer,
                    op: EndpointOp::EvProbe,
                    path,
                    owner: Owner::ReturnPath { qp: handle, choice },
                    timeout_ns: patience_ns,
                    ..Request::NONE
                },
            );
        }
    }

    /// An EV probe that looked for a return path ended, answered after `rtt_ns` or not.
    //= REV-003, REV-005, REV-006
    pub(super) fn return_path_probed(&mut self, qp: QpHandle, choice: Choice, rtt_ns: Option<u64>) {
        let Some(slot) = self.index_of(qp).and_then(|index| self.qps.get_mut(index as usize)) else { return };
        let Some(entries) = profile(self.ev_entries, &self.ev_profiles, &self.limits, slot.ev_profile) else { return };
        // The EV may have been denied meanwhile, or the QP reset and bound to another profile.
        let same = entries
            .get(usize::from(choice.entry))
            .is_some_and(|e| !e.denied && (e.ev, e.port) == (choice.ev, choice.port));
        if !same || !slot.state.receives() {
            return;
        }
        if let Some(rtt_ns) = rtt_ns {
            self.stats.return_path_found.inc();
            slot.reverse.on_probe_answered(choice, rtt_ns);
            if let Some(peer) = self.peers.get_mut(slot.peer as usize).filter(|p| p.ev_profile == Some(slot.ev_profile))
            {
                peer.op_paths.learn(choice);
            }
        } else {
            self.stats.return_path_lost.inc();
            slot.reverse.on_probe_lost(
                choice.port,
                choice.ev,
                entries,
                self.cfg.answers_on_silent_planes,
                &mut self.rng,
            );
        }
    }

    /// A SACK without mark vouches for the EV it echoes: control packets of its plane take that one from now on.
    //= REV-002
    #[inline(always)]
    pub(super) fn learn_return_path(&mut self, qp: u32, choice: Choice) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        slot.reverse.learn(choice);
        if let Some(peer) = self.peers.get_mut(slot.peer as usize).filter(|p| p.ev_profile == Some(slot.ev_profile)) {
            peer.op_paths.learn(choice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fetch::tests::{limits, pair};
    use crate::{Instant, MAX_HEADER_LEN, OwnedStorage, PortMask};

    /// Three peers with two queue pairs each, as their addresses tell.
    //= REV-003 test
    #[test]
    fn a_probe_of_a_return_path_goes_to_the_peer_of_its_queue_pair() {
        let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
        let [side, _] = &mut pair(&mut storage, 0);
        let engine = &mut side.engine;
        let (now, mut head) = (Instant::from_nanos(1_000_000), [0; MAX_HEADER_LEN]);
        while engine.poll_transmit(now, PortMask::ALL, &mut head).is_some() {}
        for qp in 0..6u8 {
            engine.qps[usize::from(qp)].reverse.on_data_received();
            engine.probe_return_path(now, qp.into());
            assert!(engine.poll_transmit(now, PortMask::ALL, &mut head).is_some());
            assert_eq!(head[14 + 24..][..3], [0xFD, 1, qp % 3], "queue pair {qp}");
        }
    }
}
