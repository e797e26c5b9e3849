//! A strict reader of the Prometheus text format: what it takes, every scraper takes.
//!
//! Used by the suites that look at `/metrics`. Stricter than Prometheus itself: each family has HELP, TYPE and
//! samples in one block, counters end in `_total` and nothing else does, histograms add up.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, bail, ensure};

/// Labels of one series, sorted.
type Labels = BTreeMap<String, String>;

/// The samples of one scrape.
#[derive(Debug)]
pub struct Scrape {
    types: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

impl Scrape {
    /// Reads a whole text.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn parse(text: &str) -> Result<Self> {
        ensure!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        let mut scrape = Self { types: BTreeMap::new(), samples: Vec::new() };
        let mut seen = HashSet::new();
        let mut lines = text.lines().peekable();
        while let Some(help) = lines.next() {
            let name = family(help, lines.next().unwrap_or_default(), &mut scrape.types)?;
            let mut block = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let sample = sample(line).with_context(|| line.to_owned())?;
                ensure!(seen.insert((sample.name.clone(), sample.labels.clone())), "{line}: a series twice");
                block.push(sample);
            }
            check_block(name, &scrape.types[name], &block).with_context(|| name.to_owned())?;
            scrape.samples.extend(block);
        }
        Ok(scrape)
    }

    /// The value of the one series with this name whose labels include these.
    ///
    /// # Panics
    /// If there is more than one.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.matching(name, labels);
        let first = found.next()?;
        assert!(found.next().is_none(), "more than one {name} with {labels:?}");
        Some(first.value)
    }

    /// The sum over all series with this name whose labels include these; none if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels).map(|sample| sample.value).reduce(|a, b| a + b)
    }

    /// The families there are, with their types.
    pub fn families(&self) -> &BTreeMap<String, String> {
        &self.types
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The values of a label, over all series.
    pub fn values_of(&self, label: &str) -> HashSet<&str> {
        self.samples.iter().filter_map(|sample| sample.labels.get(label).map(String::as_str)).collect()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|found| found == value))
        };
        self.samples.iter().filter(move |sample| sample.name == name && has(sample))
    }
}

/// The two head lines of a family.
fn family<'a>(help: &'a str, kind: &str, types: &mut BTreeMap<String, String>) -> Result<&'a str> {
    let (name, text) = help
        .strip_prefix("# HELP ")
        .and_then(|rest| rest.split_once(' '))
        .with_context(|| format!("{help}: not a HELP line"))?;
    ensure!(is_name(name) && !text.trim().is_empty() && !text.contains('\\'), "{help}: not a good HELP line");
    let kind = kind
        .strip_prefix("# TYPE ")
        .and_then(|rest| rest.strip_prefix(name)?.strip_prefix(' '))
        .with_context(|| format!("{kind}: not the TYPE line of {name}"))?;
    ensure!(matches!(kind, "counter" | "gauge" | "histogram" | "summary"), "{name}: unknown type {kind}");
    ensure!((kind == "counter") == name.ends_with("_total"), "{name}: a {kind} has no such name");
    ensure!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name}: HELP and TYPE twice");
    Ok(name)
}

fn sample(line: &str) -> Result<Sample> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, rest) = line.split_at(end);
    ensure!(is_name(name), "not a name");
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = value.strip_prefix(' ').context("no space before the value")?;
    let value = value.parse().with_context(|| format!("{value:?} is no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// `a="b",c="d"} 1`: the labels, and what follows the brace.
fn labels(mut rest: &str) -> Result<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").context("no label")?;
        ensure!(
            is_name(name) && !name.contains(':') && !name.starts_with("__"),
            "{name:?} is no label's name"
        );
        let (value, after) = label_value(after)?;
        ensure!(labels.insert(name.to_owned(), value).is_none(), "label {name} twice");
        rest = match after.split_at_checked(1) {
            Some((",", rest)) => rest,
            Some(("}", rest)) => return Ok((labels, rest)),
            _ => bail!("neither , nor }} after a label"),
        };
    }
}

fn label_value(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &text[place + 1..])),
            '\\' => match chars.next() {
                Some((_, '\\')) => value.push('\\'),
                Some((_, '"')) => value.push('"'),
                Some((_, 'n')) => value.push('\n'),
                _ => bail!("an escape that there is not"),
            },
            _ => value.push(char),
        }
    }
    bail!("a label's value without end")
}

fn is_name(text: &str) -> bool {
    let fits = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    text.starts_with(|char: char| !char.is_ascii_digit()) && text.chars().all(fits)
}

