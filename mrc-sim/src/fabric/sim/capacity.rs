//! What links could have sent: rate times time, also of links whose rate changes during a run.

use std::collections::BTreeMap;

/// Bits per second times nanoseconds: a unit is the billionth part of a bit.
pub(crate) type BitNanos = u128;

/// By port, what a link could have sent until its rate changed last, and when that was. Other links are not here.
#[derive(Default)]
pub(super) struct Capacity(BTreeMap<u32, (u64, BitNanos)>);

impl Capacity {
    /// The link behind `port` had `rate_bps` until now.
    pub(super) fn close(&mut self, port: u32, now_ns: u64, rate_bps: u64) {
        let sum = self.until(port, now_ns, rate_bps);
        self.0.insert(port, (now_ns, sum));
    }

    /// What the link behind `port`, which has `rate_bps` now, could have sent until now.
    pub(super) fn until(&self, port: u32, now_ns: u64, rate_bps: u64) -> BitNanos {
        let (since_ns, before) = self.0.get(&port).copied().unwrap_or_default();
        before + BitNanos::from(rate_bps) * BitNanos::from(now_ns - since_ns)
    }
}
