//! DCQCN (Zhu et al., SIGCOMM 2015): the receiver turns marks into congestion notifications (CNPs), the sender turns those
//! into a rate. Times in virtual nanoseconds, rates in bit/s, all of it in integers.

use mrc_core::Instant;

/// Unit of `alpha`: a share of one.
const ONE: u64 = 1 << 16;

/// Knobs of the sender, and how often a receiver notifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DcqcnConfig {
    /// Line rate that the increases and the least rate are for, see [`DcqcnConfig::at`].
    pub line_bps: u64,
    /// Weight of a new observation in `alpha`, as a power of two: 8 means 1/256.
    pub g_shift: u32,
    /// `alpha` decays once per interval without a CNP.
    pub alpha_interval_ns: u64,
    /// The rate is cut at most once per interval.
    pub cut_interval_ns: u64,
    /// The rate rises once per interval.
    pub rise_interval_ns: u64,
    /// And once per so many bytes; `None`: bytes do not count, and hyper increases follow the first additive one.
    pub rise_bytes: Option<u64>,
    /// A cut takes the present rate as the target even when the rate has not risen since the last cut.
    pub clamp_target: bool,
    /// Rises towards the old rate before the target itself rises.
    pub fast_recovery: u32,
    /// Additive increase.
    pub additive_bps: u64,
    /// Whether it is in proportion to the line rate.
    pub additive_scales: bool,
    /// Hyper increase, once both clocks are beyond fast recovery.
    pub hyper_bps: u64,
    /// No slower than this.
    pub min_bps: u64,
    /// A receiver notifies a queue pair at most once per interval.
    pub cnp_interval_ns: u64,
}

impl DcqcnConfig {
    /// The published parameters, with the additive increase scaled from the 40 Gb/s of the publication to `line_bps`. It names no
    /// hyper increase and no least rate: ours are 1 and 0.1 % of the line rate.
    pub const fn published(line_bps: u64) -> Self {
        Self {
            line_bps,
            g_shift: 8,
            alpha_interval_ns: 55_000,
            cut_interval_ns: 50_000,
            rise_interval_ns: 55_000,
            rise_bytes: Some(10_000_000),
            clamp_target: true,
            fast_recovery: 5,
            additive_bps: line_bps / 1_000,
            additive_scales: true,
            hyper_bps: line_bps / 100,
            min_bps: line_bps / 1_000,
            cnp_interval_ns: 50_000,
        }
    }

    /// The parameters in the simulator that ConWeave's authors published, at `line_bps`: cuts 4 us apart, increases by time
    /// only and 300 us apart, of 40 and 100 Mb/s at 100 Gb/s.
    pub const fn conweave(line_bps: u64) -> Self {
        Self {
            line_bps,
            g_shift: 8,
            alpha_interval_ns: 1_000,
            cut_interval_ns: 4_000,
            rise_interval_ns: 300_000,
            rise_bytes: None,
            clamp_target: false,
            fast_recovery: 1,
            additive_bps: line_bps / 2_500,
            additive_scales: true,
            hyper_bps: line_bps / 1_000,
            min_bps: line_bps / 1_000,
            cnp_interval_ns: 1_000,
        }
    }

    /// The same for a port of another rate.
    pub fn at(&self, line_bps: u64) -> Self {
        let scaled = |bps: u64| (u128::from(bps) * u128::from(line_bps) / u128::from(self.line_bps.max(1))) as u64;
        Self {
            line_bps,
            additive_bps: if self.additive_scales { scaled(self.additive_bps) } else { self.additive_bps },
            hyper_bps: scaled(self.hyper_bps),
            min_bps: scaled(self.min_bps),
            ..*self
        }
    }

    /// Cuts more often and comes back more slowly.
    pub const fn aggressive(line_bps: u64) -> Self {
        Self {
            g_shift: 6,
            cut_interval_ns: 16_000,
            cnp_interval_ns: 16_000,
            rise_interval_ns: 120_000,
            additive_bps: line_bps / 2_000,
            ..Self::published(line_bps)
        }
    }

