//! Memory: what the caller lends and how much of it. The engine never allocates; every queue and table is a slice of
//! [`Storage`], and its size is a value of [`Limits`].

use crate::{
    Completion, ConfigError, CqSlot, EvProfileSlot, EventSlot, Immediate, MAX_PORTS, MrSlot, PeerSlot, PlaneSlot, Qp,
    RecvWqe, Refusal, RouteSlot, RxWord, TimerSlot, TxRecord, TxWord, Wqe,
    cc::{CcProfile, Qpcc},
    path::{EvEntry, EvSlot},
};

/// Sizes of an endpoint. Every per-QP array has the same size for each QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Queue pairs, 1..=65536.
    pub qps: usize,
    /// Widest window of a QP in units of 128 PSNs, both directions, a power of two, 1..=256: the widest on the wire is 255.
    pub mpr: usize,
    /// Packets a QP can have in flight, a power of two, at least 8, where it sends less than a window: `mpr * 128` or more is
    /// the whole window.
    pub tx_packets: usize,
    /// Work requests a QP can hold, a power of two, 1..=1048576.
    pub send_queue: usize,
    /// Receive requests a QP can hold, a power of two up to 1048576, or 0 where nothing is received with immediate.
    pub recv_queue: usize,
    /// Writes with immediate a QP accepts in flight, at most 65535 (`max_wimm_dest`).
    pub wimm: usize,
    /// EVs of a QP, active and backup, 1..=4096.
    pub evs: usize,
    /// EVs a QP rotates through at most, 1..=`evs`; no fewer than the planes that its EV profile uses.
    pub active_evs: usize,
    /// Completion queues, 1..=65536.
    pub cqs: usize,
    /// Completions a queue can hold, a power of two, 1..=1048576.
    pub cq_depth: usize,
    /// Memory regions, 1..=65536.
    pub mrs: usize,
    /// Peers, 1..=65536.
    pub peers: usize,
    /// Planes: ports with higher numbers cannot be, 1..=8.
    pub planes: usize,
    /// Peers that micro-SIDs may lead to ([`crate::Route::Srv6`]): those with handles below this number. `peers` or more: all.
    pub srv6_peers: usize,
    /// EV profiles, 1..=65536.
    pub ev_profiles: usize,
    /// Entries of an EV profile, 1..=65535.
    pub profile_evs: usize,
    /// Congestion-control profiles, the endpoint's own ([`crate::EndpointConfig::cc`]) among them, 1..=65536.
    pub cc_profiles: usize,
    /// Congestion controllers: pairs of a peer and a profile that QPs use at the same time, 1..=65536.
    pub qpccs: usize,
    /// NACKs of all QPs together that can wait beside the 16 answers of each QP, at most 65536: as many as the packets that a
    /// driver hands over between two turns to send. One that finds no room replaces another.
    pub refusals: usize,
    /// Events that can wait.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            qps: 16,
            mpr: 8,
            tx_packets: usize::MAX,
            send_queue: 128,
            recv_queue: 128,
            wimm: 32,
            evs: 192,
            active_evs: 128,
            cqs: 8,
            cq_depth: 256,
            mrs: 64,
            peers: 4,
            planes: MAX_PORTS,
            srv6_peers: usize::MAX,
            ev_profiles: 4,
            profile_evs: 192,
            cc_profiles: 4,
            qpccs: 16,
            refusals: 1024,
            events: 256,
        }
    }
}

impl Limits {
    /// Bytes one QP costs in all lent slices together.
    pub const fn bytes_per_qp(&self) -> usize {
        let parts = [
            (1, const { size_of::<Qp>() + size_of::<TimerSlot>() }),
            (self.records(), size_of::<TxRecord>()),
            (self.tx_words(), size_of::<TxWord>()),
            (self.mpr.saturating_mul(2), size_of::<RxWord>()),
            (self.send_queue, size_of::<Wqe>()),
            (self.recv_queue, size_of::<RecvWqe>()),
            (self.wimm, size_of::<Immediate>()),
            (self.evs, size_of::<EvSlot>()),
            (self.active_evs, size_of::<u16>()),
        ];
        let (mut bytes, mut rest) = (0usize, parts.as_slice());
        while let [(count, size), after @ ..] = rest {
            bytes = bytes.saturating_add(count.saturating_mul(*size));
            rest = after;
        }
        bytes
    }

