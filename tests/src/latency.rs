//! How long a good plugin's deliveries took beside one that misbehaves, and the table that is printed of it.
//!
//! Used by the suites of hostile guests. Invariant: nothing is asserted of a time; the numbers are for people.

use std::fmt::Write;
use std::time::Duration;

/// What was measured while one guest had its turn.
pub struct Row {
    /// Its name.
    pub guest: String,
    /// What the host made of the guest.
    pub outcome: &'static str,
    /// From the write at the API server to the end of the good plugin's attempt, sorted.
    took: Vec<Duration>,
    /// Answers of the admin port.
    pub answers: usize,
    /// How long the slowest of them took.
    pub slowest: Duration,
}

impl Row {
    /// From what was measured, in any order.
    pub fn new(
        guest: &str,
        outcome: &'static str,
        mut took: Vec<Duration>,
        (answers, slowest): (usize, Duration),
    ) -> Self {
        took.sort();
        Self { guest: guest.to_owned(), outcome, took, answers, slowest }
    }

    /// The value that so many of a hundred do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.took, percent)
    }

    fn line(&self) -> String {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        format!(
            "{:<30} {:<9} {:>6} {:>8.2} {:>8.2} {:>8.2} {:>7} {:>9.2}\n",
            self.guest,
            self.outcome,
            self.took.len(),
            millis(self.percentile(50)),
            millis(self.percentile(99)),
            millis(self.percentile(100)),
            self.answers,
            millis(self.slowest),
        )
    }
}

/// The value that so many of a hundred do not exceed, of some in their order.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The rows for people: times in milliseconds.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "The good plugin's deliveries, from the write at the API server to the end of the attempt, in milliseconds,\n\
         while the guest named has its turn; and the admin port's answers meanwhile.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<30} {:<9} {:>6} {:>8} {:>8} {:>8} {:>7} {:>9}",
        "guest", "outcome", "events", "p50", "p99", "most", "answers", "slowest"
    );
    text.extend(rows.iter().map(Row::line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let took = (1..=200).rev().map(Duration::from_millis).collect();
        let row = Row::new("a", "trap", took, (3, Duration::ZERO));
        let at = [1, 50, 99, 100].map(|percent| row.percentile(percent).as_millis());
        assert_eq!(at, [2, 100, 198, 200]);
        assert_eq!(Row::new("none", "ok", Vec::new(), (0, Duration::ZERO)).percentile(50), Duration::ZERO);
    }
}
