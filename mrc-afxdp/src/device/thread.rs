//! The device's own thread: takes turns, or leaves them to application threads; spins and sleeps.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Idle;
use super::baton::Tried;
use super::drive::Drive;
use super::progress::{Next, Progress};
use super::trust::LONGEST_NS;
use crate::Port as _;
use crate::sys::private_fd::PrivateFd;
use crate::sys::process;

/// A longer sleep is taken in pieces: with a slow clock it may be minutes, and a lost wake-up should cost little.
const LONGEST_REAL_NS: u64 = 100_000_000;

/// What the device's thread sleeps on. Copies of the descriptors, since the originals are behind the lock.
struct Wakers {
    ports: Vec<PrivateFd>,
    links: PrivateFd,
}

impl Wakers {
    fn new(progress: &Progress<'_>) -> std::io::Result<Self> {
        let ports = progress.ports.iter().map(|port| port.fd().try_clone_to_owned().map(PrivateFd::from));
        Ok(Self { ports: ports.collect::<Result<_, _>>()?, links: progress.links.fd().try_clone_to_owned()?.into() })
    }

    /// Sleeps until the time is over, somebody rings, or, unless others `helped`, a frame comes. Whether somebody rang.
    fn sleep(&self, drive: &Drive, helped: bool, nanos: u64) -> bool {
        let real = drive.clock.real(nanos).min(LONGEST_REAL_NS);
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
pub(super) fn run(drive: &Drive, stop: &AtomicBool, idle: Idle) {
    // By default they may be late by as much as a nap takes.
    process::exact_timers();
    let Some(Ok(mut wakers)) = drive.with(|progress| Wakers::new(progress)) else { return };
    let mut last_work = drive.now();
    // A call waits for this thread: it takes the lock as soon as it can.
    let mut called = true;
    while !stop.load(Ordering::Acquire) {
        let helped = idle != Idle::Spin && drive.is_helped(drive.now());
        let turn = |progress: &mut Progress<'_>| {
            let next = progress.own_turn(drive, idle, helped, &mut last_work);
            if progress.take_ports_changed() {
                match Wakers::new(progress) {
                    Ok(new) => wakers = new,
                    // Frames of a new port wait for the end of a sleep; those of the others do not.
                    Err(error) => log::warn!("cannot wake up for every port: {error}"),
                }
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
