//! [`RawPort`]: a packet socket with batched system calls, for interfaces or machines without AF_XDP.
//!
//! The kernel sees the packets too: for bare UDP packets to an address of this host it may answer with ICMP "port
//! unreachable", which peers ignore. Frames sent pass the interface's queueing discipline and show up in captures.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::bpf::classic;
use crate::config::{Attach, Obtained, RawConfig, TX_SLOT_BYTES};
use crate::error::{Problem, SetupError};
use crate::interface::Interface;
use crate::port::{Port, PortError, PortStats, RxFrame, TxSlot};
use crate::sys::packet::{self, Batch};
use crate::sys::private_fd::PrivateFd;
use crate::xsk_port::lookup_problem;

/// Longer than any Ethernet jumbo frame.
const RX_SLOT_BYTES: usize = 16 << 10;

/// One interface through a packet socket.
#[derive(Debug)]
pub struct RawPort {
    fd: PrivateFd,
    rx: Batch,
    /// Of so many messages asked for last, so many were received, and so many of those handed out.
    asked: usize,
    received: usize,
    taken: usize,
    tx: Batch,
    /// Messages `sent..queued` of the transmit batch wait.
    sent: usize,
    queued: usize,
    /// Bytes committed to message `queued`; 0: nothing.
    staged_len: u32,
    stats: PortStats,
    /// Kernel drops read so far: reading resets the kernel's counter.
    drops: std::cell::Cell<u64>,
    obtained: Obtained,
    ifindex: u32,
    name: String,
    mac: [u8; 6],
}

impl RawPort {
    /// Opens the interface called `name`, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SetupError`] names the interface, the cause and the cure.
    pub fn open(name: &str, config: &RawConfig) -> Result<Self, SetupError> {
        let fail = |problem| SetupError { interface: name.to_owned(), queue: None, mode: None, problem };
        if config.rx_slots == 0 || config.tx_slots == 0 || config.rx_slots > 4096 || config.tx_slots > 4096 {
            return Err(fail(Problem::BadConfig("rx_slots and tx_slots lie between 1 and 4096")));
        }
        let interface = Interface::by_name(name).map_err(|error| fail(lookup_problem(&error)))?;
        if interface.mtu < config.required_mtu {
            return Err(fail(Problem::MtuTooSmall { have: interface.mtu, need: config.required_mtu }));
        }
        let os = |step| move |errno: Errno| fail(Problem::Os { step, errno: errno.raw_os_error() });
        let rx = Batch::new(config.rx_slots, RX_SLOT_BYTES).map_err(os("allocate receive buffers"))?;
        let tx = Batch::new(config.tx_slots, TX_SLOT_BYTES).map_err(os("allocate transmit buffers"))?;
        let filter = classic::program(&config.filter);
        let fd = packet::open(interface.index, &filter, config.receive_buffer_bytes, config.qdisc_bypass).map_err(
            |errno| match errno {
                Errno::PERM | Errno::ACCESS => {
                    fail(Problem::MissingRight { step: "open a packet socket", rights: "CAP_NET_RAW" })
                }
                Errno::NODEV | Errno::NXIO => fail(Problem::UnknownInterface),
                errno => fail(Problem::Os { step: "open a packet socket", errno: errno.raw_os_error() }),
            },
        )?;
        let obtained = Obtained {
            asked: None,
            attach: Attach::PacketSocket,
            zero_copy: false,
            multi_buffer: true,
            mtu: interface.mtu,
        };
        Ok(Self {
            fd: fd.into(),
            rx,
            asked: 0,
            received: 0,
            taken: 0,
            tx,
            sent: 0,
            queued: 0,
            staged_len: 0,
            stats: PortStats::default(),
            drops: std::cell::Cell::new(0),
            obtained,
            ifindex: interface.index,
            name: interface.name,
            mac: interface.mac,
        })
    }

