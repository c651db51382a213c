//! An agent on real interfaces: packet sockets with a filter of their own, beside a running MRC device. The device's XDP program
//! passes UDP to the mapper's port on to the kernel, so that its queues and its processor time stay its own.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use mrc_afxdp::{PacketFilter, Port as _, PortError, Problem, RawConfig, RawPort, SetupError};
use mrc_mapper::agent::{Agent, AgentConfig, PortAddress};
use mrc_mapper::probe::{FRAME_LEN, Key, MAX_PADDING, UDP_PORT};
use mrc_mapper::{Fabric, HostId};
use mrc_verbs_shim::host::{HostFile, largest_path_mtu, required_mtu};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::usage::usage;

/// How often a vanished interface is looked for, and drop counters are read.
const RARE: Duration = Duration::from_millis(100);
/// A receive that was announced and brought nothing: a port without carrier, say. Nothing is gained by asking at once.
const REST: Duration = Duration::from_micros(500);

/// When an agent probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Probe interval.
    pub interval: Duration,
    /// A probe that is not back after so long is lost.
    pub timeout: Duration,
    /// After so long a probe of a path is as long as a full data packet; zero: never.
    pub full_every: Duration,
}

impl Times {
    /// Every how many probes of a path one is full; 0: never.
    fn full_every(&self) -> u32 {
        let probes = (self.full_every.as_nanos() / self.interval.as_nanos().max(1)) as u32;
        if self.full_every.is_zero() { 0 } else { probes.max(1) }
    }
}

/// The agent of one host.
pub struct Runner {
    agent: Agent,
    namespace: Option<String>,
    interfaces: Vec<String>,
    ports: Vec<Option<RawPort>>,
    drops: u64,
    start: Instant,
    rare: Instant,
}

/// The mapper's view of a lab fabric.
pub fn lab_fabric(fabric: &mrc_lab::Fabric) -> Fabric {
    fabric_of(fabric.shape())
}

/// A lab of this shape as the mapper sees it.
pub fn fabric_of(shape: &mrc_lab::Shape) -> Fabric {
    Fabric {
        planes: shape.planes,
        leaves: u16::from(shape.t0),
        spines: u16::from(shape.t1),
        hosts: u16::from(shape.hosts),
    }
}

/// Padding of a probe that is as long as the longest data packet which interfaces of this MTU take.
fn full_padding(mtu: u32) -> u16 {
    const ETHERNET: usize = 14;
    let longest = largest_path_mtu(mtu).map_or(0, |payload| ETHERNET + required_mtu(payload) as usize);
    longest.saturating_sub(FRAME_LEN).min(MAX_PADDING) as u16
}

/// Where a host stands in its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub number: HostId,
    /// First 32 bits of every micro-SID container.
    block: u32,
}

/// Reads the place of a host from its SIDs, whose micro-SIDs are role 3, plane and number of the host.
///
/// # Errors
/// The mapper cannot watch a fabric with such SIDs, or the host is not in this one.
pub fn place(host: &HostFile, fabric: &Fabric) -> anyhow::Result<Place> {
    let wrong = |why: String| usage(anyhow!("host {}: {why}", host.name));
    if host.planes.len() != usize::from(fabric.planes) {
        let planes = host.planes.len();
        return Err(wrong(format!("its file has {planes} planes, and the fabric {}", fabric.planes)));
    }
    // The SIDs of all planes are those of one host: the file would have been refused.
    let Some(sid) = host.planes.first().and_then(|plane| plane.sid) else {
        return Err(wrong("its planes have no `sid`: probes need SRv6 to come back to their host".to_owned()));
    };
    let [high, low, usid, rest @ ..] = sid.segments();
    if usid & 0xFF00 != 0x3000 || rest != [0; 5] {
        return Err(wrong(format!("sid {sid} of plane 0: the mapper needs BLOCK:30HH::, HH the host's number")));
    }
    let place = Place { number: usid & 0xFF, block: u32::from(high) << 16 | u32::from(low) };
    if place.number >= fabric.hosts {
        return Err(wrong(format!("its SIDs have number {}, and the fabric {} hosts", place.number, fabric.hosts)));
    }
    let leaf = fabric.leaf_of(place.number);
    for peer in &host.peers {
        // A direct link's template begins with the peer itself.
        let first = peer.template.map_or(0, |template| template.segments()[2]);
        if first & 0xF000 == 0x1000 && first & 0xFF != leaf {
            let why = format!("is under T0 {} in the template of {}, and", first & 0xFF, peer.name);
            return Err(wrong(format!("{why} under {leaf} in the mapper's count, host number modulo T0s")));
        }
    }
    Ok(place)
}

