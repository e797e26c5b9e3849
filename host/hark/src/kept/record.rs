//! What is known of a plugin's versions, and how it is written down: one JSON document for all plugins.
//!
//! Made by the manager, written and read by the folder. Invariant: a record that was read is as sound as one that was made
//! here: hashes are hashes, times are times, and text is one line of bounded length.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hark_sandbox::ContentHash;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::timestamp::timestamp;

/// Characters of a reason that are kept.
const WHY_MAX: usize = 500;

/// What is known of a plugin's versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// What can be rolled back to.
    pub(crate) good: Option<Good>,
    /// A content that is on trial, whose bytes are wanted once it has passed. Not written down.
    pub(crate) candidate: Option<ContentHash>,
    /// What was rolled back, and is not to run again.
    pub(crate) rolled_back: Option<RolledBack>,
}

/// The last good version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Good {
    pub(crate) hash: ContentHash,
    /// Since when it is known to be.
    pub(crate) since: SystemTime,
}

/// A version that was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RolledBack {
    pub(crate) hash: ContentHash,
    pub(crate) at: SystemTime,
    /// The last event that broke it, and how.
    pub(crate) why: String,
}

impl Record {
    /// Nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The contents that it speaks of.
    pub(super) fn contents(&self) -> impl Iterator<Item = ContentHash> {
        self.good.map(|good| good.hash).into_iter().chain(self.candidate)
    }
}

/// The document. A plugin's part is read by itself, so that one that is damaged harms no other.
#[derive(Serialize, Deserialize)]
struct Document {
    plugins: BTreeMap<String, Value>,
}

/// A plugin's part of it.
#[derive(Serialize, Deserialize)]
struct Written {
    good: Option<GoodWritten>,
    rolled_back: Option<RolledBackWritten>,
}

#[derive(Serialize, Deserialize)]
struct GoodWritten {
    sha256: String,
    since: String,
}

#[derive(Serialize, Deserialize)]
struct RolledBackWritten {
    sha256: String,
    at: String,
    why: String,
}

/// The document's text.
///
/// # Errors
/// Nothing that it holds cannot be written.
pub(super) fn write(records: &BTreeMap<String, Record>) -> serde_json::Result<Vec<u8>> {
    let mut plugins = BTreeMap::new();
    for (plugin, record) in records {
        let written = Written {
            good: record
                .good
                .map(|good| GoodWritten { sha256: good.hash.to_string(), since: timestamp(good.since) }),
            rolled_back: record.rolled_back.as_ref().map(|rolled_back| RolledBackWritten {
                sha256: rolled_back.hash.to_string(),
                at: timestamp(rolled_back.at),
                why: one_line(&rolled_back.why),
            }),
        };
        if written.good.is_some() || written.rolled_back.is_some() {
            plugins.insert(plugin.clone(), serde_json::to_value(written)?);
        }
    }
    let mut text = serde_json::to_vec_pretty(&Document { plugins })?;
    text.push(b'\n');
    Ok(text)
}

/// The records of a text, and what is wrong with those that are left out.
///
/// # Errors
/// For people: it is no document at all.
pub(super) fn read(text: &[u8]) -> Result<(BTreeMap<String, Record>, Vec<String>), String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let (mut records, mut damaged) = (BTreeMap::new(), Vec::new());
    for (plugin, written) in document.plugins {
        match parse(written) {
            Ok(record) => {
                records.insert(plugin, record);
            }
            Err(why) => damaged.push(format!("what it says of plugin {plugin:?} is ignored: {why}")),
        }
    }
    Ok((records, damaged))
}

fn parse(written: Value) -> Result<Record, String> {
    let written: Written = serde_json::from_value(written).map_err(|error| error.to_string())?;
    let hash = |text: &str| text.parse::<ContentHash>().map_err(|error| format!("sha256: {error}"));
    let time = |text: &str| {
        let time = text.parse::<jiff::Timestamp>().map_err(|error| error.to_string())?;
        Ok::<_, String>(SystemTime::from(time))
    };
    let good = match written.good {
        Some(good) => Some(Good { hash: hash(&good.sha256)?, since: time(&good.since)? }),
        None => None,
    };
    let rolled_back = match written.rolled_back {
        Some(one) => {
            Some(RolledBack { hash: hash(&one.sha256)?, at: time(&one.at)?, why: one_line(&one.why) })
        }
        None => None,
    };
    Ok(Record { good, candidate: None, rolled_back })
}

/// It comes from guests, or from a file that anybody may have written.
fn one_line(text: &str) -> String {
    text.chars().take(WHY_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect()
}
