//! The engine of this project as endpoint under test: set up from knobs, driven frame by frame. Knows no clock, so that
//! one driver serves virtual time and a real link.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use mrc_core::path::EvEntry;
use mrc_core::{
    Access, Completion, CqHandle, Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, MrHandle, Operation, OwnedStorage, Pd, PeerConfig, PlaceToken, PlanePath, PortConfig, PortMask, QpHandle,
    QpInit, QpState, Received, RetryConfig, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status, Trimming,
};
use mrc_wire::srv6::{CopyOp, EvTemplate, container};
use mrc_wire::{Ev, Ip, NackReason, PortNum, Psn, Qpn, Rkey};

use crate::facts::{self, Facts, REGION, TARGET_VA};
use crate::knobs::{KNOBS, Knobs};
use crate::reading::Reading;
use crate::script::Post;
use crate::target::{Done, DoneKind, Heard, Refusal, Target};

/// All randomness of the engine comes from here, so that a script runs the same everywhere.
const SEED: u64 = 0x4D52_4331;

/// MAC address of port `n` of target and tester in virtual time.
fn virtual_mac(host: u8, port: u8) -> [u8; 6] {
    [2, 0, 0, 0, port, host]
}

/// An engine with one QP towards the tester.
pub struct Engine<'s> {
    endpoint: Endpoint<'s>,
    qp: QpHandle,
    cq: CqHandle,
    mr: MrHandle,
    memory: Vec<u8>,
    facts: Facts,
    /// Of each packet that was placed, by PSN.
    placements: HashMap<u32, PlaceToken>,
    reading: Reading,
}

