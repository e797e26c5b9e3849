//! The streams of changes on a stage: one flows at a time, and what the plugins were to be told of each is checked.
//!
//! A part of the stage. Invariant: a stream's end is an object of its own, made after all its changes: whoever was told of
//! that was told of all that he is ever told of the stream.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{NEIGHBOUR, SUBJECT, Stage};
use crate::hark::Hark;
use crate::stream::{Change, Stream, chained, config_map, delivered};
use crate::trace::Line;
use crate::{eventually, trace};

/// Time between two changes.
const PACE: Duration = Duration::from_millis(20);

/// A stream that has ended.
pub(super) struct Flowed {
    changes: Vec<Change>,
    /// An object that was made when it had ended.
    end: String,
    subject: Told,
}

/// What the subject was to be told of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// All of it.
    All,
    /// The beginning, since its file went away.
    Beginning,
    /// Nothing, since it was not there.
    Nothing,
}

impl Stage {
    /// Waits until some more changes have been made.
    pub async fn flows(&self) {
        let Some(stream) = &self.stream else { return };
        let enough = stream.made() + 6;
        let made = async || (stream.made() >= enough).then_some(());
        eventually("changes", || self.hark.state(), made).await;
    }

    /// Begins a stream, once every plugin that runs has its first list, and waits until it flows.
    pub(super) async fn flow(&mut self) {
        let synced = async || {
            let plugins = self.documents().await?;
            plugins.iter().all(|one| one["queue"]["synced"] == true).then_some(())
        };
        eventually("the first lists", || self.hark.state(), synced).await;
        self.streams += 1;
        let prefix = format!("{}-{}", self.run.name.replace('_', "-"), self.streams);
        self.stream = Some(Stream::start(self.server.clone(), prefix, PACE));
        self.flows().await;
    }

    /// Ends the stream, of which the subject was to be told this much, and waits until the neighbour was told of all.
    pub(super) async fn stream_ends(&mut self, subject: Told) -> Result<()> {
        let changes = self.stream.take().context("a stream")?.stop().await?;
        let end = format!("end-{}", self.streams);
        self.server.create(config_map(&end, "of a stream"))?;
        let flowed = Flowed { changes, end, subject };
        self.is_told(NEIGHBOUR, &flowed).await?;
        self.flowed.push(flowed);
        Ok(())
    }

    /// Waits until the subject has been told all that it was to be told, and nothing else.
    pub(super) async fn all_is_told(&self) -> Result<()> {
        for flowed in &self.flowed {
            let Flowed { changes, subject, .. } = flowed;
            match subject {
                Told::All => self.is_told(SUBJECT, flowed).await?,
                Told::Beginning => drop(delivered(&lines(&self.hark, SUBJECT), changes)?),
                Told::Nothing => {
                    let key = |line: &Line| changes.iter().any(|change| change.key == line.key);
                    let told = lines(&self.hark, SUBJECT).into_iter().find(key);
                    ensure!(told.is_none(), "{SUBJECT} was told, though its file was gone: {told:?}");
                }
            }
        }
        Ok(())
    }

    /// Waits until a plugin has been told of a stream's end. It must have been told of each change then, once and in
    /// order; or of the states that were left, where the machine was so busy that waiting events were merged, which the
    /// host counts.
    async fn is_told(&self, plugin: &str, flowed: &Flowed) -> Result<()> {
        let end = format!("default/{}", flowed.end);
        let told = async || {
            let lines = lines(&self.hark, plugin);
            lines.iter().any(|line| line.key == end).then_some(lines)
        };
        let what = format!("{end} at {plugin}, after {} changes", flowed.changes.len());
        let lines = eventually(&what, || self.hark.state(), told).await;
        let merged = self.document(plugin).await.is_some_and(|document| document["queue"]["merged"] != 0);
        let checked = match merged {
            false => {
                delivered(&lines, &flowed.changes).and_then(|all| all.map(drop).context("some are lost"))
            }
            true => chained(&lines, &flowed.changes),
        };
        checked.with_context(|| format!("the trace of {plugin}\n{}", self.hark.state()))
    }
}

/// A plugin's part of the trace.
fn lines(hark: &Hark, plugin: &str) -> Vec<Line> {
    let lines = trace::read(&hark.folder().join("trace.jsonl"));
    lines.into_iter().filter(|line| line.plugin == plugin).collect()
}
