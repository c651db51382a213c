//! The state of a path, from what became of its probes.
//!
//! ```text
//!            3 losses and a lower bound above `enter`            enough losses in a row
//!     Up ------------------------------------------> Lossy ---------------------------> Down
//!      ^  <-----------------------------------------   ^  <----------------------------   |
//!      |      lower bound below a quarter of it        '------ `up_after` answers --------'
//!      '---> Slow: `slow_after` answers in a row above the baseline, and back the same way
//! ```
//!
//! A loss counts only if the agent's own host and congestion do not explain it:
//! * probes sent around a pause of the own host, or while the kernel dropped frames of the own socket, are not judged
//!   ([`PauseWatch`]);
//! * probes of the data class show congestion and are counted apart;
//! * losses of the control class count as congestion while data class probes of the path are trimmed.

use serde::{Deserialize, Serialize};

use crate::probe::Class;

/// Thresholds of the state machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathConfig {
    /// Losses in a row that make a healthy path down.
    pub down_after: u32,
    /// How unlikely losses in a row must be on a lossy path to make it down.
    pub down_chance: f64,
    /// Answers in a row that end down.
    pub up_after: u32,
    /// A path is lossy when the lower bound of its loss rate exceeds this.
    pub enter: f64,
    /// Width of the confidence interval in standard deviations.
    pub sigmas: f64,
    /// Answers in a row that make a path slow, or not slow.
    pub slow_after: u32,
    /// Delay above the baseline that is slow, in nanoseconds.
    pub slow_ns: u64,
    /// Probes after a trimmed one in which control class losses count as congested.
    pub congestion_probes: u32,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            down_after: 4,
            down_chance: 1e-6,
            up_after: 10,
            enter: 1e-4,
            sigmas: 3.3,
            slow_after: 32,
            slow_ns: 50_000,
            congestion_probes: 8,
        }
    }
}

/// A loss rate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Best estimate.
    pub rate: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Loss {
    /// Wilson's interval for `lost` of `sent`, `sigmas` wide. Nothing sent: anything from 0 to 1.
    #[must_use]
    pub fn of(lost: u64, sent: u64, sigmas: f64) -> Self {
        if sent == 0 {
            return Self { rate: 0.0, low: 0.0, high: 1.0 };
        }
        let (n, p, z2) = (sent as f64, lost as f64 / sent as f64, sigmas * sigmas);
        let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = sigmas / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        let low = if lost == 0 { 0.0 } else { (middle - half).max(0.0) };
        let high = if lost == sent { 1.0 } else { (middle + half).min(1.0) };
        Self { rate: p, low, high }
    }
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Probes come back, in time.
    Up,
    /// Some do not.
    Lossy(Loss),
    /// They come back late: nanoseconds above the baseline.
    Slow(u64),
    /// None comes back.
    Down,
}

impl State {
    /// Whether two states have one name.
    #[must_use]
    pub fn same_kind(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It came back.
    Answered {
        /// Round trip, in nanoseconds.
        rtt_ns: u64,
        /// A switch trimmed it.
        trimmed: bool,
    },
    /// It did not come back in time, and this host was awake.
    Lost,
    /// It did not come back, but this host was not awake either.
    Unjudged,
}

/// Sums of a path since its agent began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Control class probes judged.
    pub sent: u64,
    /// Control class probes lost.
    pub lost: u64,
    /// Of these, lost while the path was congested.
    pub lost_congested: u64,
    /// Of the lost ones, those that came back after they had been judged.
    pub late: u64,
    /// Data class probes judged.
    pub data_sent: u64,
    /// Data class probes lost.
    pub data_lost: u64,
    /// Data class probes that came back trimmed.
    pub trimmed: u64,
    /// Probes not judged.
    pub unjudged: u64,
    /// Of the control class probes judged, those as long as a full data packet.
    #[serde(default)]
    pub full_sent: u64,
    /// Of these, lost; one that came back late is among them.
    #[serde(default)]
    pub full_lost: u64,
}

