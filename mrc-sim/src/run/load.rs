//! How busy links are over time: by tier for every run, by link for whoever asks. Memory is bounded: a run that lasts
//! longer is sampled at longer distances.

use super::drive::MOST_SAMPLES;
use super::results::{LinkLoad, LinkRow};
use crate::fabric::{Parts, PortId, Tier};
use crate::host::Transport;

/// Entries kept for a table by link: a port has one for each sample.
const MOST_ENTRIES: usize = 4 << 20;

const TIERS: [(Tier, &str); 6] = [
    (Tier::Host, "host-up"),
    (Tier::T0Up, "t0-up"),
    (Tier::T1Up, "t1-up"),
    (Tier::T2Down, "t2-down"),
    (Tier::T1Down, "t1-down"),
    (Tier::T0Down, "t0-down"),
];

/// Bytes of all ports so far, and what came of them.
pub(super) struct Loads {
    /// Tier of each port, by its place in `lines`.
    tiers: Vec<u8>,
    /// Bytes that each has sent, and what its link could have sent.
    before: Vec<(u64, u128)>,
    lines: Vec<LinkLoad>,
    links: Option<Links>,
}

/// The table by link. It may hold fewer samples than the time line has: what is written must not decide when the run is looked at.
struct Links {
    /// Samples that there is room for, an odd number.
    most: usize,
    /// Every so many samples of the time line one is kept, and which one of them is the next.
    every: usize,
    nth: usize,
    /// By sample: its time, and its ports.
    samples: Vec<(u64, Vec<Entry>)>,
}

impl Links {
    fn new(most: usize) -> Self {
        Self { most: (most - 1) | 1, every: 1, nth: 0, samples: Vec::new() }
    }

    fn push(&mut self, at_ns: u64, row: Vec<Entry>, last: bool) {
        if self.nth.is_multiple_of(self.every) || last {
            self.samples.push((at_ns, row));
        }
        self.nth += 1;
        if self.samples.len() >= self.most && !last {
            self.every *= 2;
            self.halve();
        }
    }

    /// The time line goes on at half the pace, after a sample that it keeps.
    fn thin_out(&mut self) {
        self.nth = self.nth.div_ceil(2);
        if self.every > 1 {
            self.every /= 2;
        } else {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut nth = 0;
        self.samples.retain(|_| {
            nth += 1;
            nth % 2 == 1
        });
    }
}

/// A port at the time of a sample.
#[derive(Clone, Copy)]
struct Entry {
    sent: u64,
    /// What its link could have sent, in bits per second times nanoseconds.
    capacity: u128,
    queued: u32,
}

impl Loads {
    /// Before the first event; `links` keeps samples of each link.
    pub(super) fn new<T: Transport>(sim: &Parts<T>, links: bool) -> Self {
        let topology = sim.topology();
        let of = |id| topology.tier(PortId(id));
        let all: Vec<Tier> = (0..topology.links() * 2).map(of).collect();
        let known: Vec<_> = TIERS.iter().filter(|(tier, _)| all.contains(tier)).collect();
        let place = |tier: &Tier| known.iter().position(|(known, _)| known == tier).unwrap_or(0) as u8;
        let line = |(_, name): &&(Tier, &str)| LinkLoad { tier: (*name).to_owned(), ..LinkLoad::default() };
        Self {
            tiers: all.iter().map(place).collect(),
            before: vec![(0, 0); all.len()],
            lines: known.iter().map(line).collect(),
            links: links.then(|| Links::new((MOST_ENTRIES / all.len().max(1)).clamp(16, MOST_SAMPLES))),
        }
    }

    /// Counts what was sent since the last sample.
    pub(super) fn sample<T: Transport>(&mut self, sim: &Parts<T>, last: bool) {
        let mut sums = vec![(0.0f64, 0.0f64, 0u32); self.lines.len()];
        let mut row = Vec::with_capacity(if self.links.is_some() { self.before.len() } else { 0 });
        for (id, before) in (0..).zip(&mut self.before) {
            let sent = sim.sent_bytes(PortId(id));
            let capacity = sim.capacity(PortId(id));
            let share = percent(sent.saturating_sub(before.0), capacity - before.1);
            *before = (sent, capacity);
            let (sum, most, count) = &mut sums[usize::from(self.tiers[id as usize])];
            (*sum, *most, *count) = (*sum + share, most.max(share), *count + 1);
            if self.links.is_some() {
                row.push(Entry { sent, capacity, queued: sim.queued_bytes(PortId(id)) });
            }
        }
        for (line, (sum, most, count)) in self.lines.iter_mut().zip(sums) {
            line.mean_percent.push(sum / f64::from(count.max(1)));
            line.max_percent.push(most);
        }
        if let Some(links) = &mut self.links {
            links.push(sim.now().as_nanos(), row, last);
        }
    }