fn open(namespace: Option<&str>, interface: &str) -> anyhow::Result<RawPort> {
    let config = RawConfig {
        filter: PacketFilter { sids: Vec::new(), udp_ports: vec![UDP_PORT], addresses: Vec::new() },
        receive_buffer_bytes: 4 << 20,
        ..RawConfig::default()
    };
    Ok(match namespace {
        Some(namespace) => mrc_lab::enter(namespace, || RawPort::open(interface, &config))??,
        None => RawPort::open(interface, &config)?,
    })
}

fn is_absent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SetupError>().is_some_and(|error| error.problem == Problem::UnknownInterface)
}

impl Runner {
    /// The agent of a host of `fabric`.
    pub fn new(host: &HostFile, fabric: Fabric, key: Key, times: Times) -> anyhow::Result<Self> {
        let Place { number, block } = place(host, &fabric)?;
        let (mut ports, mut addresses, mut absent) = (Vec::new(), Vec::new(), None);
        for (number, plane) in host.planes.iter().enumerate() {
            let port = match open(host.namespace.as_deref(), &plane.interface) {
                Ok(port) => Some(port),
                // A port that broke with a reboot is what an agent is for: it reports it, and probes the other planes.
                Err(error) if is_absent(&error) => {
                    log::warn!("plane {number}: {error}; the agent goes on with the other planes");
                    absent = absent.or(Some(error));
                    None
                }
                Err(error) => return Err(error),
            };
            let (Some(next_hop), Some(source)) = (plane.next_hop_mac(), plane.addr) else {
                bail!("plane {number} of host {} lacks `next_hop` or `addr`", host.name);
            };
            let mac = port.as_ref().map_or([0; 6], RawPort::mac);
            addresses.push(PortAddress { mac, next_hop, source: source.octets() });
            ports.push(port);
        }
        if let Some(error) = absent.filter(|_| ports.iter().all(Option::is_none)) {
            return Err(error);
        }
        let mut instance = [0; 4];
        getrandom::fill(&mut instance).map_err(|error| anyhow::anyhow!("no random number: {error}"))?;
        let instance = u32::from_be_bytes(instance);
        let nanos = |time: Duration| time.as_nanos() as u64;
        let mut config = AgentConfig::new(fabric, number, addresses, key, instance);
        config.block = block;
        config.dscp = host.device().endpoint.wire.dscp;
        config.interval_ns = nanos(times.interval);
        config.timeout_ns = nanos(times.timeout);
        // A probe is judged lost when nobody looked for half its time.
        config.pause_ns = nanos(times.interval) * 2 + nanos(times.timeout) / 2;
        config.path.slow_ns = nanos(times.timeout) / 4;
        config.plan.full_every = times.full_every();
        config.plan.full_padding = full_padding(host.mtu);
        let start = Instant::now();
        let mut agent = Agent::new(config, 0)?;
        for (plane, _) in (0u8..).zip(&ports).filter(|(_, port)| port.is_none()) {
            agent.handle_port(plane, None);
        }
        Ok(Self {
            agent,
            namespace: host.namespace.clone(),
            interfaces: host.planes.iter().map(|plane| plane.interface.clone()).collect(),
            ports,
            drops: 0,
            start,
            rare: start,
        })
    }

