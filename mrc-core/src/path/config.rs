//! The knobs of path selection, common to all selectors. Source: `paths.md`.

/// How long an EV stays in SKIP (open question 18). In neither mode does a second mark prolong it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SkipMode {
    /// Until the rotation has passed over it once.
    #[default]
    Rotation,
    /// For a time. When nothing but skipped EVs is left on the free ports, one of them is used all the same.
    Time {
        /// Duration, in nanoseconds.
        ns: u64,
    },
}

/// What a loss inferred from SACKs does to the EV (open question 15).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossEvAction {
    /// ASSUMED_BAD where trimming is negotiated (congestion would have trimmed the packet), otherwise SKIP.
    #[default]
    ByTrimming,
    /// Always ASSUMED_BAD.
    AssumedBad,
    /// Always SKIP.
    Skip,
    /// Nothing.
    None,
}

/// Path selection of one QP. The defaults are those of `paths.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathConfig {
    /// EVs in rotation over all planes, rounded down to a multiple of the planes; 2 bytes of `order` each.
    pub active: u16,
    /// Healthy EVs in reserve over all planes, rounded likewise; 12 bytes of `slots` for each EV, active or not.
    pub backup: u16,
    /// EVs that stay in rotation whatever the network says of them: the last ones are skipped, not retired. 0 lets a QP
    /// retire its last EV and depend on `last_resort`.
    pub ev_min_active: u16,
    /// Distance of two probes of a bad EV, in nanoseconds; the engine sets max(1 ms, 10 * base RTT).
    pub probe_interval_ns: u64,
    /// Good probe answers in a row that revive an EV (open question 17); 0 counts as 1, production runs 3.
    pub resurrect_probes: u8,
    /// An EV keeps the doubled distance of its probes when an answer revives it, and doubles it once more; each SACK without a
    /// mark on the EV takes one doubling back. What passes probes and loses data then comes back ever more rarely, at most
    /// every 64 intervals. Off, an answer ends the back-off (RES-002), and such a path comes and goes without end.
    pub relapse_backoff: bool,
    /// Probes of bad EVs under way at once.
    pub bad_probes_outstanding: u8,
    /// End of a skip (open question 18).
    pub skip_mode: SkipMode,
    /// Effect of an inferred loss (open question 15).
    pub loss_ev_action: LossEvAction,
    /// Losses of an EV in a row, without a good SACK on it between, before a loss or timeout retires it; until then it is
    /// skipped once. 0 counts as 1, the rule of the specification. Software fabrics whose switches drop at random for want
    /// of CPU time want more: there a single loss says little about a path.
    pub loss_streak: u8,
    /// Packets by which a QP may use one plane more than its least used one, as long as other QPs can use the ports it
    /// leaves to them: keeps the links of a receiver evenly loaded when many QPs share a host's ports. 0, the default:
    /// whatever port is free. A turn passed over for congestion counts, and planes that are down, suspended or without EVs
    /// do not.
    pub plane_lead: u8,
    /// With no healthy EV on a usable port, send one packet per base RTT on a bad one (open question 19).
    pub last_resort: bool,
    /// The last resort does not wait between two packets (open question 19).
    pub last_resort_unpaced: bool,
    /// A marked answer to the probe that revives an EV makes it GOOD, not SKIP (open question 16).
    pub marked_probe_good: bool,
    /// A mark lengthens a timed skip that is in force ([`SkipMode::Time`], open question 18).
    pub skip_extends: bool,
    /// A retransmission that answers a NACK may use the EV which the NACK named as soon as no other healthy EV is on a free
    /// port. Otherwise it waits for a busy port and takes a bad EV, in the pace of the last resort; only where there is no
    /// other EV either, or without `last_resort`, it uses the one that was named (OQ-70).
    pub reuse_nacked_ev: bool,
    /// Unloaded round trip, in nanoseconds: the pace of the last resort.
    pub base_rtt_ns: u64,
}

impl PathConfig {
    /// The defaults of `paths.md`, for storage that is lent before it is configured.
    pub const DEFAULT: Self = Self {
        //= PROF-007
        active: 128,
        backup: 64,
        ev_min_active: 1,
        probe_interval_ns: 1_000_000,
        resurrect_probes: 1,
        relapse_backoff: false,
        bad_probes_outstanding: 4,
        skip_mode: SkipMode::Rotation,
        loss_ev_action: LossEvAction::ByTrimming,
        loss_streak: 1,
        plane_lead: 0,
        last_resort: true,
        last_resort_unpaced: false,
        marked_probe_good: false,
        skip_extends: false,
        reuse_nacked_ev: false,
        base_rtt_ns: 50_000,
    };
}

impl Default for PathConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

crate::image::stored!(enum SkipMode { 0 => Rotation, 1 => Time { ns } });
crate::image::stored!(enum LossEvAction { 0 => ByTrimming, 1 => AssumedBad, 2 => Skip, 3 => None });
crate::image::stored!(struct PathConfig {
    active, backup, ev_min_active, probe_interval_ns, resurrect_probes, bad_probes_outstanding, skip_mode, loss_ev_action,
    loss_streak, plane_lead, last_resort, base_rtt_ns, last_resort_unpaced, marked_probe_good, skip_extends,
    reuse_nacked_ev, relapse_backoff,
});
