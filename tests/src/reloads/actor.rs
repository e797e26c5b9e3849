//! One who changes a plugin's file and its part of the operator's file, step by step, and waits for what must come of it.
//!
//! Invariant: what it does is written down before it can have an effect, so that the model knows every version that may
//! run; and the next step is not made before the last one has had its effect, but where two builds are saved in a row.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use super::chance::{self, Fault, How, Step};
use super::config::Treatment;
use super::cover::LAG;
use super::history::{Moment, now};
use super::model::Record;
use super::plan::{Mood, Plan};
use super::stage::{LIMIT, Stage, soon};
use super::status::{Answer, Status};
use crate::guests::sha256;

mod file;
mod trials;

/// Between two steps, in milliseconds.
const PAUSE: std::ops::Range<u64> = 0..250;

/// See the file's head.
pub struct Actor {
    stage: Arc<Stage>,
    status: watch::Receiver<Answer>,
    rng: StdRng,
    /// Its plugin has one of them, and gets the other one when it is renamed.
    names: [String; 2],
    /// What is in the file.
    content: Vec<u8>,
    /// The build that was saved last.
    saved: Plan,
    held: Held,
    /// What runs, or is about to.
    runs: Plan,
    /// Builds that were saved before.
    earlier: Vec<Plan>,
    /// What the operator's file says of its plugin, by its names.
    treatments: [Treatment; 2],
    refusals: usize,
    lapses: usize,
}

/// What is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// What runs, or is about to.
    Running,
    /// What cannot take over.
    Spoilt,
    /// A build that was rolled back.
    RolledBack,
}

/// What is left of an actor.
pub struct Outcome {
    /// Its plugin's name in the end.
    pub name: String,
    /// What runs.
    pub runs: Plan,
    /// How often it saved what had to be refused, under both names.
    pub refusals: usize,
    /// How often half of a content lay there so long that it may have been refused too.
    pub lapses: usize,
    /// Both names.
    pub names: [String; 2],
}

