//! The acknowledgement timer: its intervals and how many retries a QP has.

/// Acknowledgement timer and retry budget (`transport.md` 3.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryConfig {
    /// T0 = 1.024 us * 2^timeout; 0 disables the timer; 1..=24.
    pub timeout: u8,
    /// Retries at the fixed interval T0; 0..=7.
    pub linear: u8,
    /// Retries at a doubling interval; 0..=25, 25 = unlimited.
    pub exponential: u8,
}

/// For software: T0 = 16.8 ms and 8.7 s in all, so that a peer survives whose host does not run it for several seconds.
/// Losses are found much earlier, by later packets and by probes.
impl Default for RetryConfig {
    fn default() -> Self {
        Self { timeout: 14, linear: 7, exponential: 7 }
    }
}

/// Longest timer interval: 1.024 us * 2^24.
pub(crate) const TIMER_CEILING_NS: u64 = 1_024 << 24;

impl RetryConfig {
    /// T0 in nanoseconds; `None` when the timer is disabled.
    //= QP-006
    pub const fn t0_ns(&self) -> Option<u64> {
        if self.timeout == 0 {
            None
        } else {
            Some(1_024u64.wrapping_shl(if self.timeout > 24 { 24 } else { self.timeout as u32 }))
        }
    }

    /// Interval of a timer armed after `n` retries.
    //= TIMER-002
    pub const fn interval_ns(&self, n: u8) -> u64 {
        let Some(t0) = self.t0_ns() else { return u64::MAX };
        if n < self.linear {
            return t0;
        }
        let doublings = n.saturating_sub(self.linear) as u32;
        let scaled = if doublings >= 24 { TIMER_CEILING_NS } else { (t0 << 1).wrapping_shl(doublings) };
        if scaled > TIMER_CEILING_NS { TIMER_CEILING_NS } else { scaled }
    }

    /// The same number of retries, of which the first exponential one waits T0 and not twice as long. A linear retry more and an
    /// exponential one less are just that.
    #[must_use]
    pub const fn doubling_from_t0(self) -> Self {
        match self.exponential {
            0 => self,
            25.. => Self { linear: self.linear.saturating_add(1), ..self },
            n => Self { linear: self.linear.saturating_add(1), exponential: n.saturating_sub(1), ..self },
        }
    }

    /// Whether `n` retries exceed the budget.
    //= QP-007, RETRY-003
    pub const fn exhausted(&self, n: u8) -> bool {
        self.exponential < 25 && n as u16 > (self.linear as u16).wrapping_add(self.exponential as u16)
    }

    /// With as many more retries as it takes to tolerate a silence of `ns` nanoseconds.
    #[must_use]
    pub fn at_least(self, ns: u64) -> Self {
        let mut config = self;
        while config.exponential < 25 && config.budget_ns().is_some_and(|budget| budget < ns) {
            config.exponential = config.exponential.saturating_add(1);
        }
        config
    }

    /// Longest silence the budget tolerates before the QP fails, in nanoseconds; `None` = for ever. It is also the longest
    /// time that a QP with work waits while no port leads to its peer.
    pub fn budget_ns(&self) -> Option<u64> {
        if self.exponential >= 25 || self.timeout == 0 {
            return None;
        }
        let mut total = 0u64;
        for n in 0..=self.linear.saturating_add(self.exponential) {
            total = total.saturating_add(self.interval_ns(n));
        }
        Some(total)
    }
}

crate::image::stored!(struct RetryConfig { timeout, linear, exponential });

#[cfg(test)]
mod tests {
    use super::*;

    //= TIMER-002 test
    #[test]
    fn intervals_are_linear_then_double_to_the_ceiling() {
        let retry = RetryConfig { timeout: 8, linear: 2, exponential: 25 };
        let t0 = 1_024 << 8;
        let want = [t0, t0, 2 * t0, 4 * t0, 8 * t0];
        for (n, want) in want.into_iter().enumerate() {
            assert_eq!(retry.interval_ns(n as u8), want, "n = {n}");
        }
        assert_eq!(retry.interval_ns(16), TIMER_CEILING_NS / 2);
        assert!((17..=255).all(|n| retry.interval_ns(n) == TIMER_CEILING_NS));
        assert!(!retry.exhausted(255));
    }

    //= TIMER-002 test
    #[test]
    fn the_other_formula_doubles_one_retry_later() {
        let retry = RetryConfig { timeout: 8, linear: 2, exponential: 3 };
        let t0 = 1_024 << 8;
        let other = retry.doubling_from_t0();
        assert_eq!([0, 1, 2, 3, 4].map(|n| other.interval_ns(n)), [t0, t0, t0, 2 * t0, 4 * t0]);
        assert_eq!((other.exhausted(5), other.exhausted(6)), (retry.exhausted(5), retry.exhausted(6)));
        let unlimited = RetryConfig { exponential: 25, ..retry }.doubling_from_t0();
        assert!(!unlimited.exhausted(255));
        assert_eq!([0, 1, 2, 3, 4].map(|n| unlimited.interval_ns(n)), [t0, t0, t0, 2 * t0, 4 * t0]);
        assert_eq!(RetryConfig { exponential: 0, ..retry }.doubling_from_t0().exponential, 0);
    }

    //= QP-007 test
    #[test]
    fn budget_is_the_sum_of_the_intervals() {
        let retry = RetryConfig { timeout: 10, linear: 1, exponential: 1 };
        let t0 = 1_024 << 10;
        assert_eq!(retry.budget_ns(), Some(t0 + 2 * t0 + 4 * t0));
        assert!(!retry.exhausted(2));
        assert!(retry.exhausted(3));
    }

    #[test]
    fn a_lower_bound_adds_retries_alone() {
        let retry = RetryConfig { timeout: 14, linear: 7, exponential: 3 };
        assert_eq!(retry.at_least(500_000_000), retry);
        let longer = retry.at_least(5_000_000_000);
        assert_eq!(longer, RetryConfig { exponential: 7, ..retry });
        assert_eq!(longer, RetryConfig::default());
        assert!((8_600_000_000..8_700_000_000).contains(&longer.budget_ns().unwrap()));
        // A queue pair tolerates a silence as long as its budget, and fails in a longer one.
        let budget = retry.budget_ns().unwrap();
        assert_eq!(retry.at_least(budget), retry);
        assert_eq!(retry.at_least(budget + 1), RetryConfig { exponential: 4, ..retry });
        assert_eq!(retry.at_least(u64::MAX).budget_ns(), None);
    }

    //= QP-006 test
    #[test]
    fn a_zero_exponent_disables_the_timer() {
        let retry = RetryConfig { timeout: 0, linear: 7, exponential: 7 };
        assert_eq!(retry.t0_ns(), None);
        assert_eq!(retry.interval_ns(3), u64::MAX);
        // The longest interval is that of the exponent 24, and greater ones mean no more.
        for timeout in [24, 25, 63, 64, 255] {
            assert_eq!(RetryConfig { timeout, ..retry }.t0_ns(), Some(1_024 << 24), "{timeout}");
        }
    }
}
