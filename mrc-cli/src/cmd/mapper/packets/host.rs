//! A host of the simulator that runs a mapper agent, offers load when told to, and sleeps when told to.

use std::collections::VecDeque;

use mrc_core::{Instant, PortMask, Rng};
use mrc_mapper::agent::Agent;
use mrc_mapper::probe::{Class, Kind, Probe, UDP_PORT};
use mrc_sim::{Host, Packet, PayloadTag};
use mrc_wire::{DscpPlan, PortNum};

/// Ethernet and IPv6 header.
const HEAD: usize = 54;
/// Bytes of a frame of load: a data packet of 4 KiB. Each fourth one is the end of a message, of any length down to the least.
const LOAD_BYTES: u32 = 4200;
const LEAST_LOAD: u32 = 200;
/// Frames that a sleeping host's socket holds; the kernel drops what comes after them.
const SOCKET_FRAMES: usize = 256;
/// Microseconds that a histogram tells apart.
const MICROSECONDS: usize = 4096;

/// Packets at line rate on one port for a while.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub from: u64,
    pub until: u64,
    pub plane: u8,
    pub destination: [u8; 16],
}

/// Round trips of one class, by microsecond.
#[derive(Debug, Clone)]
pub struct Delays {
    buckets: Vec<u64>,
    pub max_ns: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { buckets: vec![0; MICROSECONDS], max_ns: 0 }
    }
}

impl Delays {
    fn add(&mut self, ns: u64) {
        let bucket = (ns / 1000).min(MICROSECONDS as u64 - 1);
        self.buckets[bucket as usize] += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Self) {
        for (sum, of_other) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += of_other;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The round trip that `part` of all do not exceed, in microseconds.
    pub fn quantile_us(&self, part: f64) -> f64 {
        let total: u64 = self.buckets.iter().sum();
        let mut left = (total as f64 * part) as u64;
        for (us, count) in self.buckets.iter().enumerate() {
            if *count > left {
                return us as f64;
            }
            left -= count;
        }
        self.max_ns as f64 / 1e3
    }
}

/// The host.
pub struct ProbeHost {
    pub agent: Agent,
    /// What its own clock shows when the simulation begins.
    clock: u64,
    /// Frames that wait for their port, by plane.
    frames: Vec<VecDeque<Vec<u8>>>,
    loads: VecDeque<Load>,
    running: Vec<Load>,
    /// Times at which it sleeps, the next one first.
    naps: VecDeque<(u64, u64)>,
    /// What arrived while it slept.
    socket: Vec<(u8, Vec<u8>)>,
    dropped: u64,
    offered: u64,
    draw: Rng,
    next_tick: u64,
    /// The simulator's host numbers by those of the agent.
    names: Vec<u16>,
    pub control: Delays,
    pub data: Delays,
}

impl ProbeHost {
    /// A host whose clock shows `clock` at first. `names` are the host numbers of the simulator by those of the agent.
    pub fn new(agent: Agent, clock: u64, names: Vec<u16>) -> Self {
        let planes = usize::from(agent.config().fabric.planes);
        Self {
            next_tick: agent.next_tick_ns() - clock,
            agent,
            clock,
            frames: vec![VecDeque::new(); planes],
            loads: VecDeque::new(),
            running: Vec::new(),
            naps: VecDeque::new(),
            socket: Vec::new(),
            dropped: 0,
            offered: 0,
            draw: Rng::new(clock),
            names,
            control: Delays::default(),
            data: Delays::default(),
        }
    }

    /// Has it offer load; loads come in the order of their beginning.
    pub fn offer(&mut self, load: Load) {
        self.loads.push_back(load);
    }

    /// Has it sleep; naps come in their order.
    pub fn sleep(&mut self, from: u64, until: u64) {
        self.naps.push_back((from, until));
    }

    /// Whether it sleeps.
    pub fn is_asleep(&self, now: u64) -> bool {
        self.naps.front().is_some_and(|nap| (nap.0..nap.1).contains(&now))
    }

    /// Frames that its socket had no room for.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Packets of load that it sent.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Hands a frame to the agent. What another host replied to, or what waited in the socket, says nothing about the
    /// network's delay.
    fn take(&mut self, now: u64, plane: u8, frame: &[u8], waited: bool) {
        let own = now + self.clock;
        let config = self.agent.config();
        if !waited
            && let Ok(arrival) = Probe::parse(frame, &config.key, &config.dscp)
            && arrival.probe.host == config.host
            && arrival.probe.kind == Kind::Path
        {
            let delays = if arrival.probe.class == Class::Data { &mut self.data } else { &mut self.control };
            delays.add(own.saturating_sub(arrival.probe.sent_ns));
        }
        // A refused frame is counted by the agent.
        let _ = self.agent.handle_frame(own, plane, frame);
    }