    /// Cuts with every notification and takes long to come back.
    pub const fn most_aggressive(line_bps: u64) -> Self {
        Self {
            g_shift: 4,
            cut_interval_ns: 4_000,
            cnp_interval_ns: 4_000,
            rise_interval_ns: 300_000,
            additive_bps: line_bps / 4_000,
            ..Self::published(line_bps)
        }
    }
}

/// The reaction point of one queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dcqcn {
    current: u64,
    target: u64,
    line: u64,
    /// Estimated share of marked packets.
    alpha: u64,
    next_decay: u64,
    next_rise: u64,
    bytes: u64,
    time_rises: u32,
    byte_rises: u32,
    last_cut: Option<u64>,
}

impl Dcqcn {
    pub(super) fn new(line_bps: u64) -> Self {
        Self {
            current: line_bps,
            target: line_bps,
            line: line_bps,
            alpha: ONE,
            next_decay: 0,
            next_rise: 0,
            bytes: 0,
            time_rises: 0,
            byte_rises: 0,
            last_cut: None,
        }
    }

    /// The rate now, in bit/s.
    pub(super) fn rate(&self) -> u64 {
        self.current
    }

    /// Catches up with the intervals that have passed.
    pub(super) fn advance(&mut self, now: Instant, cfg: &DcqcnConfig) {
        let now = now.as_nanos();
        if self.last_cut.is_none() {
            return;
        }
        while self.next_decay <= now && self.alpha > 0 {
            self.alpha -= (self.alpha >> cfg.g_shift).max(1);
            self.next_decay += cfg.alpha_interval_ns;
        }
        self.next_decay = self.next_decay.max(now.saturating_sub(cfg.alpha_interval_ns));
        while self.next_rise <= now && self.current < self.line {
            self.time_rises += 1;
            self.rise(cfg);
            self.next_rise += cfg.rise_interval_ns;
        }
        self.next_rise = self.next_rise.max(now.saturating_sub(cfg.rise_interval_ns));
    }

    pub(super) fn on_send(&mut self, bytes: u32, cfg: &DcqcnConfig) {
        let Some(rise_bytes) = cfg.rise_bytes.filter(|_| self.last_cut.is_some()) else { return };
        self.bytes += u64::from(bytes);
        if self.bytes >= rise_bytes {
            self.bytes = 0;
            self.byte_rises += 1;
            self.rise(cfg);
        }
    }

    fn rise(&mut self, cfg: &DcqcnConfig) {
        let (slow, fast) = (self.time_rises.min(self.byte_rises), self.time_rises.max(self.byte_rises));
        if cfg.rise_bytes.is_none() && fast > cfg.fast_recovery + 1 {
            self.target += cfg.hyper_bps;
        } else if slow > cfg.fast_recovery {
            self.target += cfg.hyper_bps * u64::from(slow - cfg.fast_recovery);
        } else if fast > cfg.fast_recovery {
            self.target += cfg.additive_bps;
        }
        self.target = self.target.min(self.line);
        self.current = (self.current + self.target) / 2;
        // Halving the distance never quite arrives.
        if self.target == self.line && self.line - self.current <= cfg.min_bps {
            self.current = self.line;
        }
    }

    pub(super) fn on_cnp(&mut self, now: Instant, cfg: &DcqcnConfig) {
        self.advance(now, cfg);
        let now = now.as_nanos();
        if self.last_cut.is_none_or(|at| now - at >= cfg.cut_interval_ns) {
            self.cut(now, cfg);
        }
        self.alpha = self.alpha - (self.alpha >> cfg.g_shift) + (ONE >> cfg.g_shift);
        self.alpha = self.alpha.min(ONE);
        self.next_decay = now + cfg.alpha_interval_ns;
    }

