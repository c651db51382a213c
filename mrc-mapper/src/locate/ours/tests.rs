//! Fits beside the likelihood as the head of the module has it, path by path.

use super::*;
use crate::locate::tests::{expected, losing, matrix};

/// By how much a suspect of this weight makes the losses more likely.
fn plain_gain(search: &Search<'_>, suspect: &Suspect, weight: f64) -> f64 {
    let gained = suspect.passed.iter().map(|&(at, times)| {
        let path = &search.lossy[at as usize];
        path.lost * (ln_lost(path.weight + f64::from(times) * weight) - ln_lost(path.weight))
    });
    gained.sum::<f64>() - suspect.healthy * weight
}

/// For every suspect, before and after another one is chosen: the weight found is the best one, its gain is that of the sum
/// over paths, and where no weight is found none gains what a suspect must.
#[test]
fn a_fit_is_the_most_likely_weight() {
    let (matrix, config) = (matrix(), OursConfig::default());
    for share in [0.01, 0.2, 0.9] {
        let mut counts = expected(&matrix, &losing(&matrix, &["p0-t0a", "p1-t1b", "p1-hC"], share), 1_000.0);
        counts.lost_congested = counts.lost.iter().step_by(3).map(|(path, lost)| (*path, lost / 2)).collect();
        let mut search = Search::new(config, &matrix, &counts);
        let (mut room, mut fitted, mut idle) = (Room::default(), 0, 0);
        for _ in 0..3 {
            for suspect in &search.suspects {
                let fit = search.fit(suspect, &mut room);
                let gain = |weight| plain_gain(&search, suspect, weight);
                let best = (-80..30).map(|n| gain(1.2f64.powi(n).min(HEAVIEST))).fold(0.0, f64::max);
                if fit.gain > 0.0 {
                    assert!((fit.gain - gain(fit.weight)).abs() < 1e-6 * fit.gain.max(1.0), "{}", suspect.component);
                    assert!(fit.gain > best - 1e-6 * best.max(1.0), "{}: {} of {best}", suspect.component, fit.gain);
                    fitted += 1;
                } else {
                    assert!(best < config.likely_penalty, "{}: nothing of {best}", suspect.component);
                    idle += 1;
                }
            }
            let fits = search.fits(|_| true);
            if let Some((suspect, fit)) = search.best(&fits) {
                search.apply(suspect, fit.weight);
            }
        }
        assert!(fitted > 20 && idle > 20, "{fitted} and {idle}");
    }
}
