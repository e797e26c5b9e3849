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

/// How long a file is away that comes back before anybody minds.
const BLINK: Duration = Duration::from_millis(500);

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
    /// Whether that can take over.
    is_good: bool,
    /// What runs, or is about to.
    runs: Plan,
    /// Builds that ran before.
    earlier: Vec<Plan>,
    /// What the operator's file says of its plugin, by its names.
    treatments: [Treatment; 2],
    refusals: usize,
}

/// What is left of an actor.
pub struct Outcome {
    /// Its plugin's name in the end.
    pub name: String,
    /// What runs.
    pub runs: Plan,
    /// How often it saved what had to be refused, by the plugin's names.
    pub refusals: usize,
    /// Both names.
    pub names: [String; 2],
}

impl Actor {
    /// Puts the first build of a plugin into the folder, and waits until it runs.
    ///
    /// # Errors
    /// If it does not.
    pub async fn begin(
        stage: Arc<Stage>,
        status: watch::Receiver<Answer>,
        name: &str,
        seed: u64,
    ) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let runs = chance::plan(&mut rng, stage.builds.fetch_add(1, Ordering::Relaxed), None);
        let names = [name.to_owned(), format!("{name}-renamed")];
        let content = runs.build(&stage.fixtures)?;
        let is_good = true;
        let mut actor = Self {
            stage,
            status,
            rng,
            names,
            content: content.clone(),
            is_good,
            runs: runs.clone(),
            earlier: Vec::new(),
            treatments: <[Treatment; 2]>::default(),
            refusals: 0,
        };
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
            let step = chance::step(&mut self.rng);
            self.stage.note(self.name(), &format!("{step:?}"));
            let name = self.name().to_owned();
            self.step(step).await.with_context(|| format!("{name}: {step:?}"))?;
            let pause = self.rng.random_range(PAUSE);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.put_in_order().await?;
        let Self { names, runs, refusals, .. } = self;
        Ok(Outcome { name: names[0].clone(), runs, refusals, names })
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
            Step::Touch => self.save(self.content.clone(), How::Renamed).await,
            Step::Spoil(fault) => self.spoil(fault).await,
            Step::Blink => self.blink().await,
            Step::Remove => self.remove().await,
            Step::Rename => self.rename().await,
            Step::Configure if self.is_good => self.configure().await,
            Step::Configure | Step::Misconfigure => self.misconfigure().await,
        }
    }

    fn another(&mut self) -> Plan {
        let number = self.stage.builds.fetch_add(1, Ordering::Relaxed);
        chance::plan(&mut self.rng, number, Some(&self.runs))
    }

    /// Tells the model of a build before it can run.
    fn register(&mut self, content: &[u8], plan: &Plan) {
        self.stage.note(
            self.name(),
            &format!("build {} {}", &sha256(content)[..12], plan.text().replace('\n', "; ")),
        );
        self.stage.records().plans.insert(sha256(content), plan.clone());
    }

    async fn save_build(&mut self, plan: Plan) -> Result<()> {
        let content = plan.build(&self.stage.fixtures)?;
        self.register(&content, &plan);
        let listens =
            |plan: &Plan| plan.watches.iter().map(|watch| watch.listens_for().to_vec()).collect::<Vec<_>>();
        if plan.mood != Mood::Good || listens(&plan) != listens(&self.runs) {
            self.be_lax();
        }
        let before = std::mem::replace(&mut self.runs, plan);
        self.earlier.push(before);
        self.is_good = true;
        let how = chance::how(&mut self.rng);
        self.save(content, how).await
    }

    async fn save(&mut self, content: Vec<u8>, how: How) -> Result<()> {
        let path = self.path();
        match how {
            How::Renamed => {
                let beside = self.stage.folder.with_file_name(format!("{}.new", self.name()));
                std::fs::write(&beside, &content)?;
                std::fs::rename(beside, path)?;
            }
            How::InPlace => std::fs::write(path, &content)?,
            How::Halves(pause) => {
                let (first, second) = content.split_at(content.len() / 2);
                let mut file = std::fs::File::create(path)?;
                std::io::Write::write_all(&mut file, first)?;
                // The writer's own pace is the subject.
                tokio::time::sleep(Duration::from_millis(pause)).await;
                std::io::Write::write_all(&mut file, second)?;
            }
        }
        self.content = content;
        Ok(())
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
        let is_new = self.is_good || content != self.content;
        self.is_good = false;
        let (begun, before) = (now(), self.said_refused()?);
        let how = chance::how(&mut self.rng);
        self.save(content.clone(), how).await?;
        let hash = sha256(&content);
        let runs = self.runs_hash()?;
        self.until("a refusal", begun, |status| {
            let refused = status.refused.as_ref();
            let is_it = |refused: &Option<String>| refused.as_ref().is_none_or(|refused| *refused == hash);
            refused.is_some_and(|refused| is_it(&refused.sha256)) && is_running(status, &runs)
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

    async fn blink(&mut self) -> Result<()> {
        std::fs::remove_file(self.path())?;
        // How long it is away is the subject.
        tokio::time::sleep(BLINK).await;
        self.put_back(self.content.clone()).await
    }

    async fn remove(&mut self) -> Result<()> {
        self.settle().await?;
        std::fs::remove_file(self.path())?;
        self.is_stopped(self.name()).await?;
        let pause = self.rng.random_range(0..1000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let content = self.runs.build(&self.stage.fixtures)?;
        self.is_good = true;
        self.put_back(content).await?;
        self.runs_now().await
    }

    /// If the file holds what cannot take over, what runs is saved again.
    async fn put_in_order(&mut self) -> Result<()> {
        if !self.is_good {
            self.save_build(self.runs.clone()).await?;
            self.runs_now().await?;
        }
        Ok(())
    }

    async fn rename(&mut self) -> Result<()> {
        self.put_in_order().await?;
        self.settle().await?;
        let (from, old) = (self.path(), self.name().to_owned());
        self.names.swap(0, 1);
        self.treatments.swap(0, 1);
        self.record(|record| {
            record.added.push(now());
            record.present = true;
        });
        if self.merges() {
            self.be_lax();
        }
        std::fs::rename(from, self.path())?;
        self.runs_now().await?;
        self.is_stopped(&old).await
    }

    async fn put_back(&mut self, content: Vec<u8>) -> Result<()> {
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

    async fn configure(&mut self) -> Result<()> {
        self.settle().await?;
        let stage = self.stage.clone();
        let mut config = stage.config.lock().await;
        let after = chance::treatment(&mut self.rng, self.treatments[0]);
        self.stage.note(self.name(), &format!("{after:?}"));
        if after.merges() {
            self.be_lax();
        }
        self.treatments[0] = after;
        self.record(|record| record.treatments.push((now(), after)));
        let (begun, generation) = (now(), self.generation());
        config.write(&self.names[0], after, self.rng.random_bool(0.5))?;
        let is = |status: &Status| status.running.as_ref().is_some_and(|runs| runs.generation > generation);
        self.until("another version", begun, is).await?;
        drop(config);
        self.settles_if_strict().await
    }

    async fn misconfigure(&mut self) -> Result<()> {
        let stage = self.stage.clone();
        let config = stage.config.lock().await;
        let (before, _) = stage.log()?.config;
        let number = self.stage.builds.fetch_add(1, Ordering::Relaxed);
        config.spoil(&chance::mistake(&mut self.rng, number))?;
        soon("what is wrong with the operator's file", || Ok(stage.log()?.config.0 > before)).await?;
        config.mend()
    }

    fn generation(&self) -> u64 {
        let answer = self.status.borrow();
        let runs = answer.plugins.get(self.name()).and_then(|status| status.running.as_ref());
        runs.map_or(0, |runs| runs.generation)
    }

    /// Waits until what was saved last runs.
    async fn runs_now(&mut self) -> Result<()> {
        let (begun, wanted) = (now(), sha256(&self.content));
        self.until("its new build", begun, |status| is_running(status, &wanted)).await?;
        self.settles_if_strict().await
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
        let at = self.until("an empty queue", now(), idle).await?;
        let generation = self.generation();
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
    /// gives when that answer was there.
    async fn until(&self, what: &str, since: Moment, is: impl Fn(&Status) -> bool) -> Result<Moment> {
        let name = self.name();
        let found = |answer: &Answer| {
            let status = answer.plugins.get(name).filter(|_| answer.asked >= since);
            status.is_some_and(|status| !status.preparing && !status.taking_over && is(status))
        };
        let mut answers = self.status.clone();
        let waited = tokio::time::timeout(LIMIT, answers.wait_for(found)).await;
        let status = || format!("waited in vain for {what}: {:?}", self.status.borrow().plugins.get(name));
        Ok(waited.with_context(status)?.context("Hark does not answer")?.at)
    }
}

/// Whether this content runs.
fn is_running(status: &Status, hash: &str) -> bool {
    status.running.as_ref().is_some_and(|runs| runs.sha256 == hash)
}
