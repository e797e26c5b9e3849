//! `/metrics`: every number there is, as Prometheus reads them.
//!
//! Used by the paths of the admin port. One file a subject: what the host is ([`host`]), the looks at its folder
//! ([`folder`]), the process ([`process`]), the compilers ([`compile`]), reloads ([`reload`]), log, screen and trace
//! ([`output`]), the informers ([`informer`]), the plugins
//! ([`plugin`]). Each is a table of [`Metric`]s: a family, and how its
//! value is read from the facts. Invariants: names end in their unit, counters in `_total`; labels name resources,
//! plugins and fixed words, never an object, so the number of series is bounded by what runs. The table in the README
//! is checked against these.

mod compile;
mod folder;
mod host;
mod informer;
mod output;
mod plugin;
mod process;
mod reload;

use std::time::Duration;

use hark_informer::listener::Histogram;

use super::exposition::{Exposition, Family, Samples, Value};
use super::snapshot::Snapshot;

/// A family, and how its samples are read from what it is about.
struct Metric<T: 'static> {
    family: Family,
    read: fn(&T, &mut Series<'_, '_>),
}

/// The samples of one thing in one family.
struct Series<'a, 'b> {
    samples: &'a mut Samples<'b>,
    /// Labels that name the thing.
    labels: Vec<&'a str>,
}

impl Series<'_, '_> {
    /// The thing's one sample.
    fn value(&mut self, value: impl Into<Value>) {
        self.samples.value(&self.labels, value);
    }

    /// One of the thing's samples, with the values of the labels that only this family has.
    fn labelled(&mut self, more: &[&str], value: impl Into<Value>) {
        let labels: Vec<&str> = self.labels.iter().chain(more).copied().collect();
        self.samples.value(&labels, value);
    }

    /// A summary of the thing, with the values of the labels that only this family has.
    fn summary(&mut self, more: &[&str], count: u64, sum: f64) {
        let labels: Vec<&str> = self.labels.iter().chain(more).copied().collect();
        self.samples.summary(&labels, count, sum);
    }

    /// The thing's histogram of times.
    fn histogram(&mut self, times: &Histogram) {
        self.histogram_of(&[], times);
    }

    /// One of the thing's histograms, with the values of the labels that only this family has.
    fn histogram_of(&mut self, more: &[&str], times: &Histogram) {
        let seconds = |bound: Option<Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
        let buckets: Vec<(f64, u64)> =
            times.buckets().map(|(bound, count)| (seconds(bound), count)).collect();
        let labels: Vec<&str> = self.labels.iter().chain(more).copied().collect();
        self.samples.histogram(&labels, &buckets, times.sum().as_secs_f64());
    }

    /// The thing's sample if there is one.
    fn maybe(&mut self, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.value(value);
        }
    }
}

/// The whole text.
pub(super) fn expose(snapshot: &Snapshot) -> String {
    let mut out = Exposition::default();
    each(&mut out, host::METRICS, std::slice::from_ref(&*snapshot.view), |_| Vec::new());
    each(&mut out, folder::METRICS, std::slice::from_ref(&*snapshot.view), |_| Vec::new());
    each(&mut out, output::METRICS, std::slice::from_ref(&snapshot.lost_lines), |_| Vec::new());
    each(&mut out, reload::METRICS, std::slice::from_ref(&snapshot.view.reloads), |_| Vec::new());
    each(&mut out, compile::METRICS, std::slice::from_ref(&snapshot.compiled), |_| Vec::new());
    each(&mut out, process::METRICS, &[process::Facts::read(snapshot.started)], |_| Vec::new());
    each(&mut out, informer::METRICS, &snapshot.informers, informer::labels);
    each(&mut out, plugin::METRICS, &snapshot.plugins, plugin::labels);
    out.finish()
}

/// Writes every family of a table, with a series for each thing.
fn each<T>(out: &mut Exposition, metrics: &'static [Metric<T>], things: &[T], labels: fn(&T) -> Vec<String>) {
    for metric in metrics {
        let mut samples = out.family(&metric.family);
        for thing in things {
            let labels = labels(thing);
            let labels = labels.iter().map(String::as_str).collect();
            (metric.read)(thing, &mut Series { samples: &mut samples, labels });
        }
    }
}

#[cfg(test)]
mod tests;