fn check_block(name: &str, kind: &str, samples: &[Sample]) -> Result<()> {
    ensure!(!samples.is_empty(), "no samples");
    match kind {
        "counter" => ensure!(samples.iter().all(|one| one.value >= 0.0), "a counter below 0"),
        "histogram" => return check_histograms(name, samples),
        "summary" => {
            let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
            let pairs = samples.chunks(2);
            let paired = |pair: &[Sample]| matches!(pair, [a, b] if a.name == sum && b.name == count && a.labels == b.labels);
            ensure!(pairs.into_iter().all(paired), "a summary is sum and count");
            return Ok(());
        }
        _ => {}
    }
    ensure!(samples.iter().all(|one| one.name == name), "a sample of another family");
    Ok(())
}

fn check_histograms(name: &str, samples: &[Sample]) -> Result<()> {
    let mut rest = samples.iter().peekable();
    while rest.peek().is_some() {
        let (mut bound, mut count, mut labels) = (f64::NEG_INFINITY, 0.0, None);
        while let Some(bucket) = rest.next_if(|one| one.name == format!("{name}_bucket")) {
            let mut others = bucket.labels.clone();
            let le: f64 = others.remove("le").context("a bucket without le")?.parse()?;
            ensure!(le > bound && bucket.value >= count, "buckets do not rise");
            ensure!(labels.is_none_or(|labels| labels == others), "buckets of two series mixed");
            (bound, count, labels) = (le, bucket.value, Some(others));
        }
        ensure!(bound.is_infinite(), "no +Inf bucket");
        let labels = labels.context("no bucket")?;
        let sum = rest.next().context("no sum")?;
        let total = rest.next().context("no count")?;
        ensure!(sum.name == format!("{name}_sum") && sum.labels == labels, "no sum after the buckets");
        ensure!(total.name == format!("{name}_count") && total.labels == labels, "no count after the sum");
        ensure!(total.value == count, "the count is not that of the +Inf bucket");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n,}\"} 3\na_total{x=\"\"} 4\n\
        # HELP b_seconds Time.\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"0.1\"} 1\n\
        b_seconds_bucket{le=\"+Inf\"} 2\nb_seconds_sum 5.5\nb_seconds_count 2\n\
        # HELP c_seconds Time.\n# TYPE c_seconds summary\nc_seconds_sum{y=\"z\"} 1\nc_seconds_count{y=\"z\"} 2\n";

    #[test]
    fn a_good_text_is_read() {
        let scrape = Scrape::parse(GOOD).expect("good");
        assert_eq!(scrape.get("a_total", &[("x", "1\"\\\n,}")]), Some(3.0));
        assert_eq!((scrape.sum("a_total", &[]), scrape.get("d", &[])), (Some(7.0), None));
        assert_eq!(scrape.get("c_seconds_count", &[("y", "z")]), Some(2.0));
        assert_eq!((scrape.len(), scrape.families().len()), (8, 3));
    }

    #[test]
    fn what_is_wrong_is_found() {
        for (right, wrong, why) in [
            ("# HELP a_total Things.\n", "", "no HELP"),
            ("# TYPE a_total counter\n", "", "no TYPE"),
            ("# TYPE a_total counter", "# TYPE a_total gauge", "a gauge named as a counter"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"\"} 4\na_total{x=\"\"} 4\n", "a series twice"),
            ("a_total{x=\"\"} 4\n", "other 4\n", "another family's sample"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"\"} -4\n", "a counter below 0"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"\",} 4\n", "a comma too many"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"} 4\n", "a value without end"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"\\t\"} 4\n", "an unknown escape"),
            ("a_total{x=\"\"} 4\n", "a_total{x=\"\"} four\n", "no number"),
            ("b_seconds_count 2", "b_seconds_count 3", "a count that is not the last bucket's"),
            ("b_seconds_bucket{le=\"0.1\"} 1", "b_seconds_bucket{le=\"0.1\"} 3", "buckets that fall"),
            ("b_seconds_bucket{le=\"+Inf\"} 2\n", "", "no +Inf"),
            ("c_seconds_sum{y=\"z\"} 1\n", "", "a summary without sum"),
            (
                "# HELP c_seconds Time.\n# TYPE c_seconds summary\n",
                "# HELP b_seconds T.\n# TYPE b_seconds summary\n",
                "a family twice",
            ),
        ] {
            assert!(GOOD.contains(right), "{why}");
            assert!(Scrape::parse(&GOOD.replace(right, wrong)).is_err(), "{why} was not found");
        }
        assert!(Scrape::parse(GOOD.trim_end()).is_err(), "no end of the last line");
    }
}
