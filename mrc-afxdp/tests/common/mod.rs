//! Two network namespaces joined by a veth pair, for the tests that need real interfaces.
#![allow(dead_code, unreachable_pub)] // each test program uses its part

use std::fs::File;
use std::io::Write as _;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mrc_afxdp::{AnyPort, Mode, PacketFilter, Port, RawConfig, RawPort, Sid, XskConfig, XskPort};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Host SID that the ports of these tests take.
pub const SID: Ipv6Addr = Ipv6Addr::new(0xfcbb, 0xbb00, 0x1002, 0, 0, 0, 0, 0);

/// `ip` with these arguments.
pub fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().map_err(|e| format!("ip: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Namespaces `a` and `b`, each with its end of the pair, called `p0`. Removed on drop.
pub struct Pair {
    pub a: String,
    pub b: String,
}

impl Pair {
    /// Builds the pair, or says on stderr that `test` is skipped and why.
    pub fn new(test: &str, mtu: u32) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("mrct{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let pair = Self { a: format!("{id}a"), b: format!("{id}b") };
        match pair.build(mtu) {
            Ok(()) => Some(pair),
            Err(reason) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIP {test}: cannot build a veth pair in namespaces ({reason}); run as root with iproute2"
                );
                None
            }
        }
    }

    fn build(&self, mtu: u32) -> Result<(), String> {
        for (ns, _) in [(&self.a, 1), (&self.b, 2)] {
            ip(&format!("netns add {ns}"))?;
            // No duplicate address detection: addresses work at once.
            in_namespace(ns, || {
                let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
                let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/router_solicitations", "0");
            });
        }
        let queues = "numtxqueues 1 numrxqueues 1";
        ip(&format!(
            "link add p0 netns {} mtu {mtu} {queues} type veth peer name p0 netns {} mtu {mtu} {queues}",
            self.a, self.b
        ))?;
        for (ns, host) in [(&self.a, 1), (&self.b, 2)] {
            ip(&format!("-n {ns} link set p0 up"))?;
            ip(&format!("-n {ns} addr add fd00:7::{host}/64 dev p0 nodad"))?;
        }
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.a));
        let _ = ip(&format!("netns del {}", self.b));
    }
}

/// Runs `f` on a thread inside namespace `ns`.
pub fn in_namespace<R: Send>(ns: &str, f: impl FnOnce() -> R + Send) -> R {
    let file = File::open(format!("/run/netns/{ns}")).expect("namespace file");
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns");
            f()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The kinds of port the tests run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Xsk(Mode),
    Raw,
}

pub const KINDS: [Kind; 3] = [Kind::Xsk(Mode::Native), Kind::Xsk(Mode::Skb), Kind::Raw];

/// A small AF_XDP configuration that takes packets to [`SID`].
pub fn xsk_config(mode: Mode) -> XskConfig {
    XskConfig {
        mode,
        filter: PacketFilter::with_sids([Sid::exact(SID)]),
        rx_chunks: 512,
        tx_slots: 64,
        ring_entries: 256,
        ..XskConfig::default()
    }
}

/// Opens `p0` of namespace `ns` for packets to [`SID`].
pub fn open(ns: &str, kind: Kind) -> AnyPort {
    open_with(ns, kind, xsk_config(Mode::Auto).filter)
}

/// Opens `p0` of namespace `ns` for what `filter` takes.
pub fn open_with(ns: &str, kind: Kind, filter: PacketFilter) -> AnyPort {
    in_namespace(ns, || match kind {
        Kind::Xsk(mode) => AnyPort::Xsk(XskPort::open("p0", &XskConfig { filter, ..xsk_config(mode) }).unwrap()),
        Kind::Raw => AnyPort::Raw(RawPort::open("p0", &RawConfig { filter, ..RawConfig::default() }).unwrap()),
    })
}

/// An SRv6 frame of `len` bytes whose payload depends on `seed`.
pub fn frame(len: usize, seed: u32, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(len);
    frame.extend(to);
    frame.extend(from);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((len.saturating_sub(54) as u16).to_be_bytes());
    frame.extend([41, 64]);
    frame.extend([0xfe; 16]);
    frame.extend(SID.octets());
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    while frame.len() < len {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        frame.push(state as u8);
    }
    frame.truncate(len);
    frame
}

/// Sends one frame and flushes.
pub fn send(port: &mut AnyPort, bytes: &[u8]) {
    let mut slot = port.tx_slot().expect("a free slot");
    slot.buffer()[..bytes.len()].copy_from_slice(bytes);
    slot.commit(bytes.len());
    let _ = port.flush();
}

/// Receives until `count` frames came or a second passed.
pub fn receive(port: &mut AnyPort, count: usize) -> Vec<Vec<u8>> {
    let (mut frames, end) = (Vec::new(), Instant::now() + Duration::from_secs(1));
    while frames.len() < count && Instant::now() < end {
        port.rx_batch(count - frames.len(), |frame| frames.push(frame.fragments().concat()));
    }
    frames
}

/// Waits up to `limit` for `condition`.
pub fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    condition()
}
