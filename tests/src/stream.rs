//! A steady stream of changes at an embedded API server, and what a plugin's trace must say of it.
//!
//! For suites in which somebody misbehaves beside a good plugin. Each object is created, updated and deleted.
//! Invariant: a stream ends with all of its objects deleted, so that the next one begins with the same server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hark_apiserver::Handle;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::trace::Line;

/// Something that was done to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `namespace/name`.
    pub key: String,
    /// In the words of [`Line::told`].
    pub told: String,
    /// When it was asked for.
    pub at: Timestamp,
}

/// A stream that flows.
pub struct Stream {
    task: JoinHandle<Result<Vec<Change>>>,
    flow: Arc<Flow>,
}

#[derive(Default)]
struct Flow {
    made: AtomicUsize,
    stop: AtomicBool,
}

impl Stream {
    /// Begins to make a change every `pace`. The objects' names begin with `prefix`, which no stream before had.
    pub fn start(server: Arc<Handle>, prefix: String, pace: Duration) -> Self {
        let flow = Arc::new(Flow::default());
        let task = tokio::spawn(run(server, prefix, pace, flow.clone()));
        Self { task, flow }
    }

    /// Changes made so far.
    pub fn made(&self) -> usize {
        self.flow.made.load(Ordering::Relaxed)
    }

