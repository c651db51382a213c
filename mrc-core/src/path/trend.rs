//! A straight line through round trips: least squares in integers, to say what the last packet under way will measure.
//! Knows nothing of paths. Source: Hopper, section 3.3 and figure 1.

use mrc_wire::Psn;

use crate::num::Counter;

/// Samples after which all sums are halved: older ones then count half, and nothing can overflow.
const HALVE_AT: u32 = 256;
/// Widest PSN distance of a sample from the first one; the widest window there is.
const MAX_X: i32 = 128 * 128;
/// Largest deviation of a round trip from the first one, in units of 16 ns: 67 ms.
const MAX_Y: i64 = 1 << 22;
/// Round trips are counted in units of 16 ns.
const UNIT_SHIFT: u32 = 4;
/// Fractional bits of the slope.
const SLOPE_BITS: u32 = 8;

/// Sums of a regression of round trip over PSN. With at most 256 samples, x < 2^14 and |y| <= 2^22, every product
/// below stays within 2^60.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trend {
    first: Psn,
    /// First round trip, in nanoseconds.
    origin_ns: u32,
    n: u32,
    /// PSN distance from the first sample to the newest packet sent.
    newest: u32,
    sum_x: u32,
    sum_y: i64,
    sum_xx: u64,
    sum_xy: i64,
}

impl Trend {
    pub(super) const EMPTY: Self =
        Self { first: Psn::new(0), origin_ns: 0, n: 0, newest: 0, sum_x: 0, sum_y: 0, sum_xx: 0, sum_xy: 0 };

    /// Adds the round trip of packet `psn`, after which `behind` packets had left. A packet older than the first sample
    /// (a retransmission) tells nothing about the trend and is passed over.
    pub(super) fn add(&mut self, psn: Psn, rtt_ns: u32, behind: u16) {
        if self.n == 0 {
            *self = Self { first: psn, origin_ns: rtt_ns, ..Self::EMPTY };
        }
        let x = psn.diff(self.first);
        if !(0..MAX_X).contains(&x) {
            return;
        }
        if self.n >= HALVE_AT {
            self.n >>= 1;
            self.sum_x >>= 1;
            self.sum_y >>= 1;
            self.sum_xx >>= 1;
            self.sum_xy >>= 1;
        }
        let x = x.unsigned_abs();
        let y = (i64::from(rtt_ns).wrapping_sub(self.origin_ns.into()) >> UNIT_SHIFT).min(MAX_Y).max(-MAX_Y);
        self.n.inc();
        self.newest = x.wrapping_add(behind.into());
        // `HALVE_AT` samples below `MAX_X` and `MAX_Y`: no sum leaves its type.
        self.sum_x.inc_by(x);
        self.sum_y = self.sum_y.wrapping_add(y);
        self.sum_xx.inc_by(u64::from(x).wrapping_mul(x.into()));
        self.sum_xy = self.sum_xy.wrapping_add(i64::from(x).wrapping_mul(y));
    }

    /// The round trip, in nanoseconds, that the line gives for the newest packet sent; `None` before two samples at
    /// different PSNs.
    //= HOP-010
    pub(super) fn of_newest(&self) -> Option<u32> {
        let n = i64::from(self.n);
        let sum_x = i64::from(self.sum_x);
        let minus = |a: (i64, i64), b: (i64, i64)| a.0.wrapping_mul(a.1).wrapping_sub(b.0.wrapping_mul(b.1));
        let spread = minus((n, self.sum_xx as i64), (sum_x, sum_x));
        // Without samples, too.
        if spread <= 0 {
            return None;
        }
        let covariance = minus((n, self.sum_xy), (sum_x, self.sum_y));
        let slope = (covariance << SLOPE_BITS).checked_div(spread)?;
        // Deviation of the newest packet from the mean PSN, times n to stay exact.
        let ahead = minus((n, self.newest.into()), (sum_x, 1));
        let rise = (slope.saturating_mul(ahead) >> SLOPE_BITS).checked_div(n)?;
        let y = self.sum_y.checked_div(n)?.saturating_add(rise);
        let ns = i64::from(self.origin_ns).saturating_add(y.saturating_mul(1 << UNIT_SHIFT));
        Some(u32::try_from(ns.max(0)).unwrap_or(u32::MAX))
    }
}

