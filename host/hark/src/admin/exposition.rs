//! The Prometheus text format (version 0.0.4): the one place that writes it.
//!
//! Used by the metrics of each subject. Written by hand rather than with a crate: everything is read at the moment
//! of a scrape, so there is no registry to keep, and what remains of the task is this file. Invariants: each family
//! has its HELP and TYPE once, before its first sample; no series is written twice, since one that were would make
//! the whole scrape invalid; label values are escaped.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family's numbers mean to who adds them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only rises, until the thing that it counts begins anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound, with sum and count.
    Histogram,
    /// Sum and count.
    Summary,
}

impl Kind {
    /// The word of a TYPE line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A metric: its name with the unit, its meaning, and the labels that tell its series apart.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Of each series, in the order in which [`Samples`] are given their values.
    pub(crate) labels: &'static [&'static str],
    /// One line without backslashes.
    pub(crate) help: &'static str,
}

impl Family {
    pub(crate) const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    pub(crate) const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    pub(crate) const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram, labels, help }
    }

    pub(crate) const fn summary(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Summary, labels, help }
    }
}

/// A sample's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// A whole number, exact.
    Whole(u64),
    /// Any number.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(u64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Real(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "+Inf" } else { "-Inf" })
            }
            Self::Real(value) => write!(f, "{value}"),
        }
    }
}

/// A text in the making.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

/// The samples of one family, in the making.
pub(crate) struct Samples<'a> {
    text: &'a mut String,
    family: &'static Family,
    begun: bool,
    written: HashSet<String>,
}

impl Exposition {
    /// Begins a family. One without samples leaves no trace. Call it once a family.
    pub(crate) fn family(&mut self, family: &'static Family) -> Samples<'_> {
        Samples { text: &mut self.text, family, begun: false, written: HashSet::new() }
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

impl Samples<'_> {
    /// The series with these label values. One that was given before is left out.
    pub(crate) fn value(&mut self, labels: &[&str], value: impl Into<Value>) {
        if let Some(labels) = self.series(labels) {
            self.line("", &labels, value.into());
        }
    }

    /// A histogram: `buckets` are upper bounds, each with the number of values up to it; the last bound is
    /// infinity. `sum` adds all values up.
    pub(crate) fn histogram(&mut self, labels: &[&str], buckets: &[(f64, u64)], sum: f64) {
        let Some(labels) = self.series(labels) else { return };
        for (bound, count) in buckets {
            let mut labels = labels.clone();
            push_label(&mut labels, "le", &Value::Real(*bound).to_string());
            self.line("_bucket", &labels, Value::Whole(*count));
        }
        let count = buckets.last().map_or(0, |(_, count)| *count);
        self.line("_sum", &labels, Value::Real(sum));
        self.line("_count", &labels, Value::Whole(count));
    }

    /// A summary without quantiles.
    pub(crate) fn summary(&mut self, labels: &[&str], count: u64, sum: f64) {
        let Some(labels) = self.series(labels) else { return };
        self.line("_sum", &labels, Value::Real(sum));
        self.line("_count", &labels, Value::Whole(count));
    }

    /// The label part of a series that was not written yet.
    fn series(&mut self, values: &[&str]) -> Option<String> {
        debug_assert_eq!(values.len(), self.family.labels.len(), "labels of {}", self.family.name);
        let mut labels = String::new();
        for (name, value) in self.family.labels.iter().zip(values) {
            push_label(&mut labels, name, value);
        }
        self.written.insert(labels.clone()).then_some(labels)
    }

    fn line(&mut self, suffix: &str, labels: &str, value: Value) {
        let Family { name, kind, help, .. } = self.family;
        let text = &mut *self.text;
        // Writing to a string cannot fail.
        if !std::mem::replace(&mut self.begun, true) {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
        }
        let _ = match labels {
            "" => writeln!(text, "{name}{suffix} {value}"),
            _ => writeln!(text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }
}

fn push_label(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    labels.push_str(name);
    labels.push_str("=\"");
    for char in value.chars() {
        match char {
            '\\' => labels.push_str("\\\\"),
            '"' => labels.push_str("\\\""),
            '\n' => labels.push_str("\\n"),
            _ => labels.push(char),
        }
    }
    labels.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    static EVENTS: Family = Family::counter("x_events_total", &["type", "name"], "Events.");
    static LAG: Family = Family::histogram("x_lag_seconds", &["p"], "Lag.");
    static LISTS: Family = Family::summary("x_list_seconds", &[], "Lists.");

    #[test]
    fn a_family_has_its_head_once_and_each_series_once() {
        let mut out = Exposition::default();
        let mut samples = out.family(&EVENTS);
        samples.value(&["add", "a"], 3_u64);
        samples.value(&["add", "b"], u64::MAX);
        samples.value(&["add", "a"], 4_u64);
        out.family(&LAG);
        let want = "# HELP x_events_total Events.\n# TYPE x_events_total counter\n\
                    x_events_total{type=\"add\",name=\"a\"} 3\n\
                    x_events_total{type=\"add\",name=\"b\"} 18446744073709551615\n";
        assert_eq!(
            out.finish(),
            want,
            "the second series of one name, and the family without samples, are not"
        );
    }

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::default();
        out.family(&EVENTS).value(&["a\"b\\c\nd", "ä, {}="], 0.25);
        assert!(out.finish().ends_with("\nx_events_total{type=\"a\\\"b\\\\c\\nd\",name=\"ä, {}=\"} 0.25\n"));
    }

    #[test]
    fn a_histogram_counts_up_to_infinity_and_a_summary_has_sum_and_count() {
        let mut out = Exposition::default();
        out.family(&LAG).histogram(&["a"], &[(0.001, 2), (1.0, 2), (2.5, 5), (f64::INFINITY, 6)], 7.5);
        out.family(&LISTS).summary(&[], 2, 0.5);
        let want = "# HELP x_lag_seconds Lag.\n# TYPE x_lag_seconds histogram\n\
                    x_lag_seconds_bucket{p=\"a\",le=\"0.001\"} 2\n\
                    x_lag_seconds_bucket{p=\"a\",le=\"1\"} 2\n\
                    x_lag_seconds_bucket{p=\"a\",le=\"2.5\"} 5\n\
                    x_lag_seconds_bucket{p=\"a\",le=\"+Inf\"} 6\n\
                    x_lag_seconds_sum{p=\"a\"} 7.5\nx_lag_seconds_count{p=\"a\"} 6\n\
                    # HELP x_list_seconds Lists.\n# TYPE x_list_seconds summary\n\
                    x_list_seconds_sum 0.5\nx_list_seconds_count 2\n";
        assert_eq!(out.finish(), want);
    }

    #[test]
    fn values_are_written_as_prometheus_reads_them() {
        let texts = [true.into(), 5_usize.into(), 1.5.into(), f64::INFINITY.into(), f64::NAN.into()];
        assert_eq!(texts.map(|value: Value| value.to_string()), ["1", "5", "1.5", "+Inf", "NaN"]);
    }
}
