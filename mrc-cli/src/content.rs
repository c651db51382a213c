//! `mrc write-bw --check`: every message carries a pattern of its own, and the server looks for it in its memory.
//!
//! Each queue pair has as many slots on both sides as it may have messages in flight; message `n` uses slot `n % slots`. A
//! queue pair completes its messages in order, so a free slot is always the oldest one.

use mrc_verbs_shim::MemRegion;

use crate::demo::fill;

/// The verdict when every byte is right.
pub const OK: &str = "ok";

/// Sizes of the memory on both sides.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Bytes per message.
    pub size: u32,
    /// Messages in flight per queue pair.
    pub slots: u16,
}

impl Content {
    /// Bytes of memory for so many queue pairs.
    pub fn bytes(self, qps: usize) -> usize {
        self.size as usize * usize::from(self.slots) * qps
    }

    /// Where message `number` of queue pair `qp` begins, on both sides.
    pub fn offset(self, qp: usize, number: u64) -> u64 {
        let slot = qp as u64 * u64::from(self.slots) + number % u64::from(self.slots);
        slot * u64::from(self.size)
    }

    /// The bytes of a message.
    fn pattern(self, qp: usize, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        // Messages are counted from 0 on each queue pair; memory that nobody wrote must not look like one of them.
        fill((qp as u64) << 40 | (number + 1), &mut bytes);
        bytes
    }

    /// Puts a message where it is sent from.
    pub fn prepare(self, memory: &MemRegion, qp: usize, number: u64) -> anyhow::Result<()> {
        Ok(memory.place(self.offset(qp, number), &self.pattern(qp, number))?)
    }

    /// Compares the memory with the last messages of each queue pair, of which `messages` completed: [`OK`], or where the
    /// first difference is.
    pub fn check(self, memory: &MemRegion, messages: &[u64]) -> anyhow::Result<String> {
        let mut have = vec![0; self.size as usize];
        for (qp, &count) in messages.iter().enumerate() {
            for number in count.saturating_sub(self.slots.into())..count {
                let offset = self.offset(qp, number);
                memory.gather(offset, &mut have)?;
                let want = self.pattern(qp, number);
                let differ = || have.iter().zip(&want).enumerate().filter(|(_, (have, want))| have != want);
                if let Some((at, (have, want))) = differ().next() {
                    return Ok(format!(
                        "message {number} of queue pair {qp} is wrong from byte {at} on (offset {:#x} of the memory): \
                         {have:#04x}, not {want:#04x}; {} of its {} bytes differ",
                        offset + at as u64,
                        differ().count(),
                        self.size
                    ));
                }
            }
        }
        Ok(OK.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_named() {
        let content = Content { size: 1_000, slots: 4 };
        let memory = MemRegion::from_vec(vec![0; content.bytes(2)]);
        let messages = [6, 3];
        for (qp, &count) in messages.iter().enumerate() {
            for number in 0..count {
                content.prepare(&memory, qp, number).unwrap();
            }
        }
        assert_eq!(content.check(&memory, &messages).unwrap(), OK);
        // Message 5 of queue pair 0 is in slot 1; message 2 of queue pair 1 in slot 6.
        for (at, says) in
            [(1_777, "message 5 of queue pair 0 is wrong from byte 777 on (offset 0x6f1 "), (6_999, "byte 999 on")]
        {
            let mut byte = [0];
            memory.gather(at, &mut byte).unwrap();
            memory.place(at, &[!byte[0]]).unwrap();
            let verdict = content.check(&memory, &messages).unwrap();
            assert!(verdict.contains(says) && verdict.contains("; 1 of its 1000 bytes differ"), "{verdict}");
            memory.place(at, &byte).unwrap();
        }
        assert_eq!(content.check(&memory, &messages).unwrap(), OK);
        // A message that never came: its slot has an older one, or nothing.
        assert!(content.check(&memory, &[7, 3]).unwrap().contains("message 6 of queue pair 0"));
        assert!(content.check(&memory, &[6, 4]).unwrap().contains("message 3 of queue pair 1"));
    }
}
