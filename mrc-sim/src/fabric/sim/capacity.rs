//! What links could have sent: rate times time, also of links whose rate changes during a run.

use std::collections::BTreeMap;

/// Bits per second times nanoseconds: a unit is the billionth part of a bit.
pub(crate) type BitNanos = u128;

/// A link whose rate changed.
#[derive(Clone, Copy, Default)]
struct Changed {
    /// When it changed last.
    at_ns: u64,
    /// What the link could have sent until then.
    before: BitNanos,
    /// The end of the latest frame that began before, and its rate.
    frame: (u64, u64),
}

/// By port, links whose rate changed.
#[derive(Default)]
pub(super) struct Capacity(BTreeMap<u32, Changed>);

impl Capacity {
    /// The link behind `port` had `rate_bps` until now. The latest frame leaves, or left, until `frame_end_ns`.
    pub(super) fn close(&mut self, port: u32, now_ns: u64, rate_bps: u64, frame_end_ns: u64) {
        let before = self.until(port, now_ns, rate_bps);
        let frame = (frame_end_ns, self.frame_bps(port, frame_end_ns, rate_bps));
        self.0.insert(port, Changed { at_ns: now_ns, before, frame });
    }

    /// The rate of the frame that leaves by `port` until `end_ns`, where the link has `rate_bps` now: a frame keeps the rate that
    /// it began with.
    pub(super) fn frame_bps(&self, port: u32, end_ns: u64, rate_bps: u64) -> u64 {
        let frame = self.0.get(&port).map(|changed| changed.frame);
        frame.filter(|&(end, _)| end == end_ns).map_or(rate_bps, |(_, bps)| bps)
    }

    /// What the link behind `port`, which has `rate_bps` now, could have sent until now.
    pub(super) fn until(&self, port: u32, now_ns: u64, rate_bps: u64) -> BitNanos {
        let Changed { at_ns, before, .. } = self.0.get(&port).copied().unwrap_or_default();
        before + BitNanos::from(rate_bps) * BitNanos::from(now_ns - at_ns)
    }
}