    /// Peers with a template of micro-SIDs.
    pub const fn routes(&self) -> usize {
        if self.srv6_peers < self.peers { self.srv6_peers } else { self.peers }
    }

    /// Packets in the PSN window of a QP of checked limits.
    #[inline(always)]
    pub(crate) const fn window(&self) -> usize {
        self.mpr << 7
    }

    /// Packets that a QP can have in flight, one record each.
    #[inline(always)]
    pub const fn records(&self) -> usize {
        let window = self.mpr.saturating_mul(128);
        if self.tx_packets < window { self.tx_packets } else { window }
    }

    /// Words of 64 packets for them.
    #[inline(always)]
    pub const fn tx_words(&self) -> usize {
        let words = self.records() >> 6;
        if words == 0 { 1 } else { words }
    }

    /// Words of 64 packets in the PSN window of a QP of checked limits.
    #[inline(always)]
    pub(crate) const fn words(&self) -> usize {
        self.mpr << 1
    }

    /// Whether an endpoint of these sizes can be.
    ///
    /// # Errors
    /// `ConfigError::Range` with the name of the first limit outside its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |what| Err(ConfigError::Range { what });
        if self.qps == 0 || self.qps > 1 << 16 {
            return range("qps");
        }
        if !self.mpr.is_power_of_two() || self.mpr > 256 {
            return range("mpr");
        }
        if self.tx_packets < 8 || (self.tx_packets < self.window() && !self.tx_packets.is_power_of_two()) {
            return range("tx_packets");
        }
        if !self.send_queue.is_power_of_two() || self.send_queue > 1 << 20 {
            return range("send_queue");
        }
        if self.recv_queue != 0 && !self.recv_queue.is_power_of_two() || self.recv_queue > 1 << 20 {
            return range("recv_queue");
        }
        if self.wimm > 65_535 {
            return range("wimm");
        }
        if !self.cq_depth.is_power_of_two() || self.cq_depth > 1 << 20 {
            return range("cq_depth");
        }
        if self.evs == 0 || self.evs > 4_096 || self.active_evs == 0 || self.active_evs > self.evs {
            return range("evs");
        }
        if self.mrs == 0 || self.mrs > 1 << 16 {
            return range("mrs");
        }
        if self.cqs == 0 || self.cqs > 1 << 16 {
            return range("cqs");
        }
        if self.peers == 0 || self.peers > 1 << 16 {
            return range("peers");
        }
        if self.planes == 0 || self.planes > MAX_PORTS {
            return range("planes");
        }
        if self.cc_profiles == 0 || self.cc_profiles > 1 << 16 {
            return range("cc_profiles");
        }
        if self.qpccs == 0 || self.qpccs > 1 << 16 {
            return range("qpccs");
        }
        if self.refusals > 1 << 16 {
            return range("refusals");
        }
        if self.ev_profiles == 0 || self.ev_profiles > 1 << 16 {
            return range("ev_profiles");
        }
        if self.profile_evs == 0 || self.profile_evs > 65_535 {
            return range("profile_evs");
        }
        self.check_bytes(isize::MAX.unsigned_abs())
    }

    /// Whether all slices together take at most `most` bytes, the largest object of the target.
    fn check_bytes(&self, most: usize) -> Result<(), ConfigError> {
        let parts = [
            ("qps", self.qps, 1, const { size_of::<Qp>() + size_of::<TimerSlot>() }),
            ("mpr", self.qps, self.records(), size_of::<TxRecord>()),
            ("mpr", self.qps, self.tx_words(), size_of::<TxWord>()),
            ("mpr", self.qps, self.words(), size_of::<RxWord>()),
            ("send_queue", self.qps, self.send_queue, size_of::<Wqe>()),
            ("recv_queue", self.qps, self.recv_queue, size_of::<RecvWqe>()),
            ("wimm", self.qps, self.wimm, size_of::<Immediate>()),
            ("evs", self.qps, self.evs, size_of::<EvSlot>()),
            ("active_evs", self.qps, self.active_evs, size_of::<u16>()),
            ("cqs", self.cqs, 1, size_of::<CqSlot>()),
            ("cq_depth", self.cqs, self.cq_depth, size_of::<Completion>()),
            ("mrs", self.mrs, 1, size_of::<MrSlot>()),
            ("peers", self.peers, 1, size_of::<PeerSlot>()),
            ("planes", self.peers, self.planes, size_of::<PlaneSlot>()),
            ("srv6_peers", self.routes(), 1, size_of::<RouteSlot>()),
            ("profile_evs", self.ev_profiles, self.profile_evs, size_of::<EvEntry>()),
            ("ev_profiles", self.ev_profiles, 1, size_of::<EvProfileSlot>()),
            ("cc_profiles", self.cc_profiles, 1, size_of::<CcProfile>()),
            ("qpccs", self.qpccs, 1, size_of::<Qpcc>()),
            ("refusals", self.refusals, 1, size_of::<Refusal>()),
            ("events", self.events, 1, size_of::<EventSlot>()),
        ];
        let mut sum = 0usize;
        for (what, count, each, size) in parts {
            let bytes = count.checked_mul(each).and_then(|elements| elements.checked_mul(size));
            sum = match bytes.and_then(|bytes| sum.checked_add(bytes)) {
                Some(sum) if sum <= most => sum,
                _ => return Err(ConfigError::Range { what }),
            };
        }
        Ok(())
    }
}

