//! Reads the trace that `hark --trace` writes, and says what it means for each object.
//!
//! Invariant: every field of the contract must be there, or the line does not parse and the test fails.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// One delivery attempt.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the design, section 6")]
pub struct Line {
    pub ts: String,
    pub plugin: String,
    pub generation: u64,
    pub subscription: String,
    pub op: String,
    pub key: String,
    pub uid: String,
    pub rv: String,
    #[serde(deserialize_with = "Option::deserialize")]
    pub old_rv: Option<String>,
    pub initial: bool,
    pub resync: bool,
    #[serde(deserialize_with = "Option::deserialize")]
    pub reason: Option<String>,
    pub attempt: u32,
    pub outcome: String,
    pub micros: u64,
    pub seq: u64,
}

impl Line {
    /// `add 5`, `update 5->7`, `delete`: what happened, by versions. A deletion's own version is not compared,
    /// since the one who deletes is not told it.
    pub fn told(&self) -> String {
        match self.op.as_str() {
            "update" => format!("update {}->{}", self.old_rv.as_deref().unwrap_or("?"), self.rv),
            "delete" => format!("delete {}", self.uid),
            op => format!("{op} {}", self.rv),
        }
    }
}

/// All whole lines of a trace so far.
///
/// # Panics
/// If a line does not parse.
pub fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("trace line {line:?}: {error}"))
    };
    whole.lines().map(parse).collect()
}

/// Lines of one plugin that ended well, by object.
pub fn done_by_key(lines: &[Line], plugin: &str) -> BTreeMap<String, Vec<Line>> {
    let mut keys: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.plugin == plugin && line.outcome == "ok") {
        keys.entry(line.key.clone()).or_default().push(line.clone());
    }
    keys
}

/// The objects that a handler which was told `lines` believes to exist, with their versions.
pub fn view<'a>(lines: impl IntoIterator<Item = &'a Line>) -> BTreeMap<String, String> {
    let mut view = BTreeMap::new();
    for line in lines {
        match line.op.as_str() {
            "delete" => view.remove(&line.key),
            _ => view.insert(line.key.clone(), line.rv.clone()),
        };
    }
    view
}