    /// As an agent on real interfaces does, it sends replies with its own probes, once per interval.
    fn turn(&mut self, now: u64) {
        let own = now + self.clock;
        self.agent.handle_tick(own);
        self.next_tick = self.agent.next_tick_ns() - self.clock;
        let mut frame = [0u8; 512];
        while let Some((plane, len)) = self.agent.poll_transmit(own, &mut frame) {
            let mut bytes = frame[..len].to_vec();
            for at in (42..54).step_by(2) {
                // The simulator numbers hosts T0 by T0.
                if bytes[at] >> 4 == 3 {
                    bytes[at + 1] = self.names[usize::from(bytes[at + 1])] as u8;
                }
            }
            self.frames[usize::from(plane)].push_back(bytes);
        }
    }

    fn write_load(&mut self, load: &Load, out: &mut Packet) {
        self.offered += 1;
        let bytes = match self.offered % 4 {
            0 => LEAST_LOAD + self.draw.below(LOAD_BYTES - LEAST_LOAD),
            _ => LOAD_BYTES,
        };
        let frame = &mut out.buffer()[..HEAD];
        frame.fill(0);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let class = DscpPlan::default().trimmable << 2;
        frame[14] = 0x60 | class >> 4;
        frame[15] = class << 4;
        frame[18..20].copy_from_slice(&((bytes as usize - HEAD) as u16).to_be_bytes());
        // No next header.
        frame[20..22].copy_from_slice(&[59, 64]);
        frame[38..54].copy_from_slice(&load.destination);
        out.set_header_len(HEAD);
        out.wire_len = bytes;
        out.payload = PayloadTag::default();
    }
}

impl Host for ProbeHost {
    type World = ();

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, (): &mut ()) {
        let frame = packet.header();
        if frame.get(56..58) != Some(&UDP_PORT.to_be_bytes()[..]) {
            return;
        }
        let now = now.as_nanos();
        if !self.is_asleep(now) {
            let frame = frame.to_vec();
            self.take(now, port.plane(), &frame, false);
        } else if self.socket.len() < SOCKET_FRAMES {
            self.socket.push((port.plane(), frame.to_vec()));
        } else {
            self.dropped += 1;
        }
    }

    fn on_timer(&mut self, now: Instant, (): &mut ()) {
        let now = now.as_nanos();
        while self.loads.front().is_some_and(|load| load.from <= now) {
            self.running.extend(self.loads.pop_front());
        }
        self.running.retain(|load| load.until > now);
        if self.is_asleep(now) {
            return;
        }
        if self.naps.front().is_some_and(|nap| nap.1 <= now) {
            self.naps.pop_front();
            if self.socket.len() >= SOCKET_FRAMES {
                self.agent.handle_drops(now + self.clock);
            }
            for (plane, frame) in std::mem::take(&mut self.socket) {
                self.take(now, plane, &frame, true);
            }
            self.turn(now);
        } else if self.next_tick <= now {
            self.turn(now);
        }
    }

    fn on_port(&mut self, _now: Instant, _port: PortNum, _up: bool, (): &mut ()) {}

    fn poll_transmit(&mut self, now: Instant, free: PortMask, out: &mut Packet, (): &mut ()) -> Option<PortNum> {
        let now = now.as_nanos();
        for plane in 0..self.frames.len() as u8 {
            let port = PortNum::from_plane(plane);
            if free.contains(port)
                && let Some(frame) = self.frames[usize::from(plane)].pop_front()
            {
                out.buffer()[..frame.len()].copy_from_slice(&frame);
                out.set_header_len(frame.len());
                out.wire_len = frame.len() as u32;
                out.payload = PayloadTag::default();
                return Some(port);
            }
        }
        let ready = |load: &Load| load.until > now && free.contains(PortNum::from_plane(load.plane));
        let at = self.running.iter().position(ready)?;
        // Loads of one port take turns.
        let load = self.running.remove(at);
        self.running.push(load);
        self.write_load(&load, out);
        Some(PortNum::from_plane(load.plane))
    }

    fn next_timeout(&self) -> Option<Instant> {
        let nap = self.naps.front();
        let wake = nap.map(|nap| nap.1);
        let tick = match nap {
            Some(nap) if self.next_tick >= nap.0 => nap.1,
            _ => self.next_tick,
        };
        let load = self.loads.front().map(|load| load.from);
        [Some(tick), load, wake].into_iter().flatten().min().map(Instant::from_nanos)
    }
}