macro_rules! storage {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $empty:expr, |$l:ident| $count:expr;)*) => {
        /// The slices an endpoint lives in; lengths as [`Limits`] ask, longer is allowed. Contents do not matter.
        #[derive(Debug)]
        pub struct Storage<'s> {
            /// Sizes that the slices were made for.
            pub limits: Limits,
            $($(#[$doc])* pub $field: &'s mut [$ty],)*
        }

        impl<'s> Storage<'s> {
            /// Checks limits and lengths, and cuts every slice to the length used.
            pub(crate) fn validated(self) -> Result<Self, ConfigError> {
                self.limits.check()?;
                Ok(Self {
                    limits: self.limits,
                    $($field: {
                        let $l = &self.limits;
                        let (need, have) = ($count, self.$field.len());
                        self.$field.get_mut(..need).ok_or(ConfigError::Storage {
                            what: stringify!($field), need, have,
                        })?
                    },)*
                })
            }
        }

        /// Storage from the heap, for drivers that have one.
        #[cfg(any(feature = "alloc", test))]
        #[derive(Debug)]
        pub struct OwnedStorage {
            limits: Limits,
            $($field: alloc::vec::Vec<$ty>,)*
        }

        #[cfg(any(feature = "alloc", test))]
        impl OwnedStorage {
            /// Allocates what `limits` ask for.
            ///
            /// # Errors
            /// `ConfigError::Range` for limits no endpoint could have.
            pub fn new(limits: Limits) -> Result<Self, ConfigError> {
                limits.check()?;
                Ok(Self { limits, $($field: { let $l = &limits; alloc::vec![$empty; $count] },)* })
            }

            /// Lends everything to an endpoint.
            pub fn lend(&mut self) -> Storage<'_> {
                Storage { limits: self.limits, $($field: &mut self.$field,)* }
            }
        }
    };
}

#[cfg(any(feature = "alloc", test))]
extern crate alloc;

crate::image::stored!(struct Limits {
    qps, mpr, tx_packets, send_queue, recv_queue, wimm, evs, active_evs, cqs, cq_depth, mrs, peers, planes, srv6_peers, ev_profiles,
    profile_evs, cc_profiles, qpccs, refusals, events,
});

