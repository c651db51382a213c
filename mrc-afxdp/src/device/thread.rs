//! The device's own thread: takes turns, or leaves them to application threads; spins and sleeps.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Idle;
use super::baton::Tried;
use super::drive::Drive;
use super::progress::{Next, Progress};
use super::trust::LONGEST_NS;
use crate::sys::private_fd::PrivateFd;
use crate::sys::process;
use crate::{AnyPort, LinkMonitor, Port as _};

/// A longer sleep is taken in pieces: with a slow clock it may be minutes, and a lost wake-up should cost little.
const LONGEST_REAL_NS: u64 = 100_000_000;

/// Longest sleep while the process has no descriptor left for a copy of a port's.
const DEAF_REAL_NS: u64 = 1_000_000;

/// What the device's thread sleeps on. Copies of the descriptors, since the originals are behind the lock.
pub(super) struct Wakers {
    ports: Vec<PrivateFd>,
    links: PrivateFd,
    /// Copies are missing: frames wait for the end of a sleep.
    deaf: bool,
}

fn copies(ports: &[AnyPort]) -> io::Result<Vec<PrivateFd>> {
    ports.iter().map(|port| port.fd().try_clone_to_owned().map(PrivateFd::from)).collect()
}

impl Wakers {
    pub(super) fn new(ports: &[AnyPort], links: &LinkMonitor) -> io::Result<Self> {
        Ok(Self { ports: copies(ports)?, links: links.fd().try_clone_to_owned()?.into(), deaf: false })
    }

    /// Follows ports that were opened or closed; whether all of them can wake this thread now.
    fn renew(&mut self, ports: &[AnyPort]) -> bool {
        // A copy keeps the queue of a port that was closed.
        self.ports.clear();
        match copies(ports) {
            Ok(new) => (self.ports, self.deaf) = (new, false),
            Err(error) if !self.deaf => {
                log::warn!("frames wait for up to 1 ms, because no port can wake the device: {error}");
                self.deaf = true;
            }
            Err(_) => {}
        }
        !self.deaf
    }

    /// Sleeps until the time is over, somebody rings, or, unless others `helped`, a frame comes. Whether somebody rang.
    fn sleep(&self, drive: &Drive, helped: bool, nanos: u64) -> bool {
        let longest = if self.deaf { DEAF_REAL_NS } else { LONGEST_REAL_NS };
        let real = drive.clock.real(nanos).min(longest);
        let timeout = Timespec { tv_sec: 0, tv_nsec: real as i64 };
        let mut fds = Vec::with_capacity(self.ports.len() + 2);
        fds.push(PollFd::from_borrowed_fd(drive.bell.fd(), PollFlags::IN));
        fds.push(PollFd::from_borrowed_fd(self.links.as_fd(), PollFlags::IN));
        if !helped {
            fds.extend(self.ports.iter().map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)));
        }
        // An interrupted or failed sleep is a short sleep.
        let _ = poll(&mut fds, Some(&timeout));
        let rung = fds.first().is_some_and(|bell| bell.revents().contains(PollFlags::IN));
        drive.bell.awake();
        rung
    }
}

/// The loop of the device's thread, until `stop`. Ends early if a turn panicked elsewhere.
pub(super) fn run(drive: &Drive, stop: &AtomicBool, idle: Idle, mut wakers: Wakers) {
    // By default they may be late by as much as a nap takes.
    process::exact_timers();
    let mut last_work = drive.now();
    // A call waits for this thread: it takes the lock as soon as it can.
    let mut called = true;
    while !stop.load(Ordering::Acquire) {
        let helped = idle != Idle::Spin && drive.is_helped(drive.now());
        let turn = |progress: &mut Progress<'_>| {
            let next = progress.own_turn(drive, idle, helped, &mut last_work);
            if progress.take_ports_changed() && !wakers.renew(&progress.ports) {
                // Tried again at the next turn.
                progress.ports_changed = true;
            }
            next
        };
        let next = if called { drive.with(turn).map_or(Tried::Gone, Tried::Done) } else { drive.try_with(turn) };
        called = match next {
            Tried::Gone => return,
            Tried::Done(Next::Turn) => {
                drive.bell.withdraw();
                false
            }
            Tried::Done(Next::Spin) => {
                std::hint::spin_loop();
                false
            }
            Tried::Done(Next::Yield) => {
                std::thread::yield_now();
                false
            }
            Tried::Done(Next::Sleep(nanos)) => wakers.sleep(drive, false, nanos),
            Tried::Done(Next::Nap(nanos)) => wakers.sleep(drive, true, nanos),
            // Whoever has the engine does what there is to do.
            Tried::Busy => {
                drive.bell.announce_nap();
                wakers.sleep(drive, true, LONGEST_NS)
            }
        };
    }
}
