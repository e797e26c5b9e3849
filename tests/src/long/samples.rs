//! What the process held over the time, and whether that is flat.
//!
//! The rule: of the samples in the order in which they were taken, the first fifth is warm-up; the mean of the last
//! fifth may be above the mean of the second fifth by no more than a small share, or a small number. (A mean, since
//! memory moves up and down with each reload. A number, since malloc keeps gaps: of a thousand reloads with compiling,
//! about 1 MiB is left, although the live allocations are as many as before.)

use std::time::Duration;

use anyhow::{Result, bail};

use crate::measure::process::Usage;
use crate::measure::table::Table;

/// Fewer samples say nothing.
const ENOUGH: usize = 50;

/// Rows of the table that is shown.
const ROWS: usize = 25;

/// One moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Since the first event.
    pub at: Duration,
    /// Changes made so far.
    pub written: u64,
    /// Reloads done so far.
    pub reloads: u64,
    /// What the process held.
    pub usage: Usage,
}

/// Something that must be flat.
struct Quantity {
    name: &'static str,
    of: fn(&Usage) -> u64,
    /// How much more it may be at the end: the larger of a share of it and a number.
    share: f64,
    more: f64,
}

const QUANTITIES: [Quantity; 6] = [
    Quantity { name: "anonymous memory (KiB)", of: |usage| usage.anonymous, share: 0.05, more: 4096.0 },
    Quantity { name: "resident memory (KiB)", of: |usage| usage.resident, share: 0.05, more: 4096.0 },
    Quantity { name: "threads", of: |usage| usage.threads, share: 0.0, more: 2.0 },
    Quantity { name: "descriptors", of: |usage| usage.descriptors, share: 0.0, more: 3.0 },
    Quantity { name: "mappings", of: |usage| usage.mappings, share: 0.05, more: 20.0 },
    Quantity { name: "inotify watches", of: |usage| usage.watches, share: 0.0, more: 3.0 },
];

/// The samples of a run.
#[derive(Debug, Default)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Each quantity's two means, and whether it is flat.
    ///
    /// # Errors
    /// The quantities that are not flat, with their numbers; or that there are too few samples to say.
    pub fn check(&self) -> Result<Vec<String>> {
        if self.0.len() < ENOUGH {
            bail!(
                "{} samples are too few to say whether anything is flat: make the run larger",
                self.0.len()
            );
        }
        let fifth = self.0.len() / 5;
        let (mut flat, mut rising) = (Vec::new(), Vec::new());
        for quantity in &QUANTITIES {
            let mean = |samples: &[Sample]| {
                samples.iter().map(|sample| (quantity.of)(&sample.usage) as f64).sum::<f64>()
                    / samples.len() as f64
            };
            let (early, late) = (mean(&self.0[fifth..2 * fifth]), mean(&self.0[self.0.len() - fifth..]));
            let most = early + (early * quantity.share).max(quantity.more);
            let line = format!(
                "{}: {early:.1} in the second fifth, {late:.1} in the last, at most {most:.1}",
                quantity.name
            );
            if late <= most { flat.push(line) } else { rising.push(line) }
        }
        if rising.is_empty() { Ok(flat) } else { bail!("not flat: {}", rising.join("; ")) }
    }

    /// A row now and then, the last one included.
    pub fn table(&self) -> Table {
        let head = [
            "s", "changes", "reloads", "anon KiB", "RSS KiB", "VSZ MiB", "threads", "fds", "maps", "watches",
        ];
        let mut table = Table::new(&head);
        let step = self.0.len().div_ceil(ROWS).max(1);
        let every = self.0.iter().rev().step_by(step).collect::<Vec<_>>();
        for Sample { at, written, reloads, usage } in every.into_iter().rev() {
            let numbers = [
                at.as_secs(),
                *written,
                *reloads,
                usage.anonymous,
                usage.resident,
                usage.address_space >> 10,
                usage.threads,
                usage.descriptors,
                usage.mappings,
                usage.watches,
            ];
            table.row(numbers.map(|number| number.to_string()).to_vec());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples whose usage is made from their number.
    fn samples(count: u64, usage: impl Fn(u64) -> Usage) -> Samples {
        let sample = |number| Sample {
            at: Duration::from_secs(number),
            written: number * 10,
            reloads: number,
            usage: usage(number),
        };
        Samples((0..count).map(sample).collect())
    }

    fn flat() -> Usage {
        Usage {
            anonymous: 20_000,
            resident: 60_000,
            threads: 12,
            descriptors: 20,
            mappings: 300,
            ..Usage::default()
        }
    }

    #[test]
    fn the_warm_up_does_not_count_and_noise_is_no_growth() {
        let noisy = |number: u64| Usage {
            anonymous: if number < 20 { 1000 } else { 20_000 + number * 7919 % 3000 },
            ..flat()
        };
        assert_eq!(samples(100, noisy).check().expect("flat").len(), 6);
    }

    #[test]
    fn what_grows_is_named_with_its_numbers() {
        // 20 to 39 are the second fifth, 80 to 99 the last.
        let leak = |usage: fn(u64) -> Usage| samples(100, usage).check().expect_err("a leak").to_string();
        assert_eq!(
            leak(|number| Usage { anonymous: 20_000 + number * 100, ..flat() }),
            "not flat: anonymous memory (KiB): 22950.0 in the second fifth, 28950.0 in the last, at most 27046.0"
        );
        assert_eq!(
            leak(|number| Usage { threads: 12 + number, ..flat() }),
            "not flat: threads: 41.5 in the second fifth, 101.5 in the last, at most 43.5"
        );
        assert_eq!(
            leak(|number| Usage { watches: 2 + number, ..flat() }),
            "not flat: inotify watches: 31.5 in the second fifth, 91.5 in the last, at most 34.5"
        );
        assert_eq!(
            leak(|number| Usage { descriptors: 20 + number, mappings: 300 + number, ..flat() }),
            "not flat: descriptors: 49.5 in the second fifth, 109.5 in the last, at most 52.5; \
             mappings: 329.5 in the second fifth, 389.5 in the last, at most 349.5"
        );
    }

    #[test]
    fn a_short_run_proves_nothing_and_its_table_ends_with_the_last_sample() {
        let short = samples(49, |_| flat());
        assert!(short.check().is_err());
        let table = short.table().to_string();
        assert!(table.trim_end().lines().last().is_some_and(|line| line.contains(" 480 ")), "{table}");
        assert_eq!(table.lines().count(), 2 + 25);
    }
}
