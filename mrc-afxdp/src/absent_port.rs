//! [`AbsentPort`]: the place of a port whose interface does not exist. It receives nothing and takes nothing.

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::config::{Attach, Obtained};
use crate::port::{Port, PortError, PortStats, RxFrame, TxSlot};
use crate::sys::private_fd::PrivateFd;

/// A port without an interface.
#[derive(Debug)]
pub struct AbsentPort {
    name: String,
    /// Never readable.
    fd: PrivateFd,
}

impl AbsentPort {
    /// A place for the interface called `name`.
    ///
    /// # Errors
    /// Whatever `eventfd(2)` says, usually too many open files.
    pub fn new(name: &str) -> rustix::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { name: name.to_owned(), fd: fd.into() })
    }
}

impl Port for AbsentPort {
    fn rx_next(&mut self, _most: usize) -> Option<RxFrame<'_>> {
        None
    }

    fn rx_frame(&self) -> Option<RxFrame<'_>> {
        None
    }

    fn rx_done(&mut self) {}

    fn tx_slot(&mut self) -> Option<TxSlot<'_>> {
        None
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        Ok(0)
    }

    fn tx_free(&mut self) -> usize {
        0
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }

    fn obtained(&self) -> Obtained {
        Obtained { asked: None, attach: Attach::Absent, zero_copy: false, multi_buffer: false, mtu: 0 }
    }

    /// 0: no interface has it.
    fn ifindex(&self) -> u32 {
        0
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Zero: none.
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }
}
