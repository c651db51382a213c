//! Congestion control: how much may be in flight. Owns the algorithms (`fixed`, `nscc`) and the controller that the QPs
//! towards a peer share (`controller`), with the part of each (`share`); where packets go is `path`'s. Source: `congestion.md` 4 (calls and their order).

mod controller;
mod fixed;
mod nscc;
mod profile;
mod share;
mod turn;

pub use controller::{Qpcc, QpccInfo, QpccState};
use fixed::FixedWindow;
pub(crate) use nscc::Nscc;
pub use nscc::NsccConfig;
pub use profile::{CcProfile, CcProfileHandle};
pub use share::Load;
pub(crate) use share::Share;
pub(crate) use turn::Credit;

use crate::{Prefetch, time::Instant};

/// Bytes of a full packet as congestion control counts them: path MTU + 88 (`congestion.md` 1).
pub(crate) const NOMINAL_OVERHEAD: u32 = 88;

/// What one SACK tells the congestion controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    /// Newly received bytes (nominal packet sizes), from the responder's counter.
    pub(crate) newly_bytes: u32,
    /// The acknowledged packet carried a congestion mark.
    pub(crate) marked: bool,
    /// Round trip of the acknowledged packet, when it is unambiguous; where it lowers the base RTT, that of a full packet.
    pub(crate) rtt_ns: Option<u64>,
    /// Receiver penalty, 0..=127.
    pub(crate) penalty: u8,
    /// The receiver asks to restore the window it penalised.
    pub(crate) restore: bool,
}

/// The calls of `congestion.md` section 4. Sizes are nominal packet bytes (UDP length + 40).
pub(crate) trait CongestionControl {
    /// A SACK arrived.
    fn on_ack(&mut self, now: Instant, ack: &AckSample);
    /// The responder refused a packet; `trimmed` when a switch cut it.
    fn on_nack(&mut self, now: Instant, bytes: u32, trimmed: bool, rtt_ns: Option<u64>);
    /// A packet was inferred lost or timed out.
    fn on_loss(&mut self, now: Instant, bytes: u32);
    /// A packet marked lost turned out received before it was sent again.
    fn on_unloss(&mut self, bytes: u32);
    /// A packet leaves.
    fn on_send(&mut self, bytes: u32);
    /// A probe measured a round trip: it may lower the base RTT and does nothing else.
    fn on_base_rtt(&mut self, rtt_ns: u64);
    /// A QP has nothing outstanding any more, or is gone: its share `bytes` of what is in flight is settled. Positive
    /// when feedback was lost for good, slightly negative when the responder rounded up.
    fn on_settled(&mut self, bytes: i64);
    /// Whether a full packet may leave now.
    fn can_send(&self) -> bool;
    /// The window, in bytes.
    fn cwnd_bytes(&self) -> u64;
    /// The largest window there may be, in bytes.
    fn max_wnd_bytes(&self) -> u64;
    /// Bytes in flight; may be slightly negative because the responder rounds up.
    fn inflight_bytes(&self) -> i64;
}

/// Which algorithm a congestion-control profile names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CcConfig {
    /// No congestion control: an infinite window, bounded by the window of PSNs alone.
    None,
    /// "No algorithm": a window that never changes, in bytes of nominal packets. The controller, hence all QPs that
    /// share it, has this window.
    Fixed {
        /// The window.
        window_bytes: u32,
    },
    /// NSCC.
    Nscc(NsccConfig),
}

impl Default for CcConfig {
    fn default() -> Self {
        Self::Fixed { window_bytes: 256 * 1024 }
    }
}

impl CcConfig {
    /// The algorithm's published name; `None` for the profiles without one.
    pub const fn algorithm(&self) -> Option<&'static str> {
        match self {
            Self::None | Self::Fixed { .. } => None,
            Self::Nscc(_) => Some(Nscc::NAME),
        }
    }

    /// Refuses what no controller could run with, naming the field.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        match self {
            Self::None | Self::Fixed { .. } => Ok(()),
            Self::Nscc(config) => config.validate(),
        }
    }
}

/// One congestion controller: a closed set of algorithms behind one match, no dynamic dispatch.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives in lent storage: there is no heap to box into")]
pub(crate) enum Cc {
    /// Fixed or infinite window.
    Fixed(FixedWindow),
    /// NSCC.
    Nscc(Nscc),
}

impl Cc {
    /// A controller for packets of at most `mtu_bytes` nominal bytes.
    pub(crate) fn new(config: &CcConfig, mtu_bytes: u32, now: Instant) -> Self {
        match config {
            CcConfig::None => Self::Fixed(FixedWindow::infinite()),
            CcConfig::Fixed { window_bytes } => Self::Fixed(FixedWindow::new(*window_bytes, mtu_bytes)),
            CcConfig::Nscc(config) => Self::Nscc(Nscc::new(config, mtu_bytes, now)),
        }
    }

    /// Packets of up to `mtu_bytes` leave from now on; `config` is that of [`Cc::new`].
    pub(crate) fn set_mtu(&mut self, config: &CcConfig, mtu_bytes: u32) {
        match (self, config) {
            (Self::Nscc(cc), CcConfig::Nscc(config)) => cc.set_mtu(config, mtu_bytes),
            (Self::Fixed(cc), CcConfig::Fixed { .. }) => cc.set_mtu(mtu_bytes),
            _ => {}
        }
    }

