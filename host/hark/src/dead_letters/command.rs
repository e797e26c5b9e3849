//! `hark dead-letters`: shows, replays and drops what was given up.
//!
//! Run by `main`. Listing and dropping read and write the files, whether or not a host runs; a replay is the running
//! host's to do. Invariants: damaged lines are reported and stop nothing; of several letters, each is tried.

use std::collections::HashSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;

use super::ask;
use super::file::LetterFile;
use super::letter::Letter;
use super::table::{Row, safe, table};
use crate::cli::{DeadLettersArgs, DeadLettersCommand, Format, Selection};
use crate::host::{self, ConfigFile};
use crate::state_folder::{self, Found, Host};

/// Everything that is kept, by cluster.
struct Kept {
    state: PathBuf,
    clusters: Vec<(Found, Vec<Letter>)>,
}

/// Does what was asked for.
///
/// # Errors
/// If the files cannot be read, nothing fits, or anything that was asked for could not be done.
pub(crate) fn run(args: DeadLettersArgs) -> anyhow::Result<()> {
    let config = ConfigFile::find(args.config)?;
    let state = host::state_folder(&config)
        .context("there is no state folder: set host.state_dir in hark.toml, or $XDG_STATE_HOME or $HOME")?;
    let kept = Kept::read(state)?;
    match args.command {
        DeadLettersCommand::List { plugin, output } => kept.list(plugin.as_deref(), output),
        DeadLettersCommand::Show { id } => kept.show(&id),
        DeadLettersCommand::Replay { selection, admin } => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(kept.replay(&selection, admin))
        }
        DeadLettersCommand::Drop { selection } => kept.drop(&selection),
    }
}

impl Kept {
    fn read(state: PathBuf) -> anyhow::Result<Self> {
        let unreadable = || format!("cannot read {}", state.display());
        let mut clusters = Vec::new();
        for found in state_folder::found(&state).with_context(unreadable)? {
            let file = LetterFile::in_folder(&found.path);
            let path = file.path().display().to_string();
            let contents = file.read().with_context(|| format!("cannot read {path}"))?;
            for damage in contents.damaged {
                complain(&format!("{path} line {} is no dead letter: {}", damage.line, damage.why));
            }
            clusters.push((found, contents.letters));
        }
        Ok(Self { state, clusters })
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.clusters
            .iter()
            .flat_map(|(found, letters)| letters.iter().map(|letter| Row { cluster: &found.cluster, letter }))
    }

    fn list(&self, plugin: Option<&str>, output: Format) -> anyhow::Result<()> {
        let rows: Vec<Row<'_>> =
            self.rows().filter(|row| plugin.is_none_or(|plugin| row.letter.plugin == plugin)).collect();
        match output {
            Format::Json => {
                let letters: Vec<&Letter> = rows.iter().map(|row| row.letter).collect();
                say(&serde_json::to_string(&letters)?)
            }
            Format::Table if rows.is_empty() => {
                complain(&format!("no dead letters in {}", self.state.display()));
                Ok(())
            }
            Format::Table => say(table(&rows).trim_end()),
        }
    }

    fn show(&self, id: &str) -> anyhow::Result<()> {
        let row = self.one(id)?;
        say(&serde_json::to_string_pretty(row.letter)?)
    }

    /// The letter whose id begins so.
    fn one(&self, id: &str) -> anyhow::Result<Row<'_>> {
        let mut rows = self.rows().filter(|row| !id.is_empty() && row.letter.id.starts_with(id));
        let first = rows.next().with_context(|| format!("there is no dead letter {}", safe(id)))?;
        anyhow::ensure!(rows.next().is_none(), "{} begins the ids of several dead letters", safe(id));
        Ok(first)
    }

    /// The ids of what was chosen, by cluster, in the order in which they were given up.
    fn select(&self, selection: &Selection) -> anyhow::Result<Vec<(&Found, Vec<String>)>> {
        let mut named = HashSet::new();
        for id in &selection.ids {
            named.insert(self.one(id)?.letter.id.clone());
        }
        let is_chosen = |letter: &Letter| {
            selection.all
                || named.contains(&letter.id)
                || selection.plugin.as_ref().is_some_and(|plugin| *plugin == letter.plugin)
        };
        let mut chosen = Vec::new();
        for (found, letters) in &self.clusters {
            let ids: Vec<String> =
                letters.iter().filter(|letter| is_chosen(letter)).map(|letter| letter.id.clone()).collect();
            if !ids.is_empty() {
                chosen.push((found, ids));
            }
        }
        anyhow::ensure!(!chosen.is_empty(), "no dead letter fits");
        Ok(chosen)
    }

    async fn replay(&self, selection: &Selection, admin: Option<SocketAddr>) -> anyhow::Result<()> {
        let mut failed = 0;
        for (found, ids) in self.select(selection)? {
            let admin = match admin {
                Some(admin) => admin,
                None => running(found)?,
            };
            for id in ids {
                match ask::replay(admin, &id).await {
                    Ok(answer) if answer.message.is_empty() => {
                        say(&format!("{id} {}", safe(&answer.result)))?
                    }
                    Ok(answer) => {
                        say(&format!("{id} {}: {}", safe(&answer.result), safe(&answer.message)))?;
                    }
                    Err(error) => {
                        failed += 1;
                        complain(&format!("{id} is not replayed: {}", safe(&format!("{error:#}"))));
                    }
                }
            }
        }
        anyhow::ensure!(failed == 0, "{failed} dead letters were not replayed");
        Ok(())
    }

    fn drop(&self, selection: &Selection) -> anyhow::Result<()> {
        for (found, ids) in self.select(selection)? {
            let file = LetterFile::in_folder(&found.path);
            let dropped = file
                .remove(&ids.into_iter().collect())
                .with_context(|| format!("cannot change {}", file.path().display()))?;
            say(&format!("{dropped} dropped ({})", safe(&found.cluster)))?;
        }
        Ok(())
    }
}

/// Where the cluster's host answers.
fn running(found: &Found) -> anyhow::Result<SocketAddr> {
    let cluster = safe(&found.cluster);
    let host = found.host().with_context(|| format!("cannot tell whether a hark runs for {cluster}"))?;
    match host {
        Host::At(admin) => Ok(admin),
        Host::None => anyhow::bail!("no hark runs for {cluster}: a replay needs the running host"),
        Host::Silent => {
            anyhow::bail!("the hark that runs for {cluster} has no admin port: start it with --admin ADDR")
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// There is nowhere left to say that this cannot be said, and the exit code says enough.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "hark: {text}");
}
