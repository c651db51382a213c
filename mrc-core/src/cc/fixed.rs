//! The "no algorithm" profile: a window that neither grows nor shrinks. It still counts bytes in flight, so the
//! accounting that every algorithm relies on is exercised without one.

use super::{AckSample, CongestionControl};
use crate::time::Instant;

/// A fixed window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    window_bytes: u32,
    mtu_bytes: u32,
    inflight: i64,
}

impl FixedWindow {
    /// A window of `window_bytes`, at least one packet of `mtu_bytes`.
    pub const fn new(window_bytes: u32, mtu_bytes: u32) -> Self {
        let window_bytes = if window_bytes < mtu_bytes { mtu_bytes } else { window_bytes };
        Self { window_bytes, mtu_bytes, inflight: 0 }
    }
}

impl CongestionControl for FixedWindow {
    fn on_ack(&mut self, _now: Instant, ack: &AckSample) {
        self.inflight -= i64::from(ack.newly_bytes);
    }

    fn on_nack(&mut self, _now: Instant, bytes: u32, _trimmed: bool, _rtt_ns: Option<u64>) {
        self.inflight -= i64::from(bytes);
    }

    fn on_loss(&mut self, _now: Instant, bytes: u32) {
        self.inflight -= i64::from(bytes);
    }

    fn on_unloss(&mut self, bytes: u32) {
        self.inflight += i64::from(bytes);
    }

    fn on_send(&mut self, bytes: u32) {
        self.inflight += i64::from(bytes);
    }

    fn on_idle(&mut self) {
        self.inflight = 0;
    }

    fn can_send(&self) -> bool {
        self.inflight <= 0 || self.inflight + i64::from(self.mtu_bytes) <= i64::from(self.window_bytes)
    }

    fn wants_ack(&self, sack_gen_threshold: u32) -> bool {
        i64::from(self.window_bytes) - self.inflight < i64::from(self.mtu_bytes)
            || self.window_bytes < sack_gen_threshold
    }

    fn cwnd_bytes(&self) -> u64 {
        u64::from(self.window_bytes)
    }

    fn inflight_bytes(&self) -> i64 {
        self.inflight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_before_a_packet_would_exceed_it() {
        let mut cc = FixedWindow::new(10_000, 4_184);
        assert!(cc.can_send());
        cc.on_send(4_184);
        assert!(cc.can_send());
        cc.on_send(4_184);
        assert!(!cc.can_send());
        assert!(cc.wants_ack(0));
        cc.on_loss(Instant::ZERO, 4_184);
        assert!(cc.can_send());
    }

    #[test]
    fn one_packet_is_always_allowed_when_nothing_is_in_flight() {
        assert!(FixedWindow::new(0, 4_184).can_send());
    }
}
