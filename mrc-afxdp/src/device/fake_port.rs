//! A port of memory, for tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use crate::config::{Attach, Obtained};
use crate::port::{Port, PortError, PortStats, RxFrame, TxSlot};

/// Frames that were handed over, with their port's number, in order.
pub(super) type Wire = Rc<RefCell<Vec<(usize, Vec<u8>)>>>;

/// A port of memory.
pub(super) struct Fake {
    number: usize,
    wire: Wire,
    buffer: Vec<u8>,
    staged: u32,
    queued: Vec<Vec<u8>>,
    pub(super) room: usize,
    /// Frames that stay with the kernel for one flush more.
    pub(super) held: usize,
    pub(super) flushes: usize,
    /// Frames that arrive, each in its pieces; the one handed out last is still the first of them.
    pub(super) arrivals: VecDeque<Vec<Vec<u8>>>,
    reading: bool,
    fd: OwnedFd,
}

impl Fake {
    pub(super) fn new(number: usize, wire: &Wire, room: usize) -> Self {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let (wire, buffer) = (Rc::clone(wire), vec![0xEE; 8192]);
        Self {
            number,
            wire,
            buffer,
            staged: 0,
            queued: Vec::new(),
            room,
            held: 0,
            flushes: 0,
            arrivals: VecDeque::new(),
            reading: false,
            fd,
        }
    }

    fn push_staged(&mut self) {
        let len = core::mem::take(&mut self.staged) as usize;
        if len > 0 {
            self.room -= 1;
            self.queued.push(self.buffer[..len].to_vec());
        }
    }
}

impl Port for Fake {
    fn rx_next(&mut self, most: usize) -> Option<RxFrame<'_>> {
        assert!(most > 0, "asked for a frame too many");
        self.rx_done();
        self.reading = !self.arrivals.is_empty();
        self.rx_frame()
    }
    fn rx_frame(&self) -> Option<RxFrame<'_>> {
        let pieces: Vec<&[u8]> = self.arrivals.front().filter(|_| self.reading)?.iter().map(Vec::as_slice).collect();
        RxFrame::from_fragments(&pieces)
    }
    fn rx_peek(&self, ahead: usize) -> Option<&[u8]> {
        let nth = ahead + usize::from(self.reading);
        self.arrivals.get(nth)?.first().map(Vec::as_slice)
    }
    fn rx_done(&mut self) {
        if core::mem::take(&mut self.reading) {
            self.arrivals.pop_front();
        }
    }
    fn tx_slot(&mut self) -> Option<TxSlot<'_>> {
        self.push_staged();
        (self.room > 0).then(|| TxSlot::new(&mut self.buffer, &mut self.staged))
    }
    fn flush(&mut self) -> Result<usize, PortError> {
        self.push_staged();
        self.flushes += 1;
        self.wire.borrow_mut().extend(self.queued.drain(..).map(|frame| (self.number, frame)));
        Ok(core::mem::take(&mut self.held))
    }
    fn tx_free(&mut self) -> usize {
        self.push_staged();
        self.room
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
    fn stats(&self) -> PortStats {
        PortStats::default()
    }
    fn obtained(&self) -> Obtained {
        Obtained { asked: None, attach: Attach::PacketSocket, zero_copy: false, multi_buffer: true, mtu: 9000 }
    }
    fn ifindex(&self) -> u32 {
        self.number as u32
    }
    fn name(&self) -> &str {
        "fake"
    }
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }
}