impl Actor {
    /// Puts the first build of a plugin into the folder, which the operator's file speaks of already, and waits until it
    /// runs.
    ///
    /// # Errors
    /// If it does not.
    pub async fn begin(
        stage: Arc<Stage>,
        status: watch::Receiver<Answer>,
        names: [String; 2],
        treatment: Treatment,
        seed: u64,
    ) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let runs = chance::plan(&mut rng, stage.builds.fetch_add(1, Ordering::Relaxed), None);
        let content = runs.build(&stage.fixtures)?;
        let mut actor = Self {
            stage,
            status,
            rng,
            names,
            content: content.clone(),
            saved: runs.clone(),
            held: Held::Running,
            runs: runs.clone(),
            earlier: Vec::new(),
            treatments: [treatment; 2],
            refusals: 0,
            lapses: 0,
        };
        for name in &actor.names {
            let mut records = actor.stage.records();
            records.plugins.entry(name.clone()).or_default().treatments.push((0, treatment));
        }
        actor.register(&content, &runs);
        if actor.merges() {
            actor.be_lax();
        }
        actor.put_back(content).await?;
        actor.runs_now().await?;
        Ok(actor)
    }

    /// Makes steps until the stage has seen so many.
    ///
    /// # Errors
    /// If a step does not have its effect.
    pub async fn act(mut self, steps: usize) -> Result<Outcome> {
        while self.stage.steps.fetch_add(1, Ordering::Relaxed) < steps {
            let step = self.next();
            self.stage.note(self.name(), &format!("{step:?}"));
            let name = self.name().to_owned();
            self.step(step).await.with_context(|| format!("{name}: {step:?}"))?;
            let pause = self.rng.random_range(PAUSE);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.end_well().await?;
        let Self { names, runs, refusals, lapses, .. } = self;
        Ok(Outcome { name: names[0].clone(), runs, refusals, lapses, names })
    }

    /// A build that breaks at every event, and goes on since nothing takes its place, does not do so for long: what it
    /// breaks at waits ever longer.
    fn next(&mut self) -> Step {
        let (step, replaced) = (chance::step(&mut self.rng), self.rng.random_bool(0.7));
        let is_long = matches!(step, Step::Break(_) | Step::Blink | Step::Remove | Step::Rename);
        if self.runs.is_bad() && (replaced || is_long) { Step::Save } else { step }
    }

    fn name(&self) -> &str {
        &self.names[0]
    }

    fn path(&self) -> PathBuf {
        self.stage.folder.join(format!("{}.wasm", self.name()))
    }

    async fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Save => {
                let plan = self.another();
                self.save_build(plan).await?;
                self.runs_now().await
            }
            Step::SaveTwice => {
                let plan = self.another();
                self.save_build(plan).await?;
                let pause = self.rng.random_range(0..120);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let plan = self.another();
                self.save_build(plan).await?;
                self.runs_now().await
            }
            Step::Revert => {
                let at = self.rng.random_range(0..=self.earlier.len());
                let plan = self.earlier.get(at).unwrap_or(&self.runs).clone();
                self.save_build(plan).await?;
                self.runs_now().await
            }
            Step::Break(then) => self.break_it(then).await,
            Step::Touch => self.save(self.content.clone(), How::Renamed).await,
            Step::Spoil(fault) => self.spoil(fault).await,
            Step::Blink => self.blink().await,
            Step::Remove => self.remove().await,
            Step::Rename => self.rename().await,
            Step::Configure if self.held != Held::Spoilt => self.configure().await,
            Step::Configure | Step::Misconfigure => self.misconfigure().await,
        }
    }

    fn another(&mut self) -> Plan {
        let number = self.next_number();
        chance::plan(&mut self.rng, number, Some(&self.runs))
    }

    fn next_number(&self) -> u32 {
        self.stage.builds.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the model of a build before it can run.
    fn register(&mut self, content: &[u8], plan: &Plan) {
        self.stage.note(
            self.name(),
            &format!("build {} {}", &sha256(content)[..12], plan.text().replace('\n', "; ")),
        );
        self.stage.records().plans.insert(sha256(content), plan.clone());
    }

    /// Saves what cannot take over, and waits until that is said; what runs goes on.
    async fn spoil(&mut self, fault: Fault) -> Result<()> {
        let whole = self.runs.build(&self.stage.fixtures)?;
        let content = match fault {
            Fault::Empty => Vec::new(),
            Fault::Text => b"this is no module".to_vec(),
            Fault::Half => whole[..whole.len() / 2].to_vec(),
            Fault::OtherWorld => self.stage.other_world.clone(),
            Fault::Refuses => Plan { mood: Mood::Refuses, ..self.another() }.build(&self.stage.fixtures)?,
            Fault::Breaks => Plan { mood: Mood::Breaks, ..self.another() }.build(&self.stage.fixtures)?,
        };
        let is_new = self.held != Held::Spoilt || content != self.content;
        self.held = Held::Spoilt;
        let (begun, before) = (now(), self.said_refused()?);
        let how = chance::how(&mut self.rng);
        self.save(content.clone(), how).await?;
        let hash = sha256(&content);
        let runs = self.runs_hash()?;
        self.until("a refusal", begun, |status| {
            let refused = status.refused.as_ref();
            let is_it = |refused: &Option<String>| refused.as_ref().is_none_or(|refused| *refused == hash);
            refused.is_some_and(|refused| is_it(&refused.sha256)) && status.runs() == Some(&runs)
        })
        .await?;
        if is_new {
            self.refusals += 1;
            // The log may be a little behind. Whether it was said once too often, the campaign sees in the end.
            soon("that its file is refused", || Ok(self.said_refused()? > before)).await?;
        }
        Ok(())
    }

    fn said_refused(&self) -> Result<usize> {
        Ok(self.stage.log()?.refusals.get(self.name()).copied().unwrap_or_default())
    }

    fn runs_hash(&self) -> Result<String> {
        Ok(sha256(&self.runs.build(&self.stage.fixtures)?))
    }

    async fn configure(&mut self) -> Result<()> {
        self.settle().await?;
        let mut after = chance::treatment(&mut self.rng, self.treatments[0]);
        if self.held == Held::RolledBack && self.rng.random_bool(0.4) {
            // What was rolled back is forgotten.
            after.rollback = None;
        }
        self.treat(after).await
    }

    async fn misconfigure(&mut self) -> Result<()> {
        let stage = self.stage.clone();
        let config = stage.config.lock().await;
        let (before, _) = stage.log()?.config;
        let number = self.next_number();
        config.spoil(&chance::mistake(&mut self.rng, number))?;
        soon("what is wrong with the operator's file", || Ok(stage.log()?.config.0 > before)).await?;
        config.mend()
    }

    /// Whether what waits may be merged.
    fn merges(&self) -> bool {
        self.runs.mood != Mood::Good || self.treatments[0].merges()
    }

    /// Where nothing may be merged any more, waits until what may have been is told.
    async fn settles_if_strict(&mut self) -> Result<()> {
        if !self.merges() {
            let at = self.settle().await?;
            self.record(|record| record.lax.end(at));
        }
        Ok(())
    }

    /// Waits until all that waits has been told, if the plugin takes all; gives when it had.
    async fn settle(&mut self) -> Result<Moment> {
        if self.runs.mood != Mood::Good {
            return Ok(now());
        }
        let idle = |status: &Status| status.queue.is_some_and(|queue| queue.is_idle());
        let (at, status) = self.until("an empty queue", now(), idle).await?;
        let generation = status.running.map_or(0, |runs| runs.generation);
        self.record(|record| record.settled.push((at, generation)));
        Ok(at)
    }

    fn be_lax(&mut self) {
        self.record(|record| record.lax.begin(now() - LAG));
    }

    fn record(&self, change: impl FnOnce(&mut Record)) {
        change(self.stage.records().plugins.entry(self.name().to_owned()).or_default());
    }

    /// Waits until the plugin is so, nothing of it being on the way, by an answer to a question that was asked since;
    /// gives when that answer was there, and what it was.
    async fn until(
        &self,
        what: &str,
        since: Moment,
        is: impl Fn(&Status) -> bool,
    ) -> Result<(Moment, Status)> {
        let name = self.name();
        let found = |answer: &Answer| {
            let status = answer.plugins.get(name).filter(|_| answer.asked >= since);
            status.is_some_and(|status| !status.preparing && !status.taking_over && is(status))
        };
        let mut answers = self.status.clone();
        let waited = tokio::time::timeout(LIMIT, answers.wait_for(found)).await;
        let status = || format!("waited in vain for {what}: {:?}", self.status.borrow().plugins.get(name));
        let answer = waited.with_context(status)?.context("Hark does not answer")?;
        let status = answer.plugins.get(name).cloned().context("it was there")?;
        Ok((answer.at, status))
    }
}