crate::image::stored!(struct Trend { first, origin_ns, n, newest, sum_x, sum_y, sum_xx, sum_xy });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn line(points: &[(u32, u32)], behind: u16) -> Option<u32> {
        let mut trend = Trend::EMPTY;
        for &(psn, rtt_ns) in points {
            trend.add(Psn::new(psn), rtt_ns, behind);
        }
        trend.of_newest()
    }

    //= HOP-010 test
    #[test]
    fn a_rising_line_is_continued_to_the_last_packet_in_flight() {
        // 160 ns per packet, ten packets under way behind the last sample.
        let points = [(100, 16_000), (104, 16_640), (108, 17_280)];
        assert_eq!(line(&points, 10), Some(17_280 + 10 * 160));
        assert_eq!(line(&points, 0), Some(17_280));
        // Flat and falling lines.
        assert_eq!(line(&[(5, 8_000), (6, 8_000), (7, 8_000)], 50), Some(8_000));
        assert_eq!(line(&[(5, 8_000), (6, 7_840)], 100), Some(0), "never negative");
    }

    /// Round trips are counted from the first one: what is far above the largest deviation is told all the same.
    #[test]
    fn long_round_trips_have_a_line() {
        let points = [(100, 400_000_000), (104, 400_000_640), (108, 400_001_280)];
        assert_eq!(line(&points, 10), Some(400_001_280 + 10 * 160));
    }

    #[test]
    fn long_epochs_keep_to_the_line() {
        // The sums are halved at 256 samples, and again at 384, 512 and so on.
        let points: Vec<(u32, u32)> = (0..900).map(|n| (n, 10_000 + 160 * n)).collect();
        for n in (200..=900).step_by(5) {
            let got = line(&points[..n], 10).unwrap();
            assert!(got.abs_diff(10_000 + 160 * (n as u32 + 9)) < 1_000, "{got} after {n} samples");
        }
    }

    #[test]
    fn one_sample_or_one_psn_makes_no_line() {
        assert_eq!(line(&[], 3), None);
        assert_eq!(line(&[(7, 9_000)], 3), None);
        assert_eq!(line(&[(7, 9_000), (7, 9_500)], 3), None);
    }

    #[test]
    fn the_psn_wrap_and_retransmissions_do_no_harm() {
        let wrap = [(0xFF_FFFE, 16_000), (0, 16_320), (2, 16_640)];
        assert_eq!(line(&wrap, 4), Some(16_640 + 4 * 160));
        let old = [(100, 16_000), (40, 900_000), (104, 16_640)];
        assert_eq!(line(&old, 0), Some(16_640));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Against the textbook in floating point.
        #[test]
        fn agrees_with_the_textbook(
            steps in prop::collection::vec((1u32..64, 0u32..1 << 25), 2..200),
            behind in 0u16..2_000,
        ) {
            let mut psn = 0;
            let points: Vec<(u32, u32)> = steps.iter().map(|&(step, rtt)| { psn += step; (psn, 1_000 + rtt) }).collect();
            let n = points.len() as f64;
            let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + f64::from(p.0) / n, y + f64::from(p.1) / n));
            let sxx: f64 = points.iter().map(|p| (f64::from(p.0) - mx).powi(2)).sum();
            let sxy: f64 = points.iter().map(|p| (f64::from(p.0) - mx) * (f64::from(p.1) - my)).sum();
            let last = f64::from(points[points.len() - 1].0) + f64::from(behind);
            let want = (my + sxy / sxx * (last - mx)).clamp(0.0, f64::from(u32::MAX));
            let got = f64::from(line(&points, behind).unwrap());
            // Samples are cut to 16 ns and the slope to 1/256 of that per packet.
            let slack = 34.0 + (last - mx).abs() * (16.0 * (n / sxx).sqrt() + 0.1);
            prop_assert!((got - want).abs() <= slack, "got {got}, textbook {want}");
        }

        /// Nothing overflows, whatever comes.
        #[test]
        fn any_samples_are_survived(samples in prop::collection::vec((0u32..1 << 24, any::<u32>(), any::<u16>()), 0..600)) {
            let mut trend = Trend::EMPTY;
            for (psn, rtt_ns, behind) in samples {
                trend.add(Psn::new(psn), rtt_ns, behind);
                let _ = trend.of_newest();
            }
        }
    }
}