    /// Ends it, and gives all its changes in order.
    ///
    /// # Errors
    /// If the server refused one.
    pub async fn stop(self) -> Result<Vec<Change>> {
        self.flow.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

async fn run(server: Arc<Handle>, prefix: String, pace: Duration, flow: Arc<Flow>) -> Result<Vec<Change>> {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = Vec::new();
    for number in 0.. {
        if flow.stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("{prefix}-{number}");
        let key = format!("default/{name}");
        let mut version = String::new();
        for step in ["create", "update", "delete"] {
            ticks.tick().await;
            let at = Timestamp::now();
            let object = config_map(&name, step);
            let told = match step {
                "create" => {
                    version = text(&server.create(object)?, "resourceVersion")?;
                    format!("add {version}")
                }
                "update" => {
                    let old = version.clone();
                    version = text(&server.update(object)?, "resourceVersion")?;
                    format!("update {old}->{version}")
                }
                _ => format!("delete {}", text(&server.delete(&object)?, "uid")?),
            };
            changes.push(Change { key: key.clone(), told, at });
            flow.made.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(changes)
}

/// A ConfigMap of the namespace `default`.
pub fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
        "metadata": {"name": name, "namespace": "default"},
    })
}

fn text(object: &Value, field: &str) -> Result<String> {
    let found = object["metadata"][field].as_str().with_context(|| format!("no {field} in {object}"))?;
    Ok(found.to_owned())
}

/// Holds the lines of a plugin that never fails against a stream: each change handed over once, at the first
/// attempt, each object's in order, each with a number of its own. Gives how long each took from when it was asked
/// for to the end of the attempt; none as long as lines are missing.
///
/// # Errors
/// If the lines say anything else.
pub fn delivered(lines: &[Line], changes: &[Change]) -> Result<Option<Vec<Duration>>> {
    let mut want: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for change in changes {
        want.entry(&change.key).or_default().push(&change.told);
    }
    let mut told: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut ends: HashMap<(&str, String), &str> = HashMap::new();
    let mut numbers = HashSet::new();
    for line in lines.iter().filter(|line| want.contains_key(line.key.as_str())) {
        ensure!(line.outcome == "ok" && line.attempt == 1 && !line.resync, "not a plain delivery: {line:?}");
        ensure!(numbers.insert(line.seq), "a number twice: {line:?}");
        told.entry(&line.key).or_default().push(line.told());
        ends.insert((&line.key, line.told()), &line.ts);
    }
    let count = |told: &Vec<String>| told.len();
    if told.values().map(count).sum::<usize>() < changes.len() {
        return Ok(None);
    }
    for (key, want) in want {
        let told = told.remove(key).unwrap_or_default();
        ensure!(told == want, "{key}: the server did {want:?}, the trace says {told:?}");
    }
    let took = |change: &Change| {
        let end: Timestamp = ends[&(change.key.as_str(), change.told.clone())].parse()?;
        Ok(Duration::try_from(end.duration_since(change.at)).unwrap_or_default())
    };
    changes.iter().map(took).collect::<Result<Vec<_>>>().map(Some)
}

/// Holds the lines of a plugin that never fails against a stream of which it has been told all, where events that waited
/// may have been merged: of each object, states that follow each other from its add to its delete, none of them twice;
/// or nothing, if it came and went while others were handled.
///
/// # Errors
/// If the lines say anything else.
pub fn chained(lines: &[Line], changes: &[Change]) -> Result<()> {
    let mut told: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        ensure!(line.outcome == "ok" && line.attempt == 1 && !line.resync, "not a plain delivery: {line:?}");
        told.entry(&line.key).or_default().push(line);
    }
    let keys: HashSet<&str> = changes.iter().map(|change| change.key.as_str()).collect();
    for (key, told) in told.iter().filter(|(key, _)| keys.contains(**key)) {
        let ops: Vec<&str> = told.iter().map(|line| line.op.as_str()).collect();
        let whole = matches!(ops[..], ["add", "update", "delete"] | ["add", "delete"]);
        let follows = ops.len() < 3 || told[1].old_rv.as_deref() == Some(told[0].rv.as_str());
        ensure!(
            whole && follows,
            "{key}: the trace says {:?}",
            told.iter().map(|line| line.told()).collect::<Vec<_>>()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(told: (&str, &str, Option<&str>), seq: u64) -> Line {
        let (op, rv, old_rv) = told;
        Line {
            ts: format!("1970-01-01T00:00:0{seq}.500000Z"),
            plugin: "good".into(),
            generation: 1,
            subscription: "configmaps".into(),
            op: op.into(),
            key: "default/a".into(),
            uid: "u".into(),
            rv: rv.into(),
            old_rv: old_rv.map(str::to_owned),
            initial: false,
            resync: false,
            reason: None,
            attempt: 1,
            outcome: "ok".into(),
            micros: 7,
            seq,
        }
    }

    fn changes() -> Vec<Change> {
        let change = |told: &str, second| Change {
            key: "default/a".into(),
            told: told.into(),
            at: Timestamp::from_second(second).expect("a time"),
        };
        vec![change("add 5", 1), change("update 5->6", 2), change("delete u", 3)]
    }

    #[test]
    fn a_whole_trace_tells_how_long_each_change_took() {
        let lines = [
            line(("add", "5", None), 1),
            line(("update", "6", Some("5")), 2),
            line(("delete", "7", None), 3),
        ];
        let took = delivered(&lines, &changes()).expect("sound").expect("whole");
        assert_eq!(took, [Duration::from_millis(500); 3]);
        assert!(delivered(&lines[..2], &changes()).expect("sound so far").is_none());
    }

    #[test]
    fn merged_states_must_follow_each_other_to_the_delete() {
        let (add, later) = (line(("add", "5", None), 1), line(("add", "6", None), 1));
        let (update, gap) = (line(("update", "6", Some("5")), 2), line(("update", "7", Some("6")), 2));
        let delete = line(("delete", "7", None), 3);
        let held = |lines: &[&Line]| chained(&lines.iter().copied().cloned().collect::<Vec<_>>(), &changes());
        for good in [&[&add, &update, &delete][..], &[&add, &delete], &[&later, &delete], &[]] {
            assert!(held(good).is_ok(), "{good:?}");
        }
        for bad in [&[&add, &update][..], &[&add, &gap, &delete], &[&update, &delete], &[&add, &add, &delete]]
        {
            assert!(held(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_lost_doubled_failed_or_out_of_order_is_found() {
        let good = [
            line(("add", "5", None), 1),
            line(("update", "6", Some("5")), 2),
            line(("delete", "7", None), 3),
        ];
        let mut swapped = good.clone();
        swapped.swap(0, 1);
        let mut failed = good.clone();
        failed[1].outcome = "trap".into();
        let mut again = good.clone();
        again[1].attempt = 2;
        let mut same_number = good.clone();
        same_number[1].seq = 1;
        let doubled = [&good[..], &[line(("add", "5", None), 4)]].concat();
        for wrong in [&swapped[..], &failed, &again, &same_number, &doubled] {
            assert!(delivered(wrong, &changes()).is_err(), "{wrong:?}");
        }
    }
}
