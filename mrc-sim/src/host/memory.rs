//! The hosts' memory: regions of bytes by host and number, and the copies a fabric without payload makes between them.

use crate::fabric::PayloadTag;

/// Memory of all hosts of a run. Region numbers are those of `MrHandle::index`.
#[derive(Default)]
pub struct Memory {
    hosts: Vec<Vec<Vec<u8>>>,
    /// Bytes copied between regions.
    placed: u64,
}

impl super::World for Memory {}

impl Memory {
    /// Memory for `hosts` hosts, without regions.
    pub fn new(hosts: u32) -> Self {
        Self { hosts: vec![Vec::new(); hosts as usize], placed: 0 }
    }

    /// Gives `host` the bytes of region `region`. Regions without bytes are legal: placements there move nothing, as
    /// in runs that only measure time.
    pub fn set(&mut self, host: u32, region: usize, bytes: Vec<u8>) {
        let regions = &mut self.hosts[host as usize];
        if regions.len() <= region {
            regions.resize(region + 1, Vec::new());
        }
        regions[region] = bytes;
    }

    /// The bytes of a region.
    pub fn region(&self, host: u32, region: usize) -> &[u8] {
        &self.hosts[host as usize][region]
    }

    /// The bytes of a region, to change.
    pub fn region_mut(&mut self, host: u32, region: usize) -> &mut [u8] {
        &mut self.hosts[host as usize][region]
    }

    /// Bytes copied so far.
    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// Copies a payload from where it was sent to `offset` of `region` of `host`, as if the packet had carried it. The
    /// bytes are read now: as in hardware, a sender that changes a buffer before its completion sends something else.
    ///
    /// # Panics
    /// When either range leaves its region: the engine has checked both.
    pub fn place(&mut self, from: &PayloadTag, host: u32, region: usize, offset: u64) {
        let source = &mut self.hosts[from.host as usize][from.region as usize];
        if source.is_empty() {
            return;
        }
        let (start, len) = (from.offset as usize, from.len as usize);
        let to = offset as usize;
        self.placed += u64::from(from.len);
        if (from.host, from.region as usize) == (host, region) {
            source.copy_within(start..start + len, to);
            return;
        }
        // Out of the table while the other region is borrowed.
        let source = std::mem::take(source);
        let target = &mut self.hosts[host as usize][region];
        if !target.is_empty() {
            target[to..to + len].copy_from_slice(&source[start..start + len]);
        }
        self.hosts[from.host as usize][from.region as usize] = source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_move_between_hosts_and_within_one_region() {
        let mut memory = Memory::new(2);
        memory.set(0, 3, vec![1, 2, 3, 4]);
        memory.set(1, 0, vec![0; 4]);
        memory.place(&PayloadTag { host: 0, region: 3, offset: 1, len: 2, sent: 0 }, 1, 0, 2);
        assert_eq!(memory.region(1, 0), [0, 0, 2, 3]);
        memory.place(&PayloadTag { host: 0, region: 3, offset: 0, len: 3, sent: 0 }, 0, 3, 1);
        assert_eq!(memory.region(0, 3), [1, 1, 2, 3]);
        assert_eq!(memory.placed(), 5);
        // A region of length alone.
        memory.set(1, 1, Vec::new());
        memory.place(&PayloadTag { host: 1, region: 1, offset: 1 << 40, len: 9, sent: 0 }, 1, 0, 0);
        assert_eq!(memory.region(1, 0), [0, 0, 2, 3]);
    }
}
