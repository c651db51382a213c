//! A transfer between two hosts of a fabric in one program, so that every byte can be checked where it was placed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_lab::Fabric;
use mrc_verbs_shim::{Completion, QpAddress, Status, WriteWr};

use crate::demo::{Bins, MESSAGE, fill};
use crate::interrupt::Interrupt;
use crate::session::{DeviceArgs, Session, lab_host};

/// Queue pairs.
const QPS: usize = 2;
/// Slots of the peer's region per queue pair; a slot is written again once its message was checked.
const SLOTS: usize = 4;

/// Both ends, host A and host B, and what is known of the transfer from A to B.
pub struct Transfer {
    /// The side that writes.
    pub a: Session,
    /// The side that is written to.
    pub b: Session,
    remotes: Vec<QpAddress>,
    /// Message number in each slot, by wr_id.
    slots: Vec<Option<u64>>,
    next_message: u64,
    scratch: Vec<u8>,
    expected: Vec<u8>,
    /// Bytes of completed, checked messages.
    pub bytes: u64,
    /// The first message that arrived wrong.
    pub wrong: Option<String>,
    /// Goodput over time.
    pub bins: Bins,
    last_completion: Instant,
    /// Longest time between two completions.
    pub longest_stall: Duration,
    /// When it began.
    pub start: Instant,
}

impl Transfer {
    /// Opens hosts A and B of `fabric` and connects them.
    pub fn open(fabric: &Fabric, args: &DeviceArgs) -> anyhow::Result<Self> {
        let (host_a, host_b) = (lab_host(fabric, "hA")?, lab_host(fabric, "hB")?);
        let bytes = QPS * SLOTS * MESSAGE;
        let a = Session::open(&host_a, args, QPS, bytes)?;
        let b = Session::open(&host_b, args, QPS, bytes)?;
        let addresses = |session: &Session| (0..QPS).map(|index| session.address(index)).collect::<Vec<_>>();
        let (of_a, of_b) = (addresses(&a), addresses(&b));
        let mtu = host_a.path_mtu()?.min(host_b.path_mtu()?);
        b.connect(&host_b, host_b.peer(host_a.gid)?, mtu, false, &of_a)?;
        a.connect(&host_a, host_a.peer(host_b.gid)?, mtu, false, &of_b)?;
        let now = Instant::now();
        Ok(Self {
            a,
            b,
            remotes: of_b,
            slots: vec![None; QPS * SLOTS],
            next_message: 1,
            scratch: vec![0; MESSAGE],
            expected: vec![0; MESSAGE],
            bytes: 0,
            wrong: None,
            bins: Bins::default(),
            last_completion: now,
            longest_stall: Duration::ZERO,
            start: now,
        })
    }

    /// Takes what completed, checks it, and writes fresh data into free slots.
    pub fn step(&mut self, more: bool) -> anyhow::Result<()> {
        let mut idle = true;
        while let Some(completion) = self.a.cq.poll() {
            idle = false;
            self.completed(&completion)?;
        }
        for slot in 0..self.slots.len() {
            if more && self.slots[slot].is_none() {
                idle = false;
                self.post(slot)?;
            }
        }
        if idle {
            // The cores have two devices and all switches to run.
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn post(&mut self, slot: usize) -> anyhow::Result<()> {
        let number = self.next_message;
        self.next_message += 1;
        let offset = (slot * MESSAGE) as u64;
        fill(number, &mut self.scratch);
        self.a.mr.memory().place(offset, &self.scratch)?;
        let remote = &self.remotes[slot % QPS];
        let wr = WriteWr {
            wr_id: slot as u64,
            mr: &self.a.mr,
            offset,
            len: MESSAGE as u32,
            remote_va: remote.va + offset,
            rkey: remote.rkey,
            signaled: true,
        };
        anyhow::ensure!(self.a.cq.post_write(&self.a.qps[slot % QPS], &wr), "the send queue is full");
        self.slots[slot] = Some(number);
        Ok(())
    }

    /// Checks every byte of a completed message in the peer's memory.
    fn completed(&mut self, completion: &Completion) -> anyhow::Result<()> {
        let slot = completion.wr_id as usize;
        let number = self.slots.get_mut(slot).and_then(Option::take).context("completion of an unknown message")?;
        anyhow::ensure!(
            completion.status == Status::Success,
            "a write failed: {} (QP {:#08x}, {} retries)",
            completion.status.text(),
            completion.qp.value(),
            completion.retries
        );
        let now = Instant::now();
        self.longest_stall = self.longest_stall.max(now - self.last_completion);
        self.last_completion = now;
        self.b.mr.memory().gather((slot * MESSAGE) as u64, &mut self.scratch)?;
        fill(number, &mut self.expected);
        if self.scratch != self.expected {
            let at = self.scratch.iter().zip(&self.expected).position(|(have, want)| have != want).unwrap_or(0);
            self.wrong.get_or_insert(format!("message {number} differs from byte {at} on"));
        }
        self.bytes += MESSAGE as u64;
        self.bins.add((now - self.start).as_secs_f64(), MESSAGE as u64);
        Ok(())
    }

    /// Waits for what is in flight.
    pub fn drain(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let give_up = Instant::now() + Duration::from_secs(5);
        while self.slots.iter().any(Option::is_some) && !interrupt.is_set() {
            self.step(false)?;
            anyhow::ensure!(Instant::now() < give_up, "messages in flight did not complete within 5 s");
        }
        Ok(())
    }

    /// Begins a new measurement of stalls.
    pub fn reset_stall(&mut self) {
        self.last_completion = Instant::now();
        self.longest_stall = Duration::ZERO;
    }
}
