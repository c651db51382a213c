//! [`XskPort`]: moves frames between the rings of an AF_XDP socket and the progress loop.
//!
//! Invariants: every receive chunk is in `free_rx`, in `fragments`, in `ahead`, or lent (fill ring, kernel, receive ring); every
//! transmit slot is in `free_tx`, or lent (transmit ring, kernel, completion ring). Rings are as large as they must be
//! for a push never to fail for lack of room, except where a `free` check says otherwise.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use crate::config::{CHUNK_BYTES, Obtained, XskConfig};
use crate::error::{Problem, SetupError};
use crate::frame::{Chunk, Rx};
use crate::interface::Interface;
use crate::port::{MAX_FRAGMENTS, Port, PortError, PortStats, RxFrame, TxSlot};
use crate::ring::kernel::Descriptor;
use crate::socket::XskSocket;
use crate::umem::{Frames, Umem};

/// Descriptors the kernel takes per send call unless told otherwise (`XDP_MAX_TX_SKB_BUDGET`).
const KERNEL_BUDGET: usize = 32;

/// Receive chunks lent to the kernel at first. It fills them in turn, so few of them stay in the second-level cache between
/// the kernel's copy and ours; a quarter more of goodput than with thousands. Half of them hold a full window of 256 KiB.
const FIRST_LENT: usize = 512;

/// Received fragments that are looked at before their turn: as many as the engine reads ahead for.
const AHEAD: usize = 16;

/// Bytes of a received frame that one chunk holds: the kernel leaves 256 free.
const RX_ROOM_BYTES: u32 = CHUNK_BYTES as u32 - 256;
const ETHERNET_BYTES: u32 = 14;

/// A received fragment: the chunk and where the bytes are in it.
#[derive(Debug)]
struct Fragment {
    chunk: Chunk<Rx>,
    at: usize,
    len: usize,
}

/// One queue of one interface through AF_XDP.
#[derive(Debug)]
pub struct XskPort {
    /// Before the UMEM in drop order: the kernel lets go first.
    socket: XskSocket,
    umem: Umem,
    frames: Frames,
    /// Fragments of the frame handed out last, if that is `complete`, else of one whose last descriptor was not seen yet.
    fragments: Vec<Fragment>,
    complete: bool,
    /// Fragments taken from the ring for [`Port::rx_peek`], and whether their frame goes on behind each.
    ahead: VecDeque<(Fragment, bool)>,
    /// The frame being received has too many fragments: drop up to its end.
    skipping: bool,
    /// Bytes committed to the slot last handed out (the last of `frames.tx`); 0: nothing.
    staged_len: u32,
    /// Frames lent to the kernel.
    in_flight: usize,
    /// Receive chunks lent to the kernel, and how many are to be.
    rx_lent: usize,
    rx_wanted: usize,
    stats: PortStats,
    ifindex: u32,
    name: String,
    mac: [u8; 6],
    /// Zero-copy with wake-ups asked for: the fill ring says when the kernel waits for a call.
    rx_wakeup: bool,
    /// The transmit ring says when the kernel waits for a call; otherwise every flush calls.
    tx_wakeup: bool,
}

/// Says what is no reason to refuse an interface and yet costs packets.
fn warn_of_losses(interface: &Interface, config: &XskConfig) {
    let (name, queues) = (&interface.name, interface.queues_in_use());
    if queues > 1 {
        log::warn!(
            "interface {name} has {queues} receive queues, this port serves queue {}: packets on the others are lost to it; \
             `ethtool -L {name} combined 1`, or steer MRC to this queue with `ethtool -N`",
            config.queue
        );
    }
    let vlans = interface.vlans_without_tag();
    if !vlans.is_empty() {
        log::warn!(
            "interface {name} takes VLAN tags out: packets of {} to this port's own destinations are taken as well; \
             `ethtool -K {name} rxvlan off` ends that",
            vlans.join(", ")
        );
    }
}