/// Runs `f` with an engine set up as `knobs` and the tester's `offer` say; the facts it gets are complete.
///
/// # Errors
/// A knob the engine does not have at this value.
pub fn with_engine<R>(
    knobs: &Knobs,
    offer: Facts,
    target_mac: Vec<[u8; 6]>,
    f: impl FnOnce(&mut Engine<'_>, &Facts) -> R,
) -> Result<R, Refusal> {
    let mpr = knobs.get("mpr").max(knobs.get("mpr_tx")).clamp(1, 256) as usize;
    let usual = Limits::default();
    let wimm = knobs.get("max_wimm_dest").clamp(0, 65_535) as usize;
    let limits = Limits {
        qps: 4,
        mpr: mpr.next_power_of_two(),
        wimm: usual.wimm.max(wimm),
        recv_queue: usual.recv_queue.max(wimm.next_power_of_two()),
        evs: 64,
        active_evs: 64,
        ..usual
    };
    let mut storage = OwnedStorage::new(limits).map_err(|why| Refusal::NotApplicable(why.to_string()))?;
    let mut engine = Engine::new(&mut storage, knobs, offer, target_mac).map_err(Refusal::NotApplicable)?;
    let facts = engine.facts.clone();
    Ok(f(&mut engine, &facts))
}

/// As [`with_engine`] in virtual time, ready to be played against.
///
/// # Errors
/// A knob the engine does not have at this value.
pub fn with_virtual<R>(knobs: &Knobs, f: impl FnOnce(&mut dyn Target, &Facts) -> R) -> Result<R, Refusal> {
    let planes = knobs.get("planes").clamp(1, 8) as u8;
    let mac = |host| (1..=planes).map(|port| virtual_mac(host, port)).collect::<Vec<_>>();
    with_engine(knobs, Facts::offer(knobs, mac(0xA)), mac(0xB), |engine, facts| {
        let mut target = Virtual { engine, now: 0, out: VecDeque::new(), done: VecDeque::new() };
        target.drain();
        f(&mut target, facts)
    })
}

fn ip(address: IpAddr) -> Ip {
    match address {
        IpAddr::V4(v4) => Ip::V4(v4.octets()),
        IpAddr::V6(v6) => Ip::V6(v6.octets()),
    }
}

fn endpoint_config(knobs: &Knobs, facts: &Facts, macs: &[[u8; 6]]) -> Result<EndpointConfig, String> {
    let mut cfg = EndpointConfig::default();
    for name in EndpointConfig::KNOBS.iter().filter(|name| KNOBS.iter().any(|knob| knob.name == **name)) {
        cfg.set_knob(name, knobs.get(name) as u64).map_err(|why| format!("{name}={}: {why}", knobs.get(name)))?;
    }
    cfg.gids[0] = Some(ip(facts.target_ip));
    for (plane, mac) in macs.iter().enumerate().take(MAX_PORTS) {
        let sid = facts.target_sid.get(plane).filter(|_| knobs.on("srv6")).map(|sid| sid.octets());
        cfg.ports[plane] = Some(PortConfig { mac: *mac, sid, addr: None });
    }
    Ok(cfg)
}

fn rts_attr(knobs: &Knobs) -> Result<RtsAttr, String> {
    let mut rts = RtsAttr::software(Psn::new(knobs.get("sq_psn") as u32));
    for name in RtsAttr::KNOBS.iter().filter(|name| KNOBS.iter().any(|knob| knob.name == **name)) {
        rts.set_knob(name, knobs.get(name) as u64).map_err(|why| format!("{name}={}: {why}", knobs.get(name)))?;
    }
    rts.mpr = knobs.get("mpr_tx") as u8;
    rts.max_wimm = knobs.get("max_wimm") as u16;
    rts.dynamic_mpr = knobs.on("dynamic_mpr");
    let (timeout, linear) = (knobs.get("timeout") as u8, knobs.get("linear") as u8);
    rts.retry = RetryConfig { timeout, linear, exponential: knobs.get("exp") as u8 };
    rts.trimming = if knobs.on("trimming") { Trimming::On } else { Trimming::Off };
    rts.paths.active = 64;
    rts.paths.backup = 0;
    Ok(rts)
}

impl<'s> Engine<'s> {
    fn new(storage: &'s mut OwnedStorage, knobs: &Knobs, mut facts: Facts, macs: Vec<[u8; 6]>) -> Result<Self, String> {
        let text = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
        let cfg = endpoint_config(knobs, &facts, &macs)?;
        let mut endpoint = Endpoint::new(cfg, storage.lend(), SEED).map_err(|why| text("configuration", &why))?;
        let cq = endpoint.create_cq().map_err(|why| text("completion queue", &why))?;
        let access = if knobs.on("access") { Access::REMOTE_WRITE } else { Access::LOCAL };
        let range = MemRange { va: TARGET_VA, len: REGION };
        let mr = endpoint.register_mr(Pd(0), range, access).map_err(|why| text("memory", &why))?;
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qp = endpoint.create_qp(&init).map_err(|why| text("QP", &why))?;
        facts.target_qpn = qp.qpn().value();
        (facts.target_va, facts.region) = (range.va, range.len);
        facts.target_rkey = endpoint.key(mr).map_or(0, |key| key.0);
        facts.target_mac = macs;
        // Made once: a script takes less time than a megabyte of pattern.
        static PATTERN: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let reading = Reading::of(knobs);
        let memory = PATTERN.get_or_init(|| (0..REGION).map(facts::initial).collect()).clone();
        let mut engine = Self { endpoint, qp, cq, mr, memory, facts, placements: HashMap::new(), reading };
        engine.connect(knobs).map_err(|why| format!("this engine cannot be set up so: {why}"))?;
        Ok(engine)
    }

    fn connect(&mut self, knobs: &Knobs) -> Result<(), Box<dyn std::error::Error>> {
        let facts = &self.facts;
        let mut planes = [None; MAX_PORTS];
        for (plane, path) in planes.iter_mut().enumerate().take(facts.target_mac.len()) {
            let next_hop = facts.tester_mac.get(plane).or(facts.tester_mac.first()).copied().unwrap_or([0; 6]);
            let outer_src = facts.target_sid.get(plane).filter(|_| knobs.on("srv6")).map(|sid| sid.octets());
            *path = Some(PlanePath { next_hop, outer_src });
        }
        let route = if knobs.on("srv6") {
            let host = facts.tester_sid.first().map_or(0, |sid| sid.segments()[2]);
            let base = container(0xFCBB_BB00, &[0x1000, host]);
            Route::Srv6(
                EvTemplate::new(base, &[CopyOp { ev_lsb: 0, width: 12, dst_msb_offset: 36 }])
                    .map_err(|why| why.to_string())?,
            )
        } else {
            Route::Plain
        };
        let (local, remote) = (ip(facts.target_ip), ip(facts.tester_ip));
        let peer = self.endpoint.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 })?;
        let port = |port: u8| PortNum::new(port).ok_or("an EV names port 0");
        let entries: Result<Vec<EvEntry>, _> =
            facts.evs.iter().map(|&(ev, on)| Ok::<_, &str>(EvEntry::new(Ev(ev), port(on)?))).collect();
        let ev_profile = self.endpoint.create_ev_profile(&entries?)?;
        let state = knobs.get("state");
        if state >= 1 {
            self.endpoint.modify_to_init(self.qp)?;
        }
        if state >= 2 {
            let mut rtr = RtrAttr {
                path_mtu: knobs.get("mtu") as u16,
                mpr_dest: knobs.get("mpr") as u8,
                max_wimm_dest: knobs.get("max_wimm_dest") as u16,
                dynamic_mpr: knobs.on("dynamic_mpr"),
                ..RtrAttr::software(peer, Qpn::new(facts.tester_qpn), Psn::new(knobs.get("psn") as u32), ev_profile)
            };
            for name in RtrAttr::KNOBS {
                rtr.set_knob(name, knobs.get(name) as u64)?;
            }
            self.endpoint.modify_to_rtr(Instant::ZERO, self.qp, &rtr)?;
        }
        if state >= 3 {
            self.endpoint.modify_to_rts(Instant::ZERO, self.qp, &rts_attr(knobs)?)?;
        }
        if state >= 4 {
            self.endpoint.modify_to_error(Instant::ZERO, self.qp)?;
        }
        Ok(())
    }

    /// A frame arrived.
    pub fn receive(&mut self, now: u64, port: u8, frame: &[u8]) {
        let Some(port) = PortNum::new(port) else { return };
        let mut read = frame.to_vec();
        if !self.reading.takes(&mut read) {
            return;
        }
        let frame = &read[..];
        let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
        if let Ok(Received::Place(place)) = self.endpoint.handle_packet(Instant::from_nanos(now), meta, frame) {
            self.placements.insert(place.psn.value(), place.token);
            let at = place.offset as usize;
            self.memory[at..at + place.payload.len()].copy_from_slice(&frame[place.payload]);
        }
    }

    /// When [`Engine::pass`] next has something to do.
    pub fn next_timeout(&self) -> Option<u64> {
        self.endpoint.next_timeout().map(Instant::as_nanos).filter(|at| *at != u64::MAX)
    }

    /// Time has come to `now`.
    pub fn pass(&mut self, now: u64) {
        self.endpoint.handle_timeout(Instant::from_nanos(now));
    }

    /// The next frame to send and its port.
    pub fn transmit(&mut self, now: u64) -> Option<(u8, Vec<u8>)> {
        let mut head = [0u8; MAX_HEADER_LEN];
        let tx = self.endpoint.poll_transmit(Instant::from_nanos(now), PortMask::ALL, &mut head)?;
        let mut frame = head[..tx.header_len].to_vec();
        if let Some(payload) = tx.payload {
            let at = payload.offset as usize;
            frame.extend(&self.memory[at..at + payload.len as usize]);
        }
        frame.resize(frame.len() + usize::from(tx.pad), 0);
        let trailer = mrc_wire::icrc::compute(&frame[tx.l3_offset..]).unwrap_or_default();
        frame.extend(trailer);
        self.reading.sends(&mut frame);
        Some((tx.port.value(), frame))
    }

    /// The oldest completion.
    pub fn completion(&mut self, now: u64) -> Option<Done> {
        let Completion { wr_id, operation, status, imm, solicited, byte_len, .. } =
            self.endpoint.poll_completion(self.cq)?;
        let kind = if operation == Operation::Receive { DoneKind::Recv } else { DoneKind::Write };
        let status = match status {
            Status::Success => "success",
            Status::LocalProtection => "local_protection",
            Status::Flushed => "flushed",
            Status::RemoteInvalidRequest => "remote_invalid_request",
            Status::RemoteAccess => "remote_access",
            Status::RemoteOperation => "remote_operation",
            Status::RetryExceeded => "retry_exceeded",
            _ => "unknown",
        };
        Some(Done { at: now, kind, id: wr_id, status: status.into(), len: byte_len, imm, solicited })
    }

    /// The application or the driver does something.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn act(&mut self, now: u64, post: &Post) -> Result<(), Refusal> {
        let now = Instant::from_nanos(now);
        let refused = |why: &dyn std::fmt::Display| Refusal::Broken(format!("the engine refused {post:?}: {why}"));
        let (endpoint, qp) = (&mut self.endpoint, self.qp);
        match *post {
            Post::Write { id, len, from, at, imm, solicited, signaled } => {
                let wr = SendWr {
                    wr_id: id,
                    lkey: self.facts.target_rkey,
                    local_va: TARGET_VA.wrapping_add(from),
                    len,
                    remote_va: self.facts.tester_va.wrapping_add(at),
                    rkey: Rkey(self.facts.tester_rkey),
                    signaled,
                    imm,
                    solicited,
                };
                endpoint.post_send(now, qp, &wr).map_err(|why| refused(&why))
            }
            Post::Recv { id } => endpoint.post_recv(qp, id).map_err(|why| refused(&why)),
            Post::Mpr { units } => endpoint.set_mpr(qp, units).map_err(|why| refused(&why)),
            Post::Port { port, up } => {
                let port = PortNum::new(port).ok_or_else(|| refused(&"ports count from 1"))?;
                endpoint.set_port(now, port, up);
                Ok(())
            }
            Post::Refuse { reason } => {
                endpoint.set_refusal((reason != 0).then(|| NackReason::from_u8(reason)));
                Ok(())
            }
            Post::PlaceFailure { psn } => {
                let token = self.placements.get(&psn).ok_or_else(|| refused(&"it placed no packet with this PSN"))?;
                endpoint.place_failed(now, *token).map_err(|why| refused(&why))
            }
            Post::Error => endpoint.modify_to_error(now, qp).map_err(|why| refused(&why)),
            Post::Deregister => endpoint.deregister_mr(self.mr).map_err(|why| refused(&why)),
        }
    }

    /// Bytes of the region.
    pub fn memory(&self, offset: u64, len: usize) -> Vec<u8> {
        let at = offset as usize;
        self.memory.get(at..at.saturating_add(len)).unwrap_or(&[]).to_vec()
    }

    /// A counter, or the QP's state as `qp_state`.
    ///
    /// # Errors
    /// No such counter.
    pub fn counter(&self, name: &str) -> Result<i64, Refusal> {
        if name == "qp_state" {
            let state = self.endpoint.qp_info(self.qp).map_or(QpState::Reset, |info| info.state);
            return Ok(state as i64);
        }
        let mut found = None;
        self.endpoint.stats().for_each(|counter, value| {
            if counter == name {
                found = Some(value as i64);
            }
        });
        found.ok_or_else(|| Refusal::Broken(format!("the engine has no counter `{name}`")))
    }
}