    /// The agent.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Waits for frames or the next tick, and does what is due.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        let left = self.agent.next_tick_ns().saturating_sub(self.now_ns());
        if left > 0 && !self.wait(left)? {
            std::thread::sleep(REST.min(Duration::from_nanos(left)));
        }
        let mut received = 0;
        for (plane, port) in (0u8..).zip(&mut self.ports) {
            let Some(port) = port else { continue };
            let (agent, start) = (&mut self.agent, self.start);
            received += port.rx_batch(256, |frame| {
                if let Some(frame) = frame.contiguous() {
                    // The agent counts what it refuses.
                    let _ = agent.handle_frame(start.elapsed().as_nanos() as u64, plane, frame);
                }
            });
        }
        if received == 0 && left > 0 && self.now_ns() < self.agent.next_tick_ns() {
            std::thread::sleep(REST.min(Duration::from_nanos(left)));
        }
        if self.rare.elapsed() >= RARE {
            self.rare = Instant::now();
            self.look_after_ports();
        }
        let now = self.now_ns();
        if now >= self.agent.next_tick_ns() {
            self.agent.handle_tick(now);
            self.transmit();
        }
        Ok(())
    }

    fn wait(&self, nanos: u64) -> anyhow::Result<bool> {
        let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let mut fds: Vec<PollFd<'_>> =
            self.ports.iter().flatten().map(|port| PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => anyhow::bail!("cannot wait for frames: {errno}"),
        }
        // Only errors: a port that is down.
        let errors = |fd: &PollFd<'_>| !fd.revents().is_empty() && !fd.revents().contains(PollFlags::IN);
        Ok(!fds.iter().any(errors))
    }

    fn look_after_ports(&mut self) {
        let drops: u64 = self.ports.iter().flatten().map(|port| port.stats().rx_dropped).sum();
        if drops > self.drops {
            self.agent.handle_drops(self.now_ns());
        }
        self.drops = drops;
        for at in 0..self.ports.len() {
            if self.ports[at].is_none() {
                self.ports[at] = open(self.namespace.as_deref(), &self.interfaces[at]).ok();
                self.agent.handle_port(at as u8, self.ports[at].as_ref().map(RawPort::mac));
            }
        }
    }

    fn transmit(&mut self) {
        let mut frame = [0; FRAME_LEN + MAX_PADDING];
        loop {
            let now = self.now_ns();
            let Some((plane, len)) = self.agent.poll_transmit(now, &mut frame) else { break };
            let Some(port) = self.ports.get_mut(usize::from(plane)).and_then(Option::as_mut) else { continue };
            if port.tx_free() == 0 {
                // An error shows at the flush below.
                let _ = port.flush();
            }
            if let Some(mut slot) = port.tx_slot() {
                slot.buffer()[..len].copy_from_slice(&frame[..len]);
                slot.commit(len);
            }
        }
        for at in 0..self.ports.len() {
            let gone = self.ports[at].as_mut().is_some_and(|port| matches!(port.flush(), Err(PortError::Gone)));
            if gone {
                self.ports[at] = None;
                self.agent.handle_port(at as u8, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

    /// A host file with so many planes, this micro-SID and a peer behind this own T0.
    fn host(planes: u16, usid: u16, own_t0: u16) -> HostFile {
        let plane = |plane: u16| {
            let sid = format!("fcbb:bb00:{:x}::", usid | plane << 8);
            let port = format!("[[planes]]\ninterface = \"eth{plane}\"\nnext_hop = \"02:00:00:00:00:01\"\n");
            format!("{port}sid = \"{sid}\"\naddr = \"{sid}1\"\n")
        };
        let planes: String = (0..planes).map(plane).collect();
        let template = format!("template = \"fcbb:bb00:{own_t0:x}:2000:1001:3001::\"");
        let peer = format!("[[peers]]\nname = \"b\"\ngid = \"fd00::2\"\n{template}\nuplinks = 4\n");
        HostFile::parse("a", &format!("name = \"a\"\ngid = \"fd00::1\"\nmtu = 9000\n{planes}{peer}")).unwrap()
    }

    #[test]
    fn a_host_file_says_where_its_host_is() {
        let second = place(&host(2, 0x3002, 0x1000), &FABRIC).unwrap();
        assert_eq!(second, Place { number: 2, block: 0xFCBB_BB00 });
        for (host, says) in [
            (host(1, 0x3002, 0x1000), "has 1 planes, and the fabric 2"),
            (host(2, 0x4002, 0x1000), "needs BLOCK:30HH::"),
            (host(2, 0x3004, 0x1000), "have number 4, and the fabric 4 hosts"),
            (host(2, 0x3002, 0x1001), "under T0 1 in the template of b"),
        ] {
            let error = place(&host, &FABRIC).unwrap_err();
            assert!(error.to_string().contains(says) && crate::usage::is_usage(&error), "{says}: {error}");
        }
    }
}