/// Hands every slice of [`Storage`] to the macro `$each`, as `field: Type, empty value, |limits| length;`.
///
/// For drivers that carve all of them out of one buffer and must not forget one; the types are those of this crate and of
/// its `path`, which the caller imports.
#[macro_export]
macro_rules! storage_slices {
    ($each:ident) => {
        $each! {
            /// One per QP.
            qps: Qp, Qp::EMPTY, |l| l.qps;
            /// One per QP.
            timers: TimerSlot, TimerSlot::EMPTY, |l| l.qps;
            /// One per packet that a QP can have in flight.
            tx_records: TxRecord, TxRecord::EMPTY, |l| l.qps.saturating_mul(l.records());
            /// One for 64 of them, at least one per QP.
            tx_words: TxWord, TxWord::EMPTY, |l| l.qps.saturating_mul(l.tx_words());
            /// `mpr * 2` per QP.
            rx_words: RxWord, RxWord::EMPTY, |l| l.qps.saturating_mul(l.mpr).saturating_mul(2);
            /// `send_queue` per QP.
            wqes: Wqe, Wqe::EMPTY, |l| l.qps.saturating_mul(l.send_queue);
            /// `recv_queue` per QP.
            recvs: RecvWqe, RecvWqe::EMPTY, |l| l.qps.saturating_mul(l.recv_queue);
            /// `wimm` per QP.
            immediates: Immediate, Immediate::EMPTY, |l| l.qps.saturating_mul(l.wimm);
            /// `evs` per QP.
            ev_slots: EvSlot, EvSlot::EMPTY, |l| l.qps.saturating_mul(l.evs);
            /// `active_evs` per QP.
            ev_order: u16, 0, |l| l.qps.saturating_mul(l.active_evs);
            /// One per completion queue.
            cqs: CqSlot, CqSlot::EMPTY, |l| l.cqs;
            /// `cq_depth` per completion queue.
            completions: Completion, Completion::EMPTY, |l| l.cqs.saturating_mul(l.cq_depth);
            /// One per memory region.
            mrs: MrSlot, MrSlot::EMPTY, |l| l.mrs;
            /// One per peer.
            peers: PeerSlot, PeerSlot::EMPTY, |l| l.peers;
            /// `planes` per peer.
            planes: PlaneSlot, PlaneSlot::EMPTY, |l| l.peers.saturating_mul(l.planes);
            /// One per peer that micro-SIDs may lead to.
            routes: RouteSlot, RouteSlot::EMPTY, |l| l.routes();
            /// `profile_evs` per EV profile.
            ev_entries: EvEntry, EvEntry::EMPTY, |l| l.ev_profiles.saturating_mul(l.profile_evs);
            /// One per EV profile.
            ev_profiles: EvProfileSlot, EvProfileSlot::EMPTY, |l| l.ev_profiles;
            /// One per congestion-control profile.
            cc_profiles: CcProfile, CcProfile::EMPTY, |l| l.cc_profiles;
            /// One per congestion controller.
            qpccs: Qpcc, Qpcc::EMPTY, |l| l.qpccs;
            /// The pool of NACKs that wait.
            refusals: Refusal, Refusal::EMPTY, |l| l.refusals;
            /// The event ring.
            events: EventSlot, None, |l| l.events;
        }
    };
}