impl XskPort {
    /// Opens `config.queue` of the interface called `name`, in the network namespace of the calling thread.
    ///
    /// Takes 10 to 20 ms; up to two seconds while a previous owner is still letting go of the queue.
    ///
    /// # Errors
    /// [`SetupError`] names the interface, the queue, the mode, the cause and the cure.
    pub fn open(name: &str, config: &XskConfig) -> Result<Self, SetupError> {
        let fail = |problem| SetupError {
            interface: name.to_owned(),
            queue: Some(config.queue),
            mode: Some(config.mode),
            problem,
        };
        if let Some(problem) = config.check() {
            return Err(fail(Problem::BadConfig(problem)));
        }
        let interface = Interface::by_name(name).map_err(|error| fail(lookup_problem(&error)))?;
        if interface.mtu < config.required_mtu {
            return Err(fail(Problem::MtuTooSmall { have: interface.mtu, need: config.required_mtu }));
        }
        let (umem, frames) = Umem::new(config)
            .map_err(|errno| fail(Problem::Os { step: "allocate the UMEM", errno: errno.raw_os_error() }))?;
        let socket = XskSocket::open(&interface, config, &umem)?;
        let longest = RX_ROOM_BYTES - config.headroom;
        if !socket.obtained.multi_buffer && config.required_mtu + ETHERNET_BYTES > longest {
            return Err(fail(Problem::SingleBuffer { need: config.required_mtu, longest }));
        }
        warn_of_losses(&interface, config);
        let mut port = Self {
            rx_wakeup: config.need_wakeup && socket.obtained.zero_copy,
            tx_wakeup: config.need_wakeup,
            socket,
            umem,
            frames,
            fragments: Vec::with_capacity(MAX_FRAGMENTS),
            complete: false,
            ahead: VecDeque::with_capacity(AHEAD),
            skipping: false,
            staged_len: 0,
            in_flight: 0,
            rx_lent: 0,
            rx_wanted: FIRST_LENT.min(config.rx_chunks.min(config.ring_entries) as usize),
            stats: PortStats::default(),
            ifindex: interface.index,
            name: interface.name,
            mac: interface.mac,
        };
        port.refill();
        log::info!("{}: {}", port.name, port.socket.obtained);
        Ok(port)
    }

    /// Lends receive chunks to the kernel, as far as the fill ring has room: as many as are wanted, and twice as many from
    /// the moment on in which it has less than half of them left.
    fn refill(&mut self) {
        if (self.socket.fill.pending() as usize) < self.rx_wanted / 2 && self.rx_lent > 0 {
            self.rx_wanted = self.rx_wanted.saturating_mul(2).min(self.rx_lent + self.frames.rx.len());
        }
        let want = self.rx_wanted.saturating_sub(self.rx_lent).min(self.frames.rx.len());
        let room = self.socket.fill.free(want as u32) as usize;
        let keep = self.frames.rx.len() - want.min(room);
        for chunk in self.frames.rx.drain(keep..) {
            let address = self.frames.rx_ledger.lend(chunk);
            self.rx_lent += 1;
            // Cannot be full: `room` was counted above and only the kernel makes more of it.
            let _ = self.socket.fill.push(address);
        }
        self.socket.fill.publish();
        if self.rx_wakeup && self.socket.fill.mem().needs_wakeup() {
            let _ = recv(self.socket.fd(), &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Takes back the chunks of the frame handed out last.
    #[inline]
    fn recycle(&mut self) {
        if core::mem::take(&mut self.complete) {
            self.frames.rx.extend(self.fragments.drain(..).map(|fragment| fragment.chunk.recycle()));
        }
    }

    /// Queues the slot handed out last, if it was committed.
    fn push_staged(&mut self) {
        let len = core::mem::take(&mut self.staged_len);
        if len == 0 {
            return;
        }
        let Some(slot) = self.frames.tx.pop() else {
            return;
        };
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += u64::from(len);
        self.in_flight += 1;
        let chunk = CHUNK_BYTES as u32;
        let second = len.saturating_sub(chunk);
        let address = self.frames.tx_ledger.lend(slot, if second > 0 { 2 } else { 1 });
        let options = if second > 0 { Descriptor::CONTINUES } else { 0 };
        // Neither push can fail: `tx_slot` saw room for two.
        let _ = self.socket.tx.push(Descriptor { address, len: len.min(chunk), options });
        if second > 0 {
            let _ = self.socket.tx.push(Descriptor { address: address + u64::from(chunk), len: second, options: 0 });
        }
    }

    /// Takes back the slots the kernel is done with. Callers pushed the staged slot before, so that the last of
    /// `frames.tx` stays the one to hand out.
    fn reap(&mut self) {
        while let Some(address) = self.socket.completion.pop() {
            match self.frames.tx_ledger.complete(address) {
                Ok(Some(slot)) => {
                    self.stats.tx_completed += 1;
                    self.in_flight -= 1;
                    self.frames.tx.push(slot);
                }
                Ok(None) => {}
                Err(_) => self.stats.tx_invalid_completions += 1,
            }
        }
        self.socket.completion.release();
    }

    /// Asks the kernel to send until it took everything, made no progress, or refused.
    fn kick(&mut self) -> Result<(), PortError> {
        let mut pending = self.socket.tx.pending();
        let mut calls = pending as usize / KERNEL_BUDGET + 2;
        while pending > 0 && calls > 0 && (!self.tx_wakeup || self.socket.tx.mem().needs_wakeup()) {
            calls -= 1;
            self.stats.tx_kicks += 1;
            match send(self.socket.fd(), &[], SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY | Errno::INTR) => self.stats.tx_kicks_again += 1,
                Err(Errno::NETDOWN) => {
                    self.stats.tx_link_down += 1;
                    return Err(PortError::LinkDown);
                }
                Err(Errno::NXIO | Errno::NODEV) => return Err(PortError::Gone),
                Err(errno) => return Err(PortError::Os(errno.raw_os_error())),
            }
            let left = self.socket.tx.pending();
            if left == pending {
                break;
            }
            pending = left;
        }
        Ok(())
    }
}

pub(crate) fn lookup_problem(error: &std::io::Error) -> Problem {
    match error.raw_os_error() {
        Some(libc::ENODEV) => Problem::UnknownInterface,
        errno => Problem::Os { step: "look the interface up", errno: errno.unwrap_or(0) },
    }
}

/// A frame of these fragments.
#[inline]
fn frame<'a>(umem: &'a Umem, fragments: &'a [Fragment]) -> Option<RxFrame<'a>> {
    let mut frame = RxFrame::EMPTY;
    for fragment in fragments {
        frame.push(umem.received(&fragment.chunk, fragment.at, fragment.len).unwrap_or(&[]))?;
    }
    Some(frame)
}

impl Port for XskPort {
    fn rx_next(&mut self, most: usize) -> Option<RxFrame<'_>> {
        self.recycle();
        loop {
            if self.ahead.is_empty() {
                self.rx_begin(most.max(1));
            }
            let (fragment, continues) = self.ahead.pop_front()?;
            if self.skipping || self.fragments.len() == MAX_FRAGMENTS {
                self.frames.rx.push(fragment.chunk.recycle());
                self.frames.rx.extend(self.fragments.drain(..).map(|fragment| fragment.chunk.recycle()));
                self.stats.rx_too_long += u64::from(!self.skipping);
                self.skipping = continues;
                continue;
            }
            self.fragments.push(fragment);
            if !continues {
                break;
            }
        }
        self.complete = true;
        if self.ahead.is_empty() {
            self.rx_begin(most.saturating_sub(1));
        }
        // Borrows fields, not `self`: the counters are beside it.
        let frame = frame(&self.umem, &self.fragments)?;
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        self.stats.rx_multi_buffer += u64::from(self.fragments.len() > 1);
        Some(frame)
    }

    #[inline]
    fn rx_frame(&self) -> Option<RxFrame<'_>> {
        if self.complete { frame(&self.umem, &self.fragments) } else { None }
    }