/// The engine in virtual time: things happen when the script says so, and timers exactly when they are due.
struct Virtual<'e, 's> {
    engine: &'e mut Engine<'s>,
    now: u64,
    out: VecDeque<Heard>,
    done: VecDeque<Done>,
}

impl Virtual<'_, '_> {
    fn drain(&mut self) {
        while let Some((port, frame)) = self.engine.transmit(self.now) {
            self.out.push_back(Heard { at: self.now, port, frame });
        }
        while let Some(done) = self.engine.completion(self.now) {
            self.done.push_back(done);
        }
    }

    /// Lets time pass to `until`; stops at the first instant at which a frame leaves when `stop` says so.
    fn pass(&mut self, until: u64, stop: bool) {
        while let Some(at) = self.engine.next_timeout().filter(|at| *at <= until) {
            if stop && !self.out.is_empty() {
                return;
            }
            self.now = self.now.max(at);
            self.engine.pass(self.now);
            self.drain();
        }
        if !stop || self.out.is_empty() {
            self.now = self.now.max(until);
        }
    }
}

impl Target for Virtual<'_, '_> {
    fn slowness(&self) -> u64 {
        0
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.pass(at, false);
        // A tester that waited for what did not come is behind: time does not go back.
        self.engine.receive(self.now, port, frame);
        self.drain();
        Ok(())
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        self.pass(until, true);
        Ok(self.out.pop_front())
    }

