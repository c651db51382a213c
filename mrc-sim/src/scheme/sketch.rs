//! A count-min sketch: how often something was seen, in little memory, never too low.
//! Source: Cormode and Muthukrishnan, "An improved data stream summary"; its use here is Reunion's section 3.2.

use super::ip;

/// Rows of counters; each row has a hash of its own.
pub(super) struct Sketch {
    rows: usize,
    columns: usize,
    counts: Vec<u32>,
}

impl Sketch {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns, counts: vec![0; rows * columns] }
    }

    fn place(&self, row: usize, key: u64) -> usize {
        let salt = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        row * self.columns + (ip::mix(key.wrapping_add(salt)) % self.columns as u64) as usize
    }

    /// Counts one more of `key` and returns how many there were, at most too many by what shared all its counters.
    pub(super) fn add(&mut self, key: u64) -> u32 {
        let mut least = u32::MAX;
        for row in 0..self.rows {
            let place = self.place(row, key);
            self.counts[place] = self.counts[place].saturating_add(1);
            least = least.min(self.counts[place]);
        }
        least
    }

    #[cfg(test)]
    fn estimate(&self, key: u64) -> u32 {
        (0..self.rows).map(|row| self.counts[self.place(row, key)]).min().unwrap_or(0)
    }

    /// Bytes of its counters.
    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * size_of::<u32>()
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `columns = e / epsilon` and `rows = ln(1 / delta)` an estimate is never too low, and too high by more than
    /// `epsilon` of all counts with probability below `delta`.
    #[test]
    fn estimates_keep_the_bounds_of_the_sketch() {
        for (rows, columns) in [(7, 2000), (3, 200), (2, 50)] {
            let mut sketch = Sketch::new(rows, columns);
            let count = |key: u64| 1 + (ip::mix(key) % 40) as u32 * u32::from(key.is_multiple_of(50)) * 20;
            let keys = 20_000u64;
            let total: u64 = (0..keys).map(|key| u64::from(count(key))).sum();
            for key in 0..keys {
                for _ in 0..count(key) {
                    // What the scheme goes by is what `add` returns.
                    let added = sketch.add(key);
                    assert_eq!(added, sketch.estimate(key));
                }
            }
            let bound = (total as f64 * std::f64::consts::E / columns as f64).ceil() as u32;
            let mut over = 0;
            for key in 0..keys {
                let estimate = sketch.estimate(key);
                assert!(estimate >= count(key), "{key}: never too low");
                over += u64::from(estimate - count(key) > bound);
            }
            let delta = (-(rows as f64)).exp();
            assert!((over as f64) <= delta * keys as f64, "{rows} x {columns}: {over} of {keys} above {bound}");
        }
    }

    #[test]
    fn a_cleared_sketch_begins_anew() {
        let mut sketch = Sketch::new(7, 2000);
        assert_eq!([sketch.add(5), sketch.add(5), sketch.add(9)], [1, 2, 1]);
        sketch.clear();
        assert_eq!((sketch.add(5), sketch.estimate(9)), (1, 0));
    }
}
