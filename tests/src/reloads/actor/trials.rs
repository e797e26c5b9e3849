//! What an actor does with a build that breaks at every event: whether it is rolled back or goes on depends on how the
//! plugin is treated, and what comes between may be anything.
//!
//! Invariant: what must come of a step has come before the next one, whichever way it took; which ways are right, the model
//! says in the end.

use std::time::Duration;

use anyhow::{Context, Result};
use rand::Rng;

use super::{Actor, Held};
use crate::guests::sha256;
use crate::reloads::chance::{self, Then};
use crate::reloads::config::Treatment;
use crate::reloads::history::now;
use crate::reloads::status::Status;

/// Between the save of a bad build and what follows: until it is noticed, it takes over, it fails, or it is all over; in
/// milliseconds.
const MEANWHILE: std::ops::Range<u64> = 0..900;

impl Actor {
    /// Saves a bad build, and does something else then.
    pub(super) async fn break_it(&mut self, then: Then) -> Result<()> {
        let number = self.next_number();
        let plan = chance::bad_plan(&mut self.rng, number, &self.runs);
        let before = self.runs.clone();
        self.save_build(plan).await?;
        let meanwhile = Duration::from_millis(self.rng.random_range(MEANWHILE));
        if then != Then::Waits {
            tokio::time::sleep(meanwhile).await;
        }
        match then {
            Then::Waits => self.runs_now().await,
            Then::Reverts if !before.is_bad() => {
                self.save_build(before).await?;
                self.runs_now().await
            }
            Then::Saves | Then::Reverts => {
                let plan = self.another();
                self.save_build(plan).await?;
                self.runs_now().await
            }
            Then::Sets => {
                let treatment = self.treatments[0];
                self.treat(Treatment { setting: treatment.setting + 1, ..treatment }).await
            }
            Then::Goes => self.go_and_come().await,
        }
    }

    /// Has the operator's file say something else, and waits until what is to run under that does.
    pub(super) async fn treat(&mut self, after: Treatment) -> Result<()> {
        let stage = self.stage.clone();
        let mut config = stage.config.lock().await;
        self.stage.note(self.name(), &format!("{after:?}"));
        if after.merges() || self.held == Held::RolledBack {
            self.be_lax();
        }
        self.treatments[0] = after;
        self.record(|record| record.treatments.push((now(), after)));
        let (begun, wanted, is_bad) = (now(), sha256(&self.content), self.saved.is_bad());
        config.write(&self.names[0], after, self.rng.random_bool(0.5))?;
        let is = |status: &Status| status.is_treated(&after) && status.has_come_to_rest(&wanted, is_bad);
        let (_, status) = self.until("another version", begun, is).await?;
        drop(config);
        self.take_note(&status)?;
        self.settles_if_strict().await
    }

    /// Waits until what was saved last runs, or was rolled back and what ran before runs again.
    pub(super) async fn runs_now(&mut self) -> Result<()> {
        let (begun, wanted, is_bad) = (now(), sha256(&self.content), self.saved.is_bad());
        let is = |status: &Status| status.has_come_to_rest(&wanted, is_bad);
        let (_, status) = self.until("its new build", begun, is).await?;
        self.take_note(&status)?;
        self.settles_if_strict().await
    }

    /// What runs, and whether that is what is in the file.
    fn take_note(&mut self, status: &Status) -> Result<()> {
        let runs = status.runs().context("nothing runs")?;
        let plan = self.stage.records().plans.get(runs).cloned();
        self.runs = plan.with_context(|| format!("{runs} is none of its builds"))?;
        self.held = if runs == sha256(&self.content) { Held::Running } else { Held::RolledBack };
        Ok(())
    }
}