    fn act(&mut self, at: u64, post: &Post) -> Result<(), Refusal> {
        self.pass(at, false);
        self.engine.act(self.now, post)?;
        self.drain();
        Ok(())
    }

    fn done(&mut self, until: u64) -> Result<Option<Done>, Refusal> {
        self.pass(until, false);
        Ok(self.done.pop_front())
    }

    fn memory(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        Ok(self.engine.memory(offset, len))
    }

    fn counter(&mut self, name: &str) -> Result<i64, Refusal> {
        self.engine.counter(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tester does not know where the target's memory begins: the target says it.
    #[test]
    fn an_engine_completes_the_facts_about_itself() {
        let knobs = Knobs::default();
        let mut offer = Facts::offer(&knobs, vec![virtual_mac(0xA, 1)]);
        (offer.target_va, offer.target_rkey, offer.target_qpn) = (0, 0, 0);
        let facts = with_engine(&knobs, offer, vec![virtual_mac(0xB, 1)], |_, facts| facts.clone()).expect("an engine");
        assert_eq!((facts.target_va, facts.region), (TARGET_VA, REGION));
        assert!(facts.target_rkey != 0 && facts.target_qpn > 2);
        assert_eq!(facts.target_mac, [virtual_mac(0xB, 1)]);
    }
}