    /// Keeps every second sample, as the time line does: each then stands for the time since the one before it. Which link was the
    /// busiest nobody knows any more. Where it was the same one in both samples, the mean of the two is exact; else it is more.
    pub(super) fn thin_out(&mut self) {
        for line in &mut self.lines {
            for percent in [&mut line.mean_percent, &mut line.max_percent] {
                *percent = means_of_pairs(percent);
            }
        }
        self.links.iter_mut().for_each(Links::thin_out);
    }

    /// The table by link, and the lines by tier, in tenths of a percent.
    pub(super) fn finish<T: Transport>(mut self, sim: &Parts<T>) -> (Vec<LinkRow>, Vec<LinkLoad>) {
        // Not before: what is rounded each time that samples are joined adds up.
        let percents = self.lines.iter_mut().flat_map(|line| line.mean_percent.iter_mut().chain(&mut line.max_percent));
        percents.for_each(|percent| *percent = tenths(*percent));
        let mut rows = Vec::new();
        let samples = self.links.map(|links| links.samples).unwrap_or_default();
        for pair in samples.windows(2) {
            let [(_, before), (at_ns, now)] = pair else { continue };
            for (id, (was, entry)) in (0..).zip(before.iter().zip(now)) {
                let port = PortId(id);
                rows.push(LinkRow {
                    at_us: *at_ns as f64 / 1e3,
                    link: sim.topology().link_name(port.link()),
                    upwards: port == port.link().lower(),
                    percent: tenths(percent(entry.sent.saturating_sub(was.sent), entry.capacity - was.capacity)),
                    queued_bytes: entry.queued,
                });
            }
        }
        (rows, self.lines)
    }
}

/// The first value stands alone: it is of the time before the run.
fn means_of_pairs(values: &[f64]) -> Vec<f64> {
    let (first, rest) = values.split_at(values.len().min(1));
    let joined = rest.chunks(2).filter(|pair| pair.len() == 2).map(|pair| (pair[0] + pair[1]) / 2.0);
    first.iter().copied().chain(joined).collect()
}

/// Share of what could have been sent. A frame that was under way when a fault slowed its link down leaves at the old rate.
fn percent(bytes: u64, capacity: u128) -> f64 {
    if capacity == 0 {
        return 0.0;
    }
    (bytes as f64 * 8e11 / capacity as f64).min(100.0)
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both tables become thinner, each in its own time. What stays is equally far apart up to the last sample.
    #[test]
    fn a_table_by_link_thins_out_by_itself() {
        for (most, pace) in [(16, 31), (5, 31), (31, 7), (16, 16)] {
            let (mut links, mut step, mut line, mut at) = (Links::new(most), 1, 0usize, 0);
            for turn in 0..10 * pace {
                links.push(at, Vec::new(), turn == 10 * pace - 1);
                line += 1;
                if line == (pace - 1) | 1 {
                    (line, step) = (line.div_ceil(2), 2 * step);
                    links.thin_out();
                }
                at += step;
            }
            let times: Vec<u64> = links.samples.iter().map(|(at, _)| *at).collect();
            let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (last, whole) = steps.split_last().unwrap();
            assert!(whole.iter().all(|step| *step == whole[0]) && *last <= whole[0], "{most}, {pace}: {times:?}");
            assert!((most.min(pace) / 3..=most).contains(&times.len()), "{most}, {pace}: {}", times.len());
        }
    }

    #[test]
    fn loads_are_shares_of_the_rate() {
        assert_eq!(percent(1_250, 100_000_000_000 * 200), 50.0);
        assert_eq!(percent(4_000, 100_000_000_000 * 200), 100.0, "a frame of a rate that fell");
        assert_eq!(percent(1, 0), 0.0);
        assert_eq!(means_of_pairs(&[0.0, 10.0, 20.0, 30.0, 50.0]), [0.0, 15.0, 40.0]);
        assert_eq!(means_of_pairs(&[0.0, 0.1, 0.0, 30.0]), [0.0, 0.05], "rounded at the end alone");
    }
}