    /// Equation 1 of the paper: the rate is cut by `alpha` as it was, which rises afterwards.
    fn cut(&mut self, now: u64, cfg: &DcqcnConfig) {
        self.last_cut = Some(now);
        if cfg.clamp_target || self.time_rises > 0 || self.target < self.current {
            self.target = self.current;
        }
        let cut = (u128::from(self.current) * u128::from(self.alpha) / u128::from(2 * ONE)) as u64;
        self.current = self.current.saturating_sub(cut).max(cfg.min_bps);
        self.next_rise = now + cfg.rise_interval_ns;
        (self.bytes, self.time_rises, self.byte_rises) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 400_000_000_000;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_recovery_returns_to_it() {
        let cfg = DcqcnConfig::published(LINE);
        let mut qp = Dcqcn::new(LINE);
        qp.on_cnp(at(100), &cfg);
        assert_eq!(qp.rate(), LINE / 2);
        qp.advance(at(100 + 55), &cfg);
        assert_eq!(qp.rate(), LINE * 3 / 4, "half the way back per interval");
        qp.advance(at(100_000), &cfg);
        assert_eq!(qp.rate(), LINE);
    }

    #[test]
    fn cuts_are_spaced_and_grow_smaller_when_notifications_are_rare() {
        let cfg = DcqcnConfig::published(LINE);
        let mut qp = Dcqcn::new(LINE);
        qp.on_cnp(at(100), &cfg);
        qp.on_cnp(at(110), &cfg);
        assert_eq!(qp.rate(), LINE / 2, "one cut per interval");
        // A hundred intervals later alpha has decayed to about two thirds.
        qp.advance(at(6_000), &cfg);
        let before = qp.rate();
        qp.on_cnp(at(6_000), &cfg);
        let cut = (before - qp.rate()) as f64 / before as f64;
        assert!((0.30..0.38).contains(&cut), "{cut}");
    }

    /// Equation 1 by hand, with `g` 1/16: `alpha` is 15/16 when the second notification comes, a decay after the first. It cuts the rate by
    /// 15/32, and only then rises to 15/16 x 15/16 + 1/16.
    #[test]
    fn a_cut_uses_alpha_from_before_its_notification() {
        let cfg = DcqcnConfig { g_shift: 4, rise_interval_ns: 1 << 40, ..DcqcnConfig::published(LINE) };
        let mut qp = Dcqcn::new(LINE);
        qp.on_cnp(at(100), &cfg);
        assert_eq!((qp.rate(), qp.alpha), (LINE / 2, ONE));
        qp.on_cnp(at(155), &cfg);
        assert_eq!((qp.rate(), qp.alpha), (LINE / 2 * 17 / 32, ONE * 241 / 256));
    }

    #[test]
    fn the_rate_has_a_floor() {
        let cfg = DcqcnConfig::most_aggressive(LINE);
        let mut qp = Dcqcn::new(LINE);
        (0..1_000).for_each(|n| qp.on_cnp(at(100 + 5 * n), &cfg));
        assert_eq!(qp.rate(), cfg.min_bps);
    }

    /// Two cuts 51 us apart with `alpha` still 1: target half, rate a quarter of the line.
    fn cut_twice(cfg: &DcqcnConfig) -> Dcqcn {
        let mut qp = Dcqcn::new(LINE);
        qp.on_cnp(at(100), cfg);
        qp.on_cnp(at(151), cfg);
        assert_eq!((qp.target, qp.current), (LINE / 2, LINE / 4));
        qp
    }

    /// Five rises halve the distance to a target that stays; from the sixth on the target rises first, by the same each time.
    #[test]
    fn additive_increase_follows_five_rises_of_fast_recovery() {
        let cfg = DcqcnConfig { rise_bytes: Some(u64::MAX), ..DcqcnConfig::published(LINE) };
        let mut qp = cut_twice(&cfg);
        let mut distance = LINE / 4;
        for nth in 1..=5 {
            qp.advance(at(151 + 55 * nth), &cfg);
            distance /= 2;
            assert_eq!((qp.target, qp.current), (LINE / 2, LINE / 2 - distance), "rise {nth}");
        }
        // 40 Mb/s at 40 Gb/s: a thousandth of the line.
        let mut current = LINE / 2 - distance;
        for nth in 6..=8 {
            qp.advance(at(151 + 55 * nth), &cfg);
            let target = LINE / 2 + (nth - 5) * LINE / 1_000;
            current = (current + target) / 2;
            assert_eq!((qp.target, qp.current), (target, current), "rise {nth}");
        }
    }

    /// The increase is hyper once both clocks are beyond fast recovery, and grows with each rise of the one behind.
    #[test]
    fn hyper_increase_needs_both_clocks_and_grows() {
        let cfg = DcqcnConfig { rise_bytes: Some(1_000), ..DcqcnConfig::published(LINE) };
        let mut qp = cut_twice(&cfg);
        // Bytes first: five of fast recovery, one additive.
        (0..6).for_each(|_| qp.on_send(1_000, &cfg));
        assert_eq!(qp.target, LINE / 2 + LINE / 1_000);
        // Time behind it: five more additive ones.
        qp.advance(at(151 + 5 * 55), &cfg);
        assert_eq!(qp.target, LINE / 2 + 6 * LINE / 1_000);
        // 400 Mb/s at 40 Gb/s once, and once more; the next time twice of it where the bytes have risen as often.
        qp.advance(at(151 + 6 * 55), &cfg);
        assert_eq!(qp.target, LINE / 2 + 6 * LINE / 1_000 + LINE / 100);
        qp.advance(at(151 + 7 * 55), &cfg);
        assert_eq!(qp.target, LINE / 2 + 6 * LINE / 1_000 + 2 * LINE / 100);
        qp.on_send(1_000, &cfg);
        assert_eq!(qp.target, LINE / 2 + 6 * LINE / 1_000 + 4 * LINE / 100);
        // A cut ends it: fast recovery begins anew.
        qp.on_cnp(at(151 + 7 * 55 + 1), &cfg);
        let target = qp.target;
        qp.on_send(1_000, &cfg);
        assert_eq!(qp.target, target);
    }

    #[test]
    fn bytes_alone_raise_it_too() {
        let cfg = DcqcnConfig { rise_interval_ns: 1 << 40, ..DcqcnConfig::published(LINE) };
        let mut qp = Dcqcn::new(LINE);
        qp.on_cnp(at(100), &cfg);
        (0..2_600).for_each(|_| qp.on_send(4_000, &cfg));
        assert_eq!(qp.rate(), LINE * 3 / 4);
    }

    /// By hand at 100 Gb/s: two cuts 4 us apart keep the first target, and the increases by time are fast recovery, 40 Mb/s, and
    /// 100 Mb/s from then on.
    #[test]
    fn conweaves_parameters_keep_the_target_of_a_series_of_cuts() {
        let line = 100_000_000_000;
        let cfg = DcqcnConfig::conweave(line);
        let mut qp = Dcqcn::new(line);
        qp.on_cnp(at(10), &cfg);
        assert_eq!((qp.rate(), qp.target), (line / 2, line));
        qp.on_cnp(at(13), &cfg);
        assert_eq!(qp.rate(), line / 2, "a cut every 4 us");
        qp.on_cnp(at(14), &cfg);
        assert!(qp.rate() < line * 26 / 100, "{}", qp.rate());
        assert_eq!(qp.target, line);
        qp.advance(at(314), &cfg);
        assert!(qp.rate() > line * 62 / 100, "half the way to the line rate: {}", qp.rate());
        // A cut after an increase begins a new series.
        let before = qp.rate();
        qp.on_cnp(at(315), &cfg);
        assert_eq!(qp.target, before);
        let target = |qp: &mut Dcqcn, us| {
            qp.advance(at(us), &cfg);
            qp.target
        };
        let targets = [615, 915, 1_215, 1_515].map(|us| target(&mut qp, us) - before);
        assert_eq!(targets, [0, 40_000_000, 140_000_000, 240_000_000]);
    }
}