impl Totals {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            lost_congested: self.lost_congested + other.lost_congested,
            late: self.late + other.late,
            data_sent: self.data_sent + other.data_sent,
            data_lost: self.data_lost + other.data_lost,
            trimmed: self.trimmed + other.trimmed,
            unjudged: self.unjudged + other.unjudged,
            full_sent: self.full_sent + other.full_sent,
            full_lost: self.full_lost + other.full_lost,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            lost: self.lost - earlier.lost,
            lost_congested: self.lost_congested - earlier.lost_congested,
            late: self.late - earlier.late,
            data_sent: self.data_sent - earlier.data_sent,
            data_lost: self.data_lost - earlier.data_lost,
            trimmed: self.trimmed - earlier.trimmed,
            unjudged: self.unjudged - earlier.unjudged,
            full_sent: self.full_sent - earlier.full_sent,
            full_lost: self.full_lost - earlier.full_lost,
        }
    }
}

const BUCKETS: usize = 16;
const BUCKET_PROBES: u32 = 256;

/// A path and its recent past.
#[derive(Debug, Clone)]
pub struct Path {
    state: State,
    totals: Totals,
    /// Sent and lost, a bucket per [`BUCKET_PROBES`].
    window: [(u32, u32); BUCKETS],
    bucket: usize,
    lost_in_row: u32,
    answered_in_row: u32,
    late_in_row: u32,
    punctual_in_row: u32,
    /// Answers that made the baseline; a running mean afterwards.
    baseline: Option<(u64, u32)>,
    congested_for: u32,
    /// The loss of a lossy path as it was told last.
    told: Option<Loss>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            state: State::Up,
            totals: Totals::default(),
            window: [(0, 0); BUCKETS],
            bucket: 0,
            lost_in_row: 0,
            answered_in_row: 0,
            late_in_row: 0,
            punctual_in_row: 0,
            baseline: None,
            congested_for: 0,
            told: None,
        }
    }
}

/// Answers before the baseline is believed.
const BASELINE_ANSWERS: u32 = 64;

impl Path {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Its sums.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The usual round trip, in nanoseconds; none before enough answers came.
    #[must_use]
    pub fn baseline_ns(&self) -> Option<u64> {
        self.baseline.filter(|(_, answers)| *answers >= BASELINE_ANSWERS).map(|(ns, _)| ns)
    }

    /// Takes in what became of a probe; returns the new state when it is another one, or when the loss rate has left the interval
    /// that was returned last.
    pub fn record(&mut self, config: &PathConfig, class: Class, fate: Fate) -> Option<State> {
        let before = self.state;
        match (class, fate) {
            (_, Fate::Unjudged) => self.totals.unjudged += 1,
            (Class::Data, Fate::Lost) => {
                self.totals.data_sent += 1;
                self.totals.data_lost += 1;
            }
            (Class::Data, Fate::Answered { trimmed, .. }) => {
                self.totals.data_sent += 1;
                if trimmed {
                    self.totals.trimmed += 1;
                    self.congested_for = config.congestion_probes;
                }
            }
            (Class::Control, Fate::Lost) => self.judge(config, false),
            (Class::Control, Fate::Answered { rtt_ns, .. }) => {
                self.time(config, rtt_ns);
                self.judge(config, true);
            }
        }
        self.news(&before)
    }

    /// The same for a control class probe as long as a full data packet: its losses count as those of short ones, its round trip does
    /// not, because every link takes longer for it.
    pub fn record_full(&mut self, config: &PathConfig, fate: Fate) -> Option<State> {
        let before = self.state;
        match fate {
            Fate::Unjudged => self.totals.unjudged += 1,
            Fate::Lost | Fate::Answered { .. } => {
                let came_back = fate != Fate::Lost;
                self.totals.full_sent += 1;
                self.totals.full_lost += u64::from(!came_back);
                self.judge(config, came_back);
            }
        }
        self.news(&before)
    }

    /// The state, if it is not the one that was told.
    fn news(&mut self, before: &State) -> Option<State> {
        let loss = match self.state {
            State::Lossy(loss) => Some(loss),
            _ => None,
        };
        let changed = match (loss, self.told) {
            // A path becomes lossy with its first few losses: most of its window is of the time before.
            (Some(now), Some(told)) => !(told.low..=told.high).contains(&now.rate),
            _ => !self.state.same_kind(before),
        };
        if changed {
            self.told = loss;
        }
        changed.then_some(self.state)
    }

