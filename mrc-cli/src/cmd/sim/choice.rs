//! Which points of a sweep run: all, one, those with certain labels, a part of them.

use anyhow::{Context, anyhow, ensure};

use super::sweep::{Args, Manifest, Point};

/// A choice among the points of a sweep; by default all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Choice {
    only: Option<usize>,
    /// Labels by axis; `seed` is an axis too.
    wanted: Vec<(String, Vec<String>)>,
    /// Every second number-th point, from the first number on.
    part: Option<(usize, usize)>,
}

impl Choice {
    /// That of a command line.
    ///
    /// # Errors
    /// What is written wrongly.
    pub fn of(args: &Args) -> anyhow::Result<Self> {
        let (only, wanted, part) = args.chosen();
        let labels = |text: &String| {
            let (axis, labels) = text
                .split_once('=')
                .with_context(|| format!("--where {text}: write AXIS=LABEL,LABEL, such as load=50,80 or seed=1"))?;
            Ok((axis.to_owned(), labels.split(',').map(str::to_owned).collect()))
        };
        let fraction = |text: &String| {
            let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
            numbers.filter(|(k, n)| k < n).ok_or_else(|| anyhow!("--part {text}: write K/N, K from 0 to N-1"))
        };
        let wanted: Vec<(String, Vec<String>)> = wanted.iter().map(labels).collect::<anyhow::Result<_>>()?;
        let known = |nth: usize| wanted[..nth].iter().any(|(axis, _)| *axis == wanted[nth].0);
        if let Some((axis, labels)) = (0..wanted.len()).find(|nth| known(*nth)).map(|nth| &wanted[nth]) {
            // No point has two labels of one axis.
            return Err(anyhow!(
                "--where {axis}={}: {axis} is there twice: one list, as in {axis}=A,B",
                labels.join(",")
            ));
        }
        Ok(Self { only, wanted, part: part.map(fraction).transpose()? })
    }

    /// One point, by its number.
    #[cfg(test)]
    pub const fn only(nth: usize) -> Self {
        Self { only: Some(nth), wanted: Vec::new(), part: None }
    }

    /// Numbers of the points, in their order.
    ///
    /// # Errors
    /// An axis or a label that no point has, or a number that there is not.
    pub fn points(&self, sweep: &Manifest) -> anyhow::Result<Vec<usize>> {
        if let Some(nth) = self.only {
            let last = sweep.points.len() - 1;
            ensure!(nth <= last, "--only {nth}: the sweep has points 0 to {last}");
            return Ok(vec![nth]);
        }
        for (axis, labels) in &self.wanted {
            let axes = || format!("{}, seed", sweep.axes.join(", "));
            ensure!(axis == "seed" || sweep.axes.contains(axis), "--where {axis}: the axes are {}", axes());
            let known: Vec<String> = sweep.points.iter().filter_map(|point| label(point, axis)).collect();
            if let Some(wrong) = labels.iter().find(|label| !known.contains(label)) {
                let mut known = known;
                let mut seen = std::collections::HashSet::new();
                known.retain(|label| seen.insert(label.clone()));
                ensure!(
                    !known.is_empty(),
                    "--where {axis}={wrong}: the sweep has no seeds: its points have the scenario's own"
                );
                return Err(anyhow!("--where {axis}={wrong}: labels of {axis} are {}", known.join(", ")));
            }
        }
        let fits = |point: &Point| {
            self.wanted.iter().all(|(axis, labels)| label(point, axis).is_some_and(|label| labels.contains(&label)))
        };
        let chosen = sweep.points.iter().enumerate().filter(|(_, point)| fits(point)).map(|(nth, _)| nth);
        let (first, step) = self.part.unwrap_or((0, 1));
        Ok(chosen.skip(first).step_by(step).collect())
    }
}

/// The label of a point on an axis.
fn label(point: &Point, axis: &str) -> Option<String> {
    match axis {
        "seed" if !point.at.contains_key("seed") => point.seed.map(|seed| seed.to_string()),
        _ => point.at.get(axis).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep() -> Manifest {
        let point = |seed: u64, load: &str| Point {
            name: format!("{load}-seed{seed}"),
            at: [("load".to_owned(), load.to_owned())].into(),
            seed: Some(seed),
            set: Vec::new(),
        };
        let points = [1, 2, 3].into_iter().flat_map(|seed| ["50", "80"].map(|load| point(seed, load))).collect();
        Manifest { axes: vec!["load".to_owned()], points, ..Manifest::default() }
    }

    fn choice(wanted: &[(&str, &[&str])], part: Option<(usize, usize)>) -> Choice {
        let own = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
        let wanted = wanted.iter().map(|(axis, labels)| ((*axis).to_owned(), own(labels))).collect();
        Choice { only: None, wanted, part }
    }

    #[test]
    fn labels_and_parts_choose_points_and_the_parts_are_all() {
        let sweep = sweep();
        let of = |choice: Choice| choice.points(&sweep).unwrap();
        assert_eq!(of(Choice::default()), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(choice(&[("load", &["80"])], None)), [1, 3, 5]);
        assert_eq!(of(choice(&[("load", &["80"]), ("seed", &["1", "3"])], None)), [1, 5]);
        let mut all: Vec<usize> = (0..4).flat_map(|nth| of(choice(&[], Some((nth, 4))))).collect();
        assert_eq!(of(choice(&[], Some((1, 4)))), [1, 5]);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(Choice::only(4)), [4]);
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is() {
        let sweep = sweep();
        let wrong = |choice: Choice| choice.points(&sweep).unwrap_err().to_string();
        assert_eq!(wrong(choice(&[("lode", &["80"])], None)), "--where lode: the axes are load, seed");
        assert_eq!(wrong(choice(&[("load", &["90"])], None)), "--where load=90: labels of load are 50, 80");
        assert!(wrong(Choice::only(6)).contains("points 0 to 5"));
        let mut seedless = sweep.clone();
        seedless.points.iter_mut().for_each(|point| point.seed = None);
        let error = choice(&[("seed", &["9"])], None).points(&seedless).unwrap_err().to_string();
        assert_eq!(error, "--where seed=9: the sweep has no seeds: its points have the scenario's own");
    }
}