    fn rx_begin(&mut self, most: usize) {
        let most = most.min(AHEAD);
        while self.ahead.len() < most
            && let Some(descriptor) = self.socket.rx.pop()
        {
            let Some((chunk, at)) = self.frames.rx_ledger.claim(descriptor.address) else {
                self.stats.rx_invalid += 1;
                continue;
            };
            self.rx_lent -= 1;
            let continues = descriptor.options & Descriptor::CONTINUES != 0;
            self.ahead.push_back((Fragment { chunk, at, len: descriptor.len as usize }, continues));
        }
    }

    /// That of fragments: where frames have several, those behind the first show nothing that the engine knows.
    fn rx_peek(&self, ahead: usize) -> Option<&[u8]> {
        let (fragment, _) = self.ahead.get(ahead)?;
        self.umem.received(&fragment.chunk, fragment.at, fragment.len)
    }

    fn rx_done(&mut self) {
        self.recycle();
        self.socket.rx.release();
        if self.rx_lent < self.rx_wanted {
            self.refill();
        }
    }

    fn tx_slot(&mut self) -> Option<TxSlot<'_>> {
        self.push_staged();
        if self.frames.tx.is_empty() {
            self.reap();
        }
        if self.socket.tx.free(2) < 2 {
            return None;
        }
        let slot = self.frames.tx.last_mut()?;
        Some(TxSlot::new(self.umem.slot(slot), &mut self.staged_len))
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.push_staged();
        self.socket.tx.publish();
        let result = if self.in_flight > 0 { self.kick() } else { Ok(()) };
        self.reap();
        result.map(|()| self.in_flight)
    }

    fn tx_free(&mut self) -> usize {
        self.push_staged();
        self.reap();
        self.frames.tx.len().min(self.socket.tx.free(u32::MAX) as usize / 2)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    fn stats(&self) -> PortStats {
        let mut stats = self.stats;
        if let Ok(kernel) = sockopt::xdp_statistics(self.socket.fd()) {
            stats.rx_dropped = kernel.rx_dropped;
            stats.rx_ring_full = kernel.rx_ring_full.unwrap_or(0);
            stats.rx_fill_empty = kernel.rx_fill_ring_empty_descs.unwrap_or(0);
            stats.rx_invalid += kernel.rx_invalid_descs;
            stats.tx_invalid = kernel.tx_invalid_descs;
        }
        stats
    }

    fn obtained(&self) -> Obtained {
        self.socket.obtained
    }

    fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }
}
