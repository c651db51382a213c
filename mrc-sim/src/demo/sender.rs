//! The application of the demo: keeps every queue pair full of messages of fresh pseudo-random data and checks each one
//! in the target's memory when it completes.

use mrc_core::{Completion, CqHandle, Endpoint, Instant, QpHandle, Rng, SendWr, Status};
use mrc_wire::Rkey;

use super::{DemoConfig, DemoError, Mismatch};
use crate::host::App;
use crate::host::Memory;

/// Where messages come from and go to.
pub(super) struct Target {
    pub(super) host: u32,
    pub(super) region: usize,
    pub(super) local_region: usize,
    pub(super) lkey: u32,
    pub(super) rkey: Rkey,
    pub(super) local_va: u64,
    pub(super) remote_va: u64,
}

/// One queue pair and its messages; they complete in order.
pub(super) struct Qp {
    handle: QpHandle,
    posted: u64,
    completed: u64,
}

impl Qp {
    pub(super) fn new(handle: QpHandle) -> Self {
        Self { handle, posted: 0, completed: 0 }
    }
}

pub(super) struct Sender {
    host: u32,
    cq: CqHandle,
    qps: Vec<Qp>,
    target: Target,
    seed: u64,
    message_bytes: u32,
    depth: u32,
    slots: u32,
    posting: bool,
    last_completion: Instant,
    /// Longest gap between completions, and its begin.
    longest_stall: (u64, Instant),
    mismatch: Option<Mismatch>,
    failure: Option<DemoError>,
}

impl Sender {
    pub(super) fn new(config: &DemoConfig, host: u32, cq: CqHandle, qps: Vec<Qp>, target: Target) -> Self {
        Self {
            host,
            cq,
            qps,
            target,
            seed: config.seed,
            message_bytes: config.message_bytes,
            depth: config.depth,
            slots: config.slots(),
            posting: true,
            last_completion: Instant::ZERO,
            longest_stall: (0, Instant::ZERO),
            mismatch: None,
            failure: None,
        }
    }

    /// Posts no more.
    pub(super) fn stop(&mut self) {
        self.posting = false;
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = QpHandle> {
        self.qps.iter().map(|qp| qp.handle)
    }

    pub(super) fn messages(&self) -> u64 {
        self.qps.iter().map(|qp| qp.completed).sum()
    }

    /// Messages without completion.
    pub(super) fn open(&self) -> u64 {
        self.qps.iter().map(|qp| qp.posted - qp.completed).sum()
    }

    pub(super) fn last_completion(&self) -> Instant {
        self.last_completion
    }

    pub(super) fn longest_stall(&self) -> (u64, Instant) {
        self.longest_stall
    }

    pub(super) fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch
    }

    pub(super) fn failure(&self) -> Option<DemoError> {
        self.failure
    }

    /// Content of a message: a stream of its own for each.
    fn content(&self, qp: usize, message: u64) -> Rng {
        Rng::new(self.seed ^ (qp as u64) << 48 ^ message.wrapping_mul(0x9fb2_1c65_1e98_df25))
    }

    /// Offset of a message's slot in either region.
    fn offset(&self, qp: usize, message: u64) -> u64 {
        let slot = qp as u64 * u64::from(self.slots) + message % u64::from(self.slots);
        slot * u64::from(self.message_bytes)
    }

    fn post(&mut self, now: Instant, index: usize, endpoint: &mut Endpoint<'_>, memory: &mut Memory) {
        let message = self.qps[index].posted;
        let offset = self.offset(index, message);
        let range = offset as usize..offset as usize + self.message_bytes as usize;
        fill(&mut memory.region_mut(self.host, self.target.local_region)[range], self.content(index, message));
        let wr = SendWr {
            wr_id: message,
            lkey: self.target.lkey,
            local_va: self.target.local_va + offset,
            len: self.message_bytes,
            remote_va: self.target.remote_va + offset,
            rkey: self.target.rkey,
            signaled: true,
            ..SendWr::default()
        };
        match endpoint.post_send(now, self.qps[index].handle, &wr) {
            Ok(()) => self.qps[index].posted += 1,
            Err(error) => self.failure = self.failure.or(Some(error.into())),
        }
    }

    fn on_completion(&mut self, now: Instant, done: &Completion, memory: &Memory) {
        let Some(index) = self.qps.iter().position(|qp| qp.handle.qpn() == done.qp) else { return };
        if done.status != Status::Success {
            let failure = DemoError::Failed {
                qpn: done.qp.value(),
                message: done.wr_id,
                status: done.status,
                at_ns: now.as_nanos(),
                retries: done.retries,
            };
            self.failure = self.failure.or(Some(failure));
            return;
        }
        let offset = self.offset(index, done.wr_id) as usize;
        let region = memory.region(self.target.host, self.target.region);
        let bytes = &region[offset..offset + self.message_bytes as usize];
        if let Some(offset) = first_difference(bytes, self.content(index, done.wr_id)) {
            let found = Mismatch { qp: index as u32, message: done.wr_id, offset };
            self.mismatch = self.mismatch.or(Some(found));
        }
        let gap = now.since(self.last_completion);
        if gap > self.longest_stall.0 {
            self.longest_stall = (gap, self.last_completion);
        }
        self.last_completion = now;
        self.qps[index].completed += 1;
    }
}

impl App for Sender {
    fn on_turn(&mut self, now: Instant, endpoint: &mut Endpoint<'_>, memory: &mut Memory) {
        while endpoint.poll_event().is_some() {
            // The counters and the completions say the same.
        }
        while let Some(done) = endpoint.poll_completion(self.cq) {
            self.on_completion(now, &done, memory);
        }
        if !self.posting || self.failure.is_some() {
            return;
        }
        for index in 0..self.qps.len() {
            while self.qps[index].posted - self.qps[index].completed < u64::from(self.depth) && self.failure.is_none() {
                self.post(now, index, endpoint, memory);
            }
        }
    }
}

fn fill(bytes: &mut [u8], mut content: Rng) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = content.next_u64().to_le_bytes();
    }
    let last = content.next_u64().to_le_bytes();
    let len = rest.len();
    rest.copy_from_slice(&last[..len]);
}

fn first_difference(bytes: &[u8], mut content: Rng) -> Option<u32> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let expected = content.next_u64().to_le_bytes();
        if *word != expected {
            let at = word.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0);
            return Some((nth * 8 + at) as u32);
        }
    }
    let last = content.next_u64().to_le_bytes();
    let at = rest.iter().zip(&last).position(|(a, b)| a != b)?;
    Some((words.len() * 8 + at) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        for len in [0, 1, 7, 8, 9, 4096, 4099] {
            let mut bytes = vec![0; len];
            fill(&mut bytes, Rng::new(3));
            assert_eq!(first_difference(&bytes, Rng::new(3)), None);
            for at in (0..len).step_by(7) {
                bytes[at] ^= 0x10;
                assert_eq!(first_difference(&bytes, Rng::new(3)), Some(at as u32));
                bytes[at] ^= 0x10;
            }
        }
    }
}