    /// Lets a packet leave while less than the window is in flight, though it does not fit: until the next [`Cc::set_mtu`].
    pub(crate) fn send_below_window(&mut self) {
        match self {
            Self::Fixed(cc) => cc.send_below_window(),
            Self::Nscc(cc) => cc.send_below_window(),
        }
    }

    /// Works out again what an image does not hold; whether it is a controller of `config`.
    pub(crate) fn rebuild(&mut self, config: &CcConfig, mtu_bytes: u32) -> bool {
        match (self, config) {
            (Self::Nscc(cc), CcConfig::Nscc(config)) => cc.rebuild(config, mtu_bytes),
            (Self::Fixed(cc), CcConfig::None) => *cc = FixedWindow::infinite().with_inflight(cc.inflight_bytes()),
            (Self::Fixed(cc), CcConfig::Fixed { window_bytes }) => {
                *cc = FixedWindow::new(*window_bytes, mtu_bytes).with_inflight(cc.inflight_bytes());
            }
            _ => return false,
        }
        true
    }

    /// Smallest round trip known in nanoseconds, where the algorithm has one.
    pub(crate) fn base_rtt_ns(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => None,
            Self::Nscc(cc) => Some(cc.base_rtt_ns()),
        }
    }

    /// Whether a probe should measure the base RTT.
    pub(crate) fn wants_rtt_of_probes(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Nscc(cc) => cc.takes_rtt_of_probes(),
        }
    }

    /// What a full packet would have needed in place of one with `payload` bytes that needed `rtt_ns`, where that is less than
    /// the base RTT.
    #[inline]
    pub(crate) fn full_rtt_ns(&self, rtt_ns: u64, payload: impl FnOnce() -> u32) -> u64 {
        match self {
            Self::Nscc(cc) if rtt_ns < cc.base_rtt_ns() => cc.full_rtt_ns(rtt_ns, payload()),
            Self::Nscc(_) | Self::Fixed(_) => rtt_ns,
        }
    }

    /// Whether a packet of `bytes` has to ask for an acknowledgement because `unasked` have left since one did; `None` where the
    /// algorithm does not look at each packet.
    #[inline]
    pub(crate) fn wants_ack(&self, unasked: u32, bytes: u32) -> Option<bool> {
        match self {
            Self::Nscc(cc) if cc.crowds() => Some(cc.wants_ack(unasked, bytes)),
            Self::Fixed(_) | Self::Nscc(_) => None,
        }
    }

    /// After a packet that is larger than the window, no other may leave until the instant returned.
    #[inline]
    pub(crate) fn pause(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Fixed(_) => None,
            Self::Nscc(cc) => cc.pause(now),
        }
    }

    /// Ends a pause whose time has come; until when it lasts if not, [`Instant::FAR`] if there is none.
    pub(crate) fn resume(&mut self, now: Instant) -> Instant {
        match self {
            Self::Fixed(_) => Instant::FAR,
            Self::Nscc(cc) => cc.resume(now),
        }
    }

    /// The lines of memory that acknowledgements read, behind the first.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        if let Self::Nscc(cc) = self {
            cc.fetch(memory);
        }
    }

    /// Average queueing delay in nanoseconds; 0 where the algorithm has none.
    pub(crate) fn avg_delay_ns(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Nscc(cc) => cc.avg_delay_ns(),
        }
    }
}

macro_rules! each {
    ($self:ident, $cc:ident => $call:expr) => {
        match $self {
            Cc::Fixed($cc) => $call,
            Cc::Nscc($cc) => $call,
        }
    };
}

impl CongestionControl for Cc {
    fn on_ack(&mut self, now: Instant, ack: &AckSample) {
        each!(self, cc => cc.on_ack(now, ack));
    }
    fn on_nack(&mut self, now: Instant, bytes: u32, trimmed: bool, rtt_ns: Option<u64>) {
        each!(self, cc => cc.on_nack(now, bytes, trimmed, rtt_ns));
    }
    fn on_loss(&mut self, now: Instant, bytes: u32) {
        each!(self, cc => cc.on_loss(now, bytes));
    }
    fn on_unloss(&mut self, bytes: u32) {
        each!(self, cc => cc.on_unloss(bytes));
    }
    fn on_send(&mut self, bytes: u32) {
        each!(self, cc => cc.on_send(bytes));
    }
    fn on_base_rtt(&mut self, rtt_ns: u64) {
        each!(self, cc => cc.on_base_rtt(rtt_ns));
    }
    fn on_settled(&mut self, bytes: i64) {
        each!(self, cc => cc.on_settled(bytes));
    }
    fn can_send(&self) -> bool {
        each!(self, cc => cc.can_send())
    }
    fn cwnd_bytes(&self) -> u64 {
        each!(self, cc => cc.cwnd_bytes())
    }
    fn max_wnd_bytes(&self) -> u64 {
        each!(self, cc => cc.max_wnd_bytes())
    }
    fn inflight_bytes(&self) -> i64 {
        each!(self, cc => cc.inflight_bytes())
    }
}

crate::image::stored!(enum CcConfig { 0 => None, 1 => Fixed { window_bytes }, 2 => Nscc(config) });
crate::image::stored!(enum Cc { 0 => Fixed(cc), 1 => Nscc(cc) });