storage_slices!(storage);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_is_named() {
        let mut owned = OwnedStorage::new(Limits { qps: 2, ..Limits::default() }).unwrap();
        let mut lent = owned.lend();
        lent.limits.qps = 3;
        let error = lent.validated().unwrap_err();
        assert_eq!(error, ConfigError::Storage { what: "qps", need: 3, have: 2 });
    }

    #[test]
    fn impossible_limits_are_refused() {
        for limits in [
            Limits { qps: 0, ..Limits::default() },
            Limits { mpr: 3, ..Limits::default() },
            Limits { send_queue: 100, ..Limits::default() },
            Limits { active_evs: 500, ..Limits::default() },
            Limits { tx_packets: 4, ..Limits::default() },
            Limits { tx_packets: 100, ..Limits::default() },
            Limits { planes: 0, ..Limits::default() },
            Limits { planes: 9, ..Limits::default() },
        ] {
            assert!(OwnedStorage::new(limits).is_err(), "{limits:?}");
        }
    }

    /// On a device with 32-bit addresses: the limit is named whose slice does not fit any more.
    #[test]
    fn limits_whose_slices_do_not_fit_are_refused_by_name() {
        let most = i32::MAX as usize;
        let wide = Limits {
            qps: 1 << 16,
            mpr: 1,
            evs: 1,
            active_evs: 1,
            wimm: 0,
            recv_queue: 0,
            send_queue: 1,
            ..Limits::default()
        };
        let named = |limits: Limits| match limits.check_bytes(most) {
            Err(ConfigError::Range { what }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(Limits::default().check_bytes(most), Ok(()));
        assert_eq!(wide.check_bytes(most), Ok(()));
        assert_eq!(named(Limits { mpr: 256, ..wide }), "mpr");
        assert_eq!(named(Limits { send_queue: 1 << 20, ..wide }), "send_queue");
        assert_eq!(named(Limits { recv_queue: 1 << 20, ..wide }), "recv_queue");
        assert_eq!(named(Limits { wimm: 65_535, ..wide }), "wimm");
        assert_eq!(named(Limits { evs: 4_096, ..wide }), "evs");
        assert_eq!(named(Limits { cqs: 1 << 16, cq_depth: 1 << 16, ..Limits::default() }), "cq_depth");
        assert_eq!(named(Limits { ev_profiles: 1 << 20, profile_evs: 65_535, ..Limits::default() }), "profile_evs");
        assert_eq!(named(Limits { events: usize::MAX, ..Limits::default() }), "events");
        // And with wider addresses, where no product fits either.
        let refused = |limits: Limits| limits.check().err();
        let named = |what| Some(ConfigError::Range { what });
        assert_eq!(refused(Limits { events: usize::MAX, ..Limits::default() }), named("events"));
        // More slots than a handle can name.
        assert_eq!(refused(Limits { ev_profiles: (1 << 16) + 1, ..Limits::default() }), named("ev_profiles"));
        assert_eq!(refused(Limits { ev_profiles: 0, ..Limits::default() }), named("ev_profiles"));
    }

    /// The sum that must fit is what an embedder lends.
    #[test]
    fn all_slices_are_in_the_sum() {
        macro_rules! lent_bytes {
            ($($(#[$doc:meta])* $field:ident: $ty:ty, $empty:expr, |$l:ident| $count:expr;)*) => {
                |lent: Storage<'_>| 0 $(+ size_of_val::<[_]>(lent.$field))*
            };
        }
        let bytes = storage_slices!(lent_bytes)(OwnedStorage::new(Limits::default()).unwrap().lend());
        assert_eq!(Limits::default().check_bytes(bytes), Ok(()));
        assert_eq!(Limits::default().check_bytes(bytes - 1), Err(ConfigError::Range { what: "events" }));
    }

    /// The documented bound: MPR 8, 128 active EVs of 192, queue depth 64, both directions.
    #[test]
    fn memory_per_qp() {
        let limits = Limits { send_queue: 64, ..Limits::default() };
        let parts = [
            ("Qp", size_of::<Qp>()),
            ("TxRecord", size_of::<TxRecord>()),
            ("Wqe", size_of::<Wqe>()),
            ("EvSlot", size_of::<EvSlot>()),
            ("per peer", size_of::<PeerSlot>()),
            ("per congestion controller", size_of::<Qpcc>()),
        ];
        std::println!("bytes per QP at MPR 8, 192 EVs, queue depth 64: {} {parts:?}", limits.bytes_per_qp());
        assert!(limits.bytes_per_qp() <= 24 * 1024);
        assert_eq!(size_of::<TxRecord>(), 8);
    }
}
