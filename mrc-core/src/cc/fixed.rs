//! The profiles without algorithm: a window that neither grows nor shrinks, or none at all. They still count bytes in
//! flight, so the accounting that every algorithm relies on is exercised without one.

use super::{AckSample, CongestionControl};
use crate::time::Instant;

/// A fixed window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedWindow {
    window_bytes: u64,
    /// What must fit into the window before a packet leaves: a full packet, or one byte.
    room_bytes: u32,
    inflight: i64,
}

impl FixedWindow {
    /// A window of `window_bytes`, at least one packet of `mtu_bytes`.
    pub(crate) const fn new(window_bytes: u32, mtu_bytes: u32) -> Self {
        let window_bytes = if window_bytes < mtu_bytes { mtu_bytes } else { window_bytes };
        Self { window_bytes: window_bytes as u64, room_bytes: mtu_bytes, inflight: 0 }
    }

    /// No limit: the window of PSNs alone decides.
    //= CCU-002
    pub(crate) const fn infinite() -> Self {
        Self { window_bytes: u64::MAX, room_bytes: 0, inflight: 0 }
    }

    /// The same window with so many bytes in flight.
    pub(super) const fn with_inflight(self, inflight: i64) -> Self {
        Self { inflight, ..self }
    }

    /// Packets of up to `mtu_bytes` leave from now on.
    pub(super) fn set_mtu(&mut self, mtu_bytes: u32) {
        self.window_bytes = self.window_bytes.max(mtu_bytes.into());
        self.room_bytes = mtu_bytes;
    }

    /// Any room at all is enough.
    pub(super) fn send_below_window(&mut self) {
        self.room_bytes = 1;
    }
}

impl CongestionControl for FixedWindow {
    fn on_ack(&mut self, _now: Instant, ack: &AckSample) {
        self.inflight = self.inflight.saturating_sub(ack.newly_bytes.into());
    }

    fn on_nack(&mut self, _now: Instant, bytes: u32, _trimmed: bool, _rtt_ns: Option<u64>) {
        self.inflight = self.inflight.saturating_sub(bytes.into());
    }

    fn on_loss(&mut self, _now: Instant, bytes: u32) {
        self.inflight = self.inflight.saturating_sub(bytes.into());
    }

    fn on_unloss(&mut self, bytes: u32) {
        self.inflight = self.inflight.saturating_add(bytes.into());
    }

    fn on_send(&mut self, bytes: u32) {
        self.inflight = self.inflight.saturating_add(bytes.into());
    }

    fn on_base_rtt(&mut self, _rtt_ns: u64) {}

    fn on_settled(&mut self, bytes: i64) {
        self.inflight = self.inflight.saturating_sub(bytes);
    }

    fn can_send(&self) -> bool {
        self.inflight <= 0 || self.inflight.unsigned_abs().saturating_add(self.room_bytes.into()) <= self.window_bytes
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn max_wnd_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn inflight_bytes(&self) -> i64 {
        self.inflight
    }
}

crate::image::stored!(struct FixedWindow { inflight } rebuilt { window_bytes: 0, room_bytes: 0 });

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
        cc.on_loss(Instant::ZERO, 4_184);
        assert!(cc.can_send());
    }

    #[test]
    fn one_packet_is_always_allowed_when_nothing_is_in_flight() {
        assert!(FixedWindow::new(0, 4_184).can_send());
    }

    //= CCU-002 test
    #[test]
    fn no_algorithm_means_no_window() {
        let mut cc = FixedWindow::infinite();
        for _ in 0..1_000 {
            cc.on_send(u32::MAX);
        }
        assert!(cc.can_send());
        cc.on_settled(cc.inflight_bytes());
        assert_eq!(cc.inflight_bytes(), 0);
    }
}
