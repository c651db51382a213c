//! The demo's story and its report; `lab` tells it with real packets, `sim` in virtual time, `chart` draws it.

pub mod chart;
pub mod lab;
pub mod sim;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// Bytes of a message.
pub const MESSAGE: usize = 1 << 20;

/// The link that is cut.
pub const LINK: &str = "p0-t0a-t1c";

/// What is asked for.
pub struct Story {
    /// Seconds of transfer.
    pub seconds: u64,
    /// Folder for chart and capture.
    pub out: PathBuf,
}

impl Story {
    /// Where the chart goes.
    pub fn chart(&self) -> PathBuf {
        self.out.join("mrc-demo.svg")
    }

    /// Where the capture goes.
    pub fn pcap(&self) -> PathBuf {
        self.out.join("mrc-demo.pcapng")
    }
}

/// Bytes one plane carried.
#[derive(Debug, Clone, Serialize)]
pub struct PlaneBytes {
    /// Plane.
    pub plane: usize,
    /// Payload bytes sent through it, retransmissions included.
    pub bytes: u64,
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `lab` or `sim`.
    pub mode: &'static str,
    /// Bytes of completed, checked messages.
    pub bytes: u64,
    /// Length of the transfer.
    pub seconds: f64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// `ok`, or what was wrong.
    pub integrity: String,
    /// Per plane.
    pub planes: Vec<PlaneBytes>,
    /// Packets forwarded by each T1, from the switches.
    pub t1_packets: BTreeMap<String, u64>,
    /// Packets sent again.
    pub retransmitted: u64,
    /// EVs that became ASSUMED_BAD.
    pub ev_assumed_bad: u64,
    /// EVs that came back.
    pub ev_restored: u64,
    /// Longest time between two completions, in microseconds.
    pub longest_stall_us: u64,
    /// Time of the cut, in seconds from the start.
    pub cut_s: f64,
    /// Time of the healing.
    pub heal_s: f64,
    /// Chart file.
    pub chart: String,
    /// Capture file.
    pub pcap: String,
    /// Goodput over time: seconds, Gb/s.
    pub goodput: Vec<(f64, f64)>,
}

/// Pseudo-random bytes of message `number`, the same on both sides.
pub fn fill(number: u64, bytes: &mut [u8]) {
    let mut rng = mrc_core::Rng::new(number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

/// Goodput in bins of a tenth of a second.
#[derive(Default)]
pub struct Bins(Vec<u64>);

impl Bins {
    /// Width of a bin in seconds.
    pub const WIDTH_S: f64 = 0.1;

    /// Counts bytes completed `at` seconds after the start.
    pub fn add(&mut self, at: f64, bytes: u64) {
        let bin = (at / Self::WIDTH_S) as usize;
        if self.0.len() <= bin {
            self.0.resize(bin + 1, 0);
        }
        self.0[bin] += bytes;
    }

    /// Middle of each bin in seconds, and Gb/s in it; the last, partial bin is left out.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let full = self.0.len().saturating_sub(1);
        let rate = |bytes: u64| bytes as f64 * 8.0 / Self::WIDTH_S / 1e9;
        self.0[..full]
            .iter()
            .enumerate()
            .map(|(bin, &bytes)| ((bin as f64 + 0.5) * Self::WIDTH_S, rate(bytes)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_differ_and_repeat() {
        let mut a = [0u8; 20];
        let mut b = [0u8; 20];
        fill(1, &mut a);
        fill(2, &mut b);
        assert_ne!(a, b);
        fill(1, &mut b);
        assert_eq!(a, b);
    }

    #[test]
    fn bins_turn_bytes_into_rates() {
        let mut bins = Bins::default();
        bins.add(0.05, 12_500_000);
        bins.add(0.25, 1);
        assert_eq!(bins.rates(), vec![(0.05, 1.0), (0.15000000000000002, 0.0)]);
    }
}