    /// A control class probe that was judged lost came back after all: it was late, and is no loss.
    pub fn record_late(&mut self) {
        self.totals.late += 1;
        self.lost_in_row = 0;
        if let Some(bucket) = self.window.iter_mut().find(|bucket| bucket.1 > 0) {
            bucket.1 -= 1;
        }
    }

    fn judge(&mut self, config: &PathConfig, came_back: bool) {
        self.totals.sent += 1;
        let congested = self.congested_for > 0;
        self.congested_for = self.congested_for.saturating_sub(1);
        if self.window[self.bucket].0 >= BUCKET_PROBES {
            self.bucket = (self.bucket + 1) % BUCKETS;
            self.window[self.bucket] = (0, 0);
        }
        self.window[self.bucket].0 += 1;
        if came_back {
            self.lost_in_row = 0;
            self.answered_in_row += 1;
        } else {
            self.totals.lost += 1;
            self.totals.lost_congested += u64::from(congested);
            self.window[self.bucket].1 += 1;
            self.lost_in_row += 1;
            self.answered_in_row = 0;
        }
        self.state = self.next(config);
    }

    fn time(&mut self, config: &PathConfig, rtt_ns: u64) {
        let (baseline, answers) = self.baseline.unwrap_or((rtt_ns, 0));
        let late = answers >= BASELINE_ANSWERS && rtt_ns > baseline + config.slow_ns;
        if late {
            self.late_in_row += 1;
            self.punctual_in_row = 0;
        } else {
            self.late_in_row = 0;
            self.punctual_in_row += 1;
            // A mean over the first answers, a slow one over about a thousand later.
            let weight = i128::from(answers + 1).min(1024);
            let moved = i128::from(baseline) + (i128::from(rtt_ns) - i128::from(baseline)) / weight;
            self.baseline = Some((moved.max(0) as u64, answers.saturating_add(1)));
        }
        if late && self.late_in_row >= config.slow_after && matches!(self.state, State::Up | State::Slow(_)) {
            self.state = State::Slow(rtt_ns - baseline);
        }
    }

    fn next(&mut self, config: &PathConfig) -> State {
        let (sent, lost) = self.window.iter().fold((0, 0), |(s, l), b| (s + u64::from(b.0), l + u64::from(b.1)));
        let loss = Loss::of(lost, sent, config.sigmas);
        if self.state == State::Down {
            if self.answered_in_row < config.up_after {
                return State::Down;
            }
            // What was down says nothing about how lossy the path is now.
            self.window = [(0, 0); BUCKETS];
            self.window[self.bucket] = (self.answered_in_row, 0);
            return State::Up;
        }
        let row = u64::from(self.lost_in_row).min(lost);
        // The rate before these losses, not too low for a path of which little is known.
        let earlier = (lost - row + 1) as f64 / (sent - row + 8) as f64;
        let unlikely = earlier.powi(self.lost_in_row as i32) < config.down_chance || lost == row;
        if self.lost_in_row >= config.down_after && unlikely {
            return State::Down;
        }
        match self.state {
            State::Lossy(_) if loss.low >= config.enter / 4.0 && lost > 1 => State::Lossy(loss),
            _ if lost >= 3 && loss.low > config.enter => State::Lossy(loss),
            State::Slow(above) if self.punctual_in_row < config.slow_after => State::Slow(above),
            _ => State::Up,
        }
    }
}

/// Recognises that this host was paused: its ticks come late. What was in flight then is not judged.
#[derive(Debug, Clone, Copy)]
pub struct PauseWatch {
    tolerance_ns: u64,
    last_ns: Option<u64>,
    paused_until_ns: Option<(u64, u64)>,
    pauses: u64,
    paused_ns: u64,
}

impl PauseWatch {
    /// A tick later than `tolerance_ns` after the last one is a pause.
    #[must_use]
    pub fn new(tolerance_ns: u64) -> Self {
        Self { tolerance_ns, last_ns: None, paused_until_ns: None, pauses: 0, paused_ns: 0 }
    }

    /// A tick; returns the length of the pause that it ended.
    pub fn tick(&mut self, now_ns: u64) -> Option<u64> {
        let gap = now_ns.saturating_sub(self.last_ns.replace(now_ns)?);
        (gap > self.tolerance_ns).then(|| {
            self.pauses += 1;
            self.paused_ns += gap;
            self.paused_until_ns = Some((now_ns - gap, now_ns));
            gap
        })
    }