    /// Receives up to `most` frames.
    fn ask(&mut self, most: usize) {
        self.asked = most.clamp(1, self.rx.count());
        // "Down" is reported once and known from the link monitor; "nothing there" is the usual end.
        self.received = self.rx.receive(self.fd.as_fd(), self.asked).unwrap_or(0);
    }

    fn push_staged(&mut self) {
        let len = core::mem::take(&mut self.staged_len);
        if len > 0 {
            self.tx.set_len(self.queued, len as usize);
            self.queued += 1;
            self.stats.tx_frames += 1;
            self.stats.tx_bytes += u64::from(len);
        }
    }

    fn drop_queued(&mut self, count: usize) {
        self.stats.tx_dropped += count as u64;
        self.sent += count;
    }
}

impl Port for RawPort {
    fn rx_next(&mut self, most: usize) -> Option<RxFrame<'_>> {
        loop {
            while self.taken < self.received {
                self.taken += 1;
                if let Some(bytes) = self.rx.frame(self.taken - 1) {
                    self.stats.rx_frames += 1;
                    self.stats.rx_bytes += bytes.len() as u64;
                    // Once more, since the loop would keep a borrow of it.
                    return self.rx_frame();
                }
                self.stats.rx_too_long += 1;
            }
            // A batch that was not full was the last.
            let last = self.received < self.asked;
            (self.taken, self.received, self.asked) = (0, 0, 0);
            if last {
                return None;
            }
            self.ask(most);
        }
    }

    fn rx_begin(&mut self, most: usize) {
        if self.taken >= self.received && most > 0 {
            self.taken = 0;
            self.ask(most);
        }
    }

    fn rx_peek(&self, ahead: usize) -> Option<&[u8]> {
        let nth = self.taken.checked_add(ahead).filter(|&nth| nth < self.received)?;
        self.rx.frame(nth)
    }

    fn rx_frame(&self) -> Option<RxFrame<'_>> {
        self.rx.frame(self.taken.checked_sub(1)?).map(RxFrame::from_slice)
    }

    fn rx_done(&mut self) {}

    fn tx_slot(&mut self) -> Option<TxSlot<'_>> {
        self.push_staged();
        if self.queued == self.tx.count() {
            return None;
        }
        Some(TxSlot::new(self.tx.buffer(self.queued), &mut self.staged_len))
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.push_staged();
        let mut result = Ok(());
        while self.sent < self.queued {
            self.stats.tx_kicks += 1;
            match self.tx.send(self.fd.as_fd(), self.sent, self.queued) {
                Ok(count) => {
                    self.sent += count;
                    self.stats.tx_completed += count as u64;
                    if count == 0 {
                        break;
                    }
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                    self.stats.tx_kicks_again += 1;
                    break;
                }
                Err(Errno::NETDOWN) => {
                    self.stats.tx_link_down += 1;
                    self.drop_queued(self.queued - self.sent);
                    result = Err(PortError::LinkDown);
                }
                Err(Errno::NXIO | Errno::NODEV) => {
                    self.drop_queued(self.queued - self.sent);
                    result = Err(PortError::Gone);
                }
                Err(errno) => {
                    // This frame is refused (longer than the MTU, say); those behind it may pass.
                    self.drop_queued(1);
                    result = Err(PortError::Os(errno.raw_os_error()));
                }
            }
        }
        if self.sent == self.queued {
            (self.sent, self.queued) = (0, 0);
        }
        result.map(|()| self.queued - self.sent)
    }

    fn tx_free(&mut self) -> usize {
        self.push_staged();
        self.tx.count() - self.queued
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn stats(&self) -> PortStats {
        let fresh = packet::take_drops(self.fd.as_fd()).unwrap_or(0);
        self.drops.set(self.drops.get() + u64::from(fresh));
        PortStats { rx_dropped: self.drops.get(), ..self.stats }
    }

    fn obtained(&self) -> Obtained {
        self.obtained
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
