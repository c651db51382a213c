//! The impairment program of a switch port: assembled here, loaded with bpf(2), attached to clsact. It needs neither a
//! compiler nor `tc`.

mod asm;
mod netlink;
mod program;
mod sys;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use crate::exec::Missing;
use crate::impair::{Impairment, PortCounters, VirtualQueue};

pub(crate) use netlink::Hook;

use netlink::TrafficControl;
use program::{RANDOM_BITS, word};

/// Settings and counters of one port.
type Words = [u64; word::COUNT];

/// DSCPs of the wire format's defaults.
mod dscp {
    pub(super) const TRIMMABLE: u32 = 4;
    pub(super) const TRIMMABLE_RETX: u32 = 8;
    pub(super) const TRIMMED: u32 = 12;
    pub(super) const TRIMMED_LASTHOP: u32 = 16;
    pub(super) const CONTROL: u32 = 46;
}

/// `ppm` as a threshold for a random number.
fn threshold(ppm: u32) -> u64 {
    (u64::from(ppm.min(1_000_000)) << RANDOM_BITS).div_ceil(1_000_000)
}

/// What a port is told: `last_hop` towards a host, `cable` when it only loses, `number` makes its randomness its own.
fn words(impairment: &Impairment, number: u64, last_hop: bool, cable: bool) -> Words {
    let mut words = [0; word::COUNT];
    words[word::SEED] = program::mix(impairment.seed ^ program::mix(number.wrapping_add(1)));
    words[word::LOSS] = threshold(impairment.loss_ppm);
    words[word::PRIORITY] = 1 << dscp::CONTROL | 1 << dscp::TRIMMED | 1 << dscp::TRIMMED_LASTHOP;
    words[word::TRIMMABLE] = 1 << dscp::TRIMMABLE | 1 << dscp::TRIMMABLE_RETX;
    words[word::TRIMMED_DSCP] = u64::from(if last_hop { dscp::TRIMMED_LASTHOP } else { dscp::TRIMMED });
    for never in [word::MARK_NS, word::TRIM_NS, word::DROP_NS] {
        words[never] = u64::MAX;
    }
    if cable {
        return words;
    }
    words[word::TRIM] = threshold(impairment.trim_ppm);
    if let Some(VirtualQueue { bits_per_second, mark_bytes, trim_bytes, drop_bytes }) = impairment.queue {
        let rate = u128::from(bits_per_second.max(1));
        let ns = |bytes: u64| u64::try_from(u128::from(bytes) * 8_000_000_000 / rate).unwrap_or(u64::MAX);
        words[word::PS_PER_BYTE] = u64::try_from(8_000_000_000_000 / rate).unwrap_or(u64::MAX).max(1);
        words[word::MARK_NS] = ns(mark_bytes);
        words[word::TRIM_NS] = ns(trim_bytes);
        words[word::DROP_NS] = ns(drop_bytes);
    }
    if last_hop {
        // Last-hop switches do not mark: the receiver's own port is no path to avoid.
        words[word::MARK_NS] = u64::MAX;
    } else {
        words[word::CE] = threshold(impairment.ce_ppm);
    }
    words
}

/// A loaded program with its map.
fn load(words: &Words) -> Result<(OwnedFd, OwnedFd), (Errno, String)> {
    let map = sys::create_map::<{ word::COUNT }>().map_err(|errno| (errno, "making a map".into()))?;
    sys::write_map(map.as_fd(), words).map_err(|errno| (errno, "filling a map".into()))?;
    let program = sys::load_classifier(&program::program(map.as_raw_fd()))?;
    Ok((program, map))
}

/// One port of a switch, in the thread's namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port<'a> {
    pub(crate) device: &'a str,
    pub(crate) hook: Hook,
    pub(crate) last_hop: bool,
    /// Different for every port of the fabric.
    pub(crate) number: u64,
}

/// Impairs `port`; its counters start at zero. The program goes with the interface, not with us.
pub(crate) fn impair(port: &Port<'_>, impairment: &Impairment) -> std::io::Result<()> {
    let cable = port.hook == Hook::Ingress;
    let (program, _map) = load(&words(impairment, port.number, port.last_hop, cable)).map_err(verifier)?;
    TrafficControl::open()?.attach(index(port)?, port.hook, program.as_fd())?;
    Ok(())
}

/// Removes what [`impair`] did to a port.
pub(crate) fn clear(port: &Port<'_>) -> std::io::Result<()> {
    Ok(TrafficControl::open()?.detach(index(port)?)?)
}

/// What the port did, if it is impaired.
pub(crate) fn counters(port: &Port<'_>) -> std::io::Result<Option<PortCounters>> {
    let Some(id) = TrafficControl::open()?.program(index(port)?, port.hook)? else { return Ok(None) };
    let map = sys::map_of_program(id)?;
    let words: Words = sys::read_map(map.as_fd())?;
    Ok(Some(PortCounters {
        packets: words[word::PACKETS],
        lost: words[word::LOST],
        dropped: words[word::DROPPED],
        trimmed: words[word::TRIMMED],
        marked: words[word::MARKED],
    }))
}

fn index(port: &Port<'_>) -> nix::Result<i32> {
    nix::net::if_::if_nametoindex(port.device).map(|index| index as i32)
}

fn verifier((errno, log): (Errno, String)) -> std::io::Error {
    let last = log.lines().rev().find(|line| !line.is_empty()).unwrap_or("");
    std::io::Error::other(format!("{errno}; the kernel's verifier says: {last}"))
}

/// Whether links can be impaired here.
///
/// # Errors
/// What is missing, with its cure.
pub fn impair_requirements() -> Result<(), Missing> {
    // Else the first thing that is refused would be named, which is a map of the program.
    if !nix::unistd::geteuid().is_root() {
        return Err(Missing::Root);
    }
    let quiet = Impairment::default();
    let (program, _map) =
        load(&words(&quiet, 0, false, false)).map_err(|error| Missing::Bpf(verifier(error).to_string()))?;
    // In a namespace of its own, without a name, gone with the thread.
    let tried = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            netlink::try_on_loopback(program.as_fd())
        });
        thread.join().unwrap_or(Err(Errno::EIO))
    });
    tried.map_err(|errno| match errno {
        Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP => Missing::ClsBpf,
        errno => Missing::Bpf(errno.to_string()),
    })
}
