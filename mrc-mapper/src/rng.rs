//! SplitMix64: random numbers that are equal on every machine.

/// A generator.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

/// The finaliser of SplitMix64: every input bit changes every output bit with probability one half.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[0, bound)`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform between the logarithms of two positive bounds.
    pub(crate) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + self.unit() * (high / low).ln()).exp()
    }

    /// Exponentially distributed with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Successes among `trials`, each with `probability`: skips from success to success.
    pub(crate) fn binomial(&mut self, trials: u64, probability: f64) -> u64 {
        if probability <= 0.0 || trials == 0 {
            return 0;
        }
        if probability >= 1.0 {
            return trials;
        }
        if probability > 0.5 {
            return trials - self.binomial(trials, 1.0 - probability);
        }
        let (scale, mut at, mut successes) = (1.0 / (-probability).ln_1p(), 0u64, 0u64);
        loop {
            let skip = ((1.0 - self.unit()).ln() * scale) as u64;
            at = at.saturating_add(skip).saturating_add(1);
            if at > trials {
                return successes;
            }
            successes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn binomial_has_its_mean_and_variance() {
        let mut rng = Rng::new(1);
        for (trials, probability) in [(100u64, 0.02), (1000, 0.3), (50, 0.9), (7, 1.0), (7, 0.0)] {
            let draws: Vec<f64> = (0..20_000).map(|_| rng.binomial(trials, probability) as f64).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            let (expected, spread) = (trials as f64 * probability, trials as f64 * probability * (1.0 - probability));
            assert!(
                (mean - expected).abs() <= 6.0 * (spread / 20_000.0).sqrt() + 1e-9,
                "{trials} {probability} {mean}"
            );
            assert!((variance - spread).abs() <= 0.06 * spread + 1e-9, "{trials} {probability} {variance}");
        }
    }
}
