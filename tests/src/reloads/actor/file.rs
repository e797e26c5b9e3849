//! What an actor does to its plugin's file.
//!
//! Invariant: each content, and each coming of the file, is written down before it can be seen.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::Rng;

use super::{Actor, Held};
use crate::guests::sha256;
use crate::reloads::chance::{self, How};
use crate::reloads::history::now;
use crate::reloads::plan::{Mood, Plan};
use crate::reloads::stage::LIMIT;

/// How long a file is away that comes back before anybody minds: Hark stops a plugin after 2 s.
const BLINK: Duration = Duration::from_millis(500);

/// When it was away for longer, on a busy machine, somebody may have minded.
const MINDED: Duration = Duration::from_millis(1200);

/// Half of a content that lay there for longer may be taken for the whole: Hark waits until a file has been still for
/// 0.4 s before it believes that it is broken.
const LAPSE: Duration = Duration::from_millis(300);

impl Actor {
    pub(super) async fn save_build(&mut self, plan: Plan) -> Result<()> {
        let content = plan.build(&self.stage.fixtures)?;
        self.register(&content, &plan);
        let listens =
            |plan: &Plan| plan.watches.iter().map(|watch| watch.listens_for().to_vec()).collect::<Vec<_>>();
        if plan.mood != Mood::Good || listens(&plan) != listens(&self.runs) {
            self.be_lax();
        }
        self.runs = plan.clone();
        self.earlier.push(std::mem::replace(&mut self.saved, plan));
        self.held = Held::Running;
        let how = chance::how(&mut self.rng);
        self.save(content, how).await
    }

    pub(super) async fn save(&mut self, content: Vec<u8>, how: How) -> Result<()> {
        let path = self.path();
        self.record(|record| record.saves.push((now(), sha256(&content))));
        match how {
            How::Renamed => {
                let beside = self.stage.folder.with_file_name(format!("{}.new", self.name()));
                std::fs::write(&beside, &content)?;
                std::fs::rename(beside, path)?;
            }
            How::InPlace => std::fs::write(path, &content)?,
            How::Halves(pause) => {
                let begun = std::time::Instant::now();
                let (first, second) = content.split_at(content.len() / 2);
                let mut file = std::fs::File::create(path)?;
                file.write_all(first)?;
                // The writer's own pace is the subject.
                tokio::time::sleep(Duration::from_millis(pause)).await;
                file.write_all(second)?;
                if begun.elapsed() > LAPSE {
                    self.lapses += 1;
                    self.record(|record| record.saves.push((now(), "half of it".into())));
                }
            }
        }
        self.content = content;
        Ok(())
    }

    pub(super) async fn blink(&mut self) -> Result<()> {
        let begun = std::time::Instant::now();
        std::fs::remove_file(self.path())?;
        // How long it is away is the subject.
        tokio::time::sleep(BLINK).await;
        self.put_back(self.content.clone()).await?;
        if begun.elapsed() > MINDED {
            // What was refused may run now: something else ends that.
            let plan = self.another();
            self.save_build(plan).await?;
            self.runs_now().await?;
        }
        Ok(())
    }

    /// What comes back is what ran; or else what was rolled back, which nobody remembers then.
    pub(super) async fn remove(&mut self) -> Result<()> {
        self.settle().await?;
        if self.held != Held::RolledBack || self.rng.random_bool(0.5) {
            self.saved = self.runs.clone();
        }
        self.go_and_come().await
    }

    /// The file goes, and the build that was saved last comes back when the plugin has stopped.
    pub(super) async fn go_and_come(&mut self) -> Result<()> {
        std::fs::remove_file(self.path())?;
        self.is_stopped(self.name()).await?;
        let pause = self.rng.random_range(0..1000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let content = self.saved.build(&self.stage.fixtures)?;
        if self.saved.is_bad() {
            self.be_lax();
        }
        self.held = Held::Running;
        self.put_back(content).await?;
        self.runs_now().await
    }

    /// If the file holds what cannot take over, what runs is saved again.
    pub(super) async fn put_in_order(&mut self) -> Result<()> {
        if self.held == Held::Spoilt {
            self.save_build(self.runs.clone()).await?;
            self.runs_now().await?;
        }
        Ok(())
    }

    /// Something good runs in the end, and is what is in the file.
    pub(super) async fn end_well(&mut self) -> Result<()> {
        if self.held == Held::Running && !self.runs.is_bad() {
            return Ok(());
        }
        let plan = if self.runs.is_bad() { self.another() } else { self.runs.clone() };
        self.save_build(plan).await?;
        self.runs_now().await
    }

    /// A plugin of another name begins with what is in the file, whatever was made of that before.
    pub(super) async fn rename(&mut self) -> Result<()> {
        self.put_in_order().await?;
        self.settle().await?;
        let (from, old) = (self.path(), self.name().to_owned());
        self.names.swap(0, 1);
        self.treatments.swap(0, 1);
        let hash = sha256(&self.content);
        self.record(|record| {
            record.added.push(now());
            record.saves.push((now(), hash));
            record.present = true;
        });
        if self.merges() || self.saved.is_bad() {
            self.be_lax();
        }
        std::fs::rename(from, self.path())?;
        self.runs_now().await?;
        self.is_stopped(&old).await
    }

    pub(super) async fn put_back(&mut self, content: Vec<u8>) -> Result<()> {
        self.record(|record| {
            record.added.push(now());
            record.present = true;
        });
        self.save(content, How::InPlace).await
    }

    /// Waits until the plugin of this name is stopped, and writes down that it has no file.
    async fn is_stopped(&self, name: &str) -> Result<()> {
        let mut status = self.status.clone();
        let begun = now();
        let gone = status.wait_for(|answer| answer.asked >= begun && !answer.plugins.contains_key(name));
        tokio::time::timeout(LIMIT, gone).await.context("it was not stopped")??;
        self.stage.records().plugins.entry(name.to_owned()).or_default().present = false;
        Ok(())
    }
}