    /// The kernel dropped frames of our socket some time since the last tick before this one.
    pub fn dropped(&mut self, since_ns: u64, now_ns: u64) {
        let from =
            self.paused_until_ns.map_or(since_ns, |(from, until)| if until >= since_ns { from } else { since_ns });
        self.paused_until_ns = Some((from.min(since_ns), now_ns));
    }

    /// Whether a probe that was in flight from `sent_ns` to `deadline_ns` may have been missed by us.
    #[must_use]
    pub fn covers(&self, sent_ns: u64, deadline_ns: u64) -> bool {
        self.paused_until_ns.is_some_and(|(from, until)| sent_ns <= until && deadline_ns >= from)
    }

    /// Pauses so far, and their sum in nanoseconds.
    #[must_use]
    pub fn pauses(&self) -> (u64, u64) {
        (self.pauses, self.paused_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const OK: Fate = Fate::Answered { rtt_ns: 10_000, trimmed: false };

    fn feed(path: &mut Path, fates: impl IntoIterator<Item = Fate>) -> Vec<State> {
        let config = PathConfig::default();
        fates.into_iter().filter_map(|fate| path.record(&config, Class::Control, fate)).collect()
    }

    #[test]
    fn full_probes_count_as_losses_and_say_nothing_about_delay() {
        let (config, mut path) = (PathConfig::default(), Path::default());
        for _ in 0..100 {
            assert_eq!(path.record(&config, Class::Control, OK), None);
            let longer = Fate::Answered { rtt_ns: 10_000_000, trimmed: false };
            assert_eq!(path.record_full(&config, longer), None, "as long as it takes on every link");
        }
        assert_eq!(path.baseline_ns(), Some(10_000));
        let mut states = Vec::new();
        for _ in 0..8 {
            feed(&mut path, [OK; 15]);
            states.extend(path.record_full(&config, Fate::Lost));
        }
        assert!(matches!(states[..], [State::Lossy(_)]), "{states:?}");
        let Totals { sent, lost, full_sent, full_lost, .. } = path.totals();
        assert_eq!((sent, lost, full_sent, full_lost), (328, 8, 108, 8));
    }

    #[test]
    fn four_losses_in_a_row_are_down_and_ten_answers_up() {
        let mut path = Path::default();
        assert_eq!(feed(&mut path, vec![OK; 1000]), []);
        assert!(!feed(&mut path, vec![Fate::Lost; 4]).is_empty());
        assert_eq!(path.state(), State::Down);
        assert_eq!(feed(&mut path, vec![OK; 9]), []);
        assert_eq!(feed(&mut path, [OK]), [State::Up]);
        let mut fresh = Path::default();
        feed(&mut fresh, vec![Fate::Lost; 4]);
        assert_eq!(fresh.state(), State::Down, "a path that never worked");
    }

    #[test]
    fn single_losses_are_not_a_state() {
        let mut path = Path::default();
        for _ in 0..10 {
            assert_eq!(feed(&mut path, vec![OK; 4000]), []);
            assert_eq!(feed(&mut path, [Fate::Lost]), []);
        }
    }

    #[test]
    fn a_lossy_path_keeps_its_state_and_its_bound_holds_the_rate() {
        for (seed, rate) in [(1, 0.004), (2, 0.01), (3, 0.2)] {
            let (mut path, mut rng) = (Path::default(), Rng::new(seed));
            let mut fate = || if rng.chance(rate) { Fate::Lost } else { OK };
            feed(&mut path, (0..6000).map(|_| fate()).collect::<Vec<_>>());
            let changes = feed(&mut path, (0..6000).map(|_| fate()).collect::<Vec<_>>());
            assert_eq!(changes, [], "{rate}");
            let State::Lossy(loss) = path.state() else { panic!("{:?} at {rate}", path.state()) };
            assert!(loss.low <= rate && rate <= loss.high, "{loss:?}");
        }
    }

    /// An agent told a loss of 0.07 % for as long as a link lost 5 %.
    #[test]
    fn a_loss_rate_that_left_its_interval_is_told_again() {
        let window = BUCKETS * BUCKET_PROBES as usize;
        let mut path = Path::default();
        feed(&mut path, vec![OK; window]);
        let told = feed(&mut path, (1..=window).map(|probe| if probe % 20 == 0 { Fate::Lost } else { OK }));
        let rates: Vec<f64> =
            told.iter().filter_map(|s| if let State::Lossy(loss) = s { Some(loss.rate) } else { None }).collect();
        assert!(rates[0] < 0.001 && rates.is_sorted() && (0.025..=0.05).contains(rates.last().unwrap()), "{rates:?}");
        assert!(told.len() == rates.len() && rates.len() < 10, "{told:?}");
    }

    #[test]
    fn a_path_that_heals_is_up_again_after_its_window() {
        let (mut path, mut rng) = (Path::default(), Rng::new(5));
        feed(&mut path, (0..3000).map(|_| if rng.chance(0.05) { Fate::Lost } else { OK }).collect::<Vec<_>>());
        assert!(matches!(path.state(), State::Lossy(_)));
        feed(&mut path, vec![OK; BUCKETS * BUCKET_PROBES as usize]);
        assert_eq!(path.state(), State::Up);
    }

    #[test]
    fn trimmed_and_lost_data_probes_are_congestion() {
        let (mut path, config) = (Path::default(), PathConfig::default());
        for _ in 0..1000 {
            path.record(&config, Class::Data, Fate::Lost);
            path.record(&config, Class::Data, Fate::Answered { rtt_ns: 5, trimmed: true });
            path.record(&config, Class::Control, OK);
        }
        assert_eq!(path.state(), State::Up);
        let lost = path.record(&config, Class::Control, Fate::Lost);
        let totals = path.totals();
        assert_eq!(lost, None);
        assert_eq!((totals.data_lost, totals.trimmed, totals.lost, totals.lost_congested), (1000, 1000, 1, 1));
    }

    #[test]
    fn a_probe_that_comes_back_late_is_no_loss() {
        let mut path = Path::default();
        feed(&mut path, vec![OK; 100]);
        for _ in 0..50 {
            feed(&mut path, vec![Fate::Lost; 2]);
            path.record_late();
            path.record_late();
            feed(&mut path, [OK]);
        }
        assert_eq!((path.state(), path.totals().lost, path.totals().late), (State::Up, 100, 100));
    }

    #[test]
    fn late_answers_make_a_path_slow_until_they_are_punctual() {
        let mut path = Path::default();
        feed(&mut path, vec![OK; 100]);
        let late = Fate::Answered { rtt_ns: 200_000, trimmed: false };
        assert_eq!(feed(&mut path, vec![late; 31]), []);
        assert_eq!(feed(&mut path, [late]), [State::Slow(190_000)]);
        assert_eq!(feed(&mut path, vec![OK; 32]), [State::Up]);
        assert_eq!(path.baseline_ns(), Some(10_000));
    }

    #[test]
    fn a_late_tick_is_a_pause_and_covers_what_was_in_flight() {
        let mut watch = PauseWatch::new(3_000_000);
        assert_eq!([0, 1, 2, 3].map(|ms| watch.tick(ms * 1_000_000)), [None; 4]);
        assert!(!watch.covers(0, 3_000_000));
        assert_eq!(watch.tick(53_000_000), Some(50_000_000));
        assert!(watch.covers(2_000_000, 5_000_000) && watch.covers(53_000_000, 56_000_000));
        assert!(!watch.covers(54_000_000, 57_000_000) && !watch.covers(0, 2_900_000));
        watch.dropped(60_000_000, 61_000_000);
        assert!(watch.covers(60_500_000, 63_500_000));
    }

    #[test]
    fn wilson_knows_its_ends() {
        assert_eq!(Loss::of(0, 0, 3.0), Loss { rate: 0.0, low: 0.0, high: 1.0 });
        assert_eq!(Loss::of(0, 100, 3.0).low, 0.0);
        assert_eq!(Loss::of(100, 100, 3.0).high, 1.0);
        let loss = Loss::of(10, 1000, 1.96);
        assert!((loss.low - 0.00544).abs() < 1e-4 && (loss.high - 0.0183).abs() < 1e-4, "{loss:?}");
    }
}
