//! Plays one script on all clients at once, and compares what they were told.
//!
//! Used by the campaign. What keeps clients comparable that take their own time: changes are made only while
//! every client has an open watch, or surely none; and everybody is waited for (settling) wherever it would
//! otherwise matter who is how far. Settling means: every informer has a watch, every listener was told of a
//! marker object that changed after that, twice, and nobody sent a request meanwhile. So each state is either
//! seen by all clients or by none.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::actor::{Actor, FIRST};
use super::client_go::{Process, Queue};
use super::compare::{Difference, Facts, compare};
use super::rules::Tally;
use super::script::{Absence, Change, Ending, Hiccup, Script, Step};

/// How often a settling is tried that some client disturbs by asking again.
const SETTLINGS: usize = 8;

/// The processes to compare with.
pub type Rivals = [(Queue, Arc<Process>)];

/// How a script came out.
#[derive(Debug)]
pub(super) enum Verdict {
    /// All were told the same, but for what is counted, for each rival.
    Agree(Vec<(Queue, Tally)>),
    /// Hark and a rival were told different things.
    Differ(Queue, Box<Difference>),
    /// A client got stuck, or ended up with something else than the server has.
    Broken(anyhow::Error),
}

/// Plays a script. `name` tells it from others that run at the same time.
pub(super) async fn play(script: &Script, name: &str, rivals: &Rivals) -> Verdict {
    let player = match Player::start(script, name, rivals).await {
        Ok(player) => player,
        Err(error) => return Verdict::Broken(error),
    };
    match player.run().await {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Broken(error),
    }
}

struct Player<'a> {
    script: &'a Script,
    rivals: &'a Rivals,
    /// Hark, then the rivals.
    actors: Vec<Actor>,
    /// Listeners that are there, and all that ever asked for resyncs.
    listeners: Vec<String>,
    resyncing: BTreeSet<String>,
    joined: usize,
    facts: Facts,
    /// How many times all was settled.
    segment: usize,
    /// The clients are cut off.
    away: bool,
    /// A backup was restored while they are.
    restored: bool,
    /// All was settled since the watches were last ended.
    fresh: bool,
    /// Changes were lost which no list has shown since.
    lost: bool,
    losing: bool,
}

impl<'a> Player<'a> {
    async fn start(script: &'a Script, name: &str, rivals: &'a Rivals) -> Result<Self> {
        let mut actors = vec![Actor::start(script, None).await?];
        for (queue, process) in rivals {
            let name = format!("{name} {queue:?}");
            actors.push(Actor::start(script, Some((&name, process))).await?);
        }
        let facts = Facts {
            held: script.setup.held.is_some(),
            wider: script.setup.is_wider(),
            markers: actors[0].stage.resources.iter().map(|resource| resource.marker()).collect(),
            ..Facts::default()
        };
        let listeners = vec![FIRST.to_owned()];
        let resyncing = script.setup.resyncs.then(|| FIRST.to_owned()).into_iter().collect();
        Ok(Self {
            script,
            rivals,
            actors,
            listeners,
            resyncing,
            joined: 0,
            facts,
            segment: 0,
            away: false,
            restored: false,
            fresh: false,
            lost: false,
            losing: false,
        })
    }

    async fn run(mut self) -> Result<Verdict> {
        self.open().await.context("at the start")?;
        for (number, step) in self.script.steps.iter().enumerate() {
            self.step(step).await.with_context(|| format!("at step {number}, {step:?}"))?;
        }
        self.end().await.context("at the end")?;
        let verdict = self.compare();
        for actor in self.actors {
            actor.stop().await?;
        }
        Ok(verdict)
    }

    /// The beginning, up to the first settling.
    async fn open(&mut self) -> Result<()> {
        if let Some(changes) = &self.script.setup.held {
            for actor in &mut self.actors {
                // The first list of the first resource: what changes later is not of it.
                let markers = actor.stage.mark()?;
                actor.cached(&markers).await?;
            }
            for change in changes {
                self.change(*change)?;
            }
            for _ in 0..2 {
                for actor in &mut self.actors {
                    let markers = actor.stage.mark()?;
                    actor.cached(&markers).await?;
                }
            }
            self.close_segment();
            self.each(|actor| actor.stage.release_first_list());
        }
        for actor in &self.actors {
            actor.knows_all(FIRST, self.script.setup.selects).await?;
        }
        self.settle().await?;
        self.each(|actor| actor.stage.forgive());
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Change(change) => self.change(*change),
            Step::Settle => self.settle_unless_away().await,
            Step::Join { resyncs } => self.join(*resyncs).await,
            Step::Leave => self.leave().await,
            Step::Cut(ending) if !self.away => self.cut(*ending).await,
            Step::Away(absence) if !self.away => self.go_away(*absence).await,
            Step::Back(hiccups) if self.away => self.come_back(hiccups).await,
            // A wider informer hears of more, and so notices some losses earlier.
            Step::Lose(_) if self.script.setup.is_wider() => Ok(()),
            Step::Lose(lose) => {
                self.refresh().await?;
                self.losing = *lose;
                self.each(|actor| actor.stage.lose(*lose));
                Ok(())
            }
            Step::Compact => {
                // Else a client that selects may be at a version that is forgotten now, and list later.
                self.settle_unless_away().await?;
                self.each(|actor| actor.stage.server.faults().compact());
                Ok(())
            }
            Step::Restore { versions } if self.away => self.restore(*versions),
            Step::Resync if !self.away => self.resync().await,
            _ => Ok(()),
        }
    }

    fn each(&mut self, mut what: impl FnMut(&mut Actor)) {
        self.actors.iter_mut().for_each(&mut what);
    }

    fn change(&mut self, change: Change) -> Result<()> {
        self.lost |= self.losing;
        self.actors.iter_mut().try_for_each(|actor| actor.stage.change(change))
    }

    /// Settles if the clients may still be on their way back.
    async fn refresh(&mut self) -> Result<()> {
        if self.fresh || self.away { Ok(()) } else { self.settle().await }
    }

    async fn settle_unless_away(&mut self) -> Result<()> {
        if self.away { Ok(()) } else { self.settle().await }
    }

    /// See the file's head. Ends a segment.
    async fn settle(&mut self) -> Result<()> {
        for _ in 0..SETTLINGS {
            for actor in &self.actors {
                actor.watched().await?;
            }
            let requests = self.requests();
            // Twice: what waits together with the first marker, but behind it, has come when the second has.
            for _ in 0..2 {
                self.mark().await?;
            }
            if self.requests() == requests {
                self.fresh = true;
                self.close_segment();
                return Ok(());
            }
            self.facts.restless.insert(self.segment);
        }
        bail!("some client keeps asking for lists or watches")
    }

    fn requests(&self) -> Vec<usize> {
        self.actors.iter().map(|actor| actor.stage.requests().0).collect()
    }

    async fn mark(&mut self) -> Result<()> {
        let mut marked = Vec::new();
        for actor in &mut self.actors {
            marked.push((actor.position(), actor.stage.mark()?));
        }
        for (actor, (since, markers)) in self.actors.iter().zip(&marked) {
            actor.told(&self.listeners, markers, since).await?;
        }
        Ok(())
    }

    fn close_segment(&mut self) {
        self.segment += 1;
        self.each(Actor::settled);
    }

    async fn join(&mut self, resyncs: bool) -> Result<()> {
        self.settle_unless_away().await?;
        self.joined += 1;
        let listener = format!("late {}", self.joined);
        // client-go's informer never resyncs if it was made without a period (R-RP-4).
        let resyncs = resyncs && self.script.setup.resyncs;
        for actor in &mut self.actors {
            actor.join(&listener, resyncs, self.script.setup.lanes.max(1)).await?;
        }
        if resyncs {
            self.resyncing.insert(listener.clone());
        }
        self.listeners.push(listener);
        self.settle_unless_away().await
    }

    async fn leave(&mut self) -> Result<()> {
        if self.listeners.len() < 2 {
            return Ok(());
        }
        self.settle_unless_away().await?;
        if let Some(listener) = self.listeners.pop() {
            for actor in &mut self.actors {
                actor.leave(&listener).await?;
            }
        }
        Ok(())
    }

    /// Hark passes an event of an unknown type over and goes on, client-go lists: what was lost comes to light
    /// for one of them only.
    fn comparable(&self, ending: Ending) -> Ending {
        if self.lost && ending == Ending::UnknownType { Ending::Clean } else { ending }
    }

    async fn cut(&mut self, ending: Ending) -> Result<()> {
        let ending = self.comparable(ending);
        if ending.resumes() {
            self.refresh().await?;
        } else {
            // A list would show only the last of the states that were not sent yet.
            self.settle().await?;
        }
        self.each(|actor| actor.stage.end_watches(ending));
        self.fresh = false;
        if ending.resumes() { Ok(()) } else { self.settle().await }
    }

    async fn go_away(&mut self, absence: Absence) -> Result<()> {
        self.settle().await?;
        self.away = true;
        self.fresh = false;
        let absence = match absence {
            Absence::Held(ending) => Absence::Held(self.comparable(ending)),
            Absence::Refused => Absence::Refused,
        };
        for actor in &self.actors {
            actor.cut_off(absence).await;
        }
        Ok(())
    }

    async fn come_back(&mut self, hiccups: &[Hiccup]) -> Result<()> {
        if std::mem::take(&mut self.restored) {
            // A watch at a version that is still to come again would just wait for it.
            self.each(|actor| actor.stage.expire_watches());
        }
        if hiccups.iter().any(|hiccup| hiccup.may_look_long_lived()) {
            self.each(|actor| actor.stage.server.faults().compact());
        }
        for actor in &self.actors {
            actor.stage.hiccups(hiccups);
            let faults = actor.stage.server.faults();
            faults.release();
            if !faults.accept_connections().await {
                bail!("the server's port is gone");
            }
        }
        self.away = false;
        self.settle().await?;
        // What went wrong for one client less often than for another must not go wrong later.
        self.each(|actor| actor.stage.forgive());
        Ok(())
    }

    fn restore(&mut self, versions: u64) -> Result<()> {
        let restore = |actor: &Actor| {
            let server = &actor.stage.server;
            server.faults().restore(server.revision().saturating_sub(versions))
        };
        let restored: Vec<bool> = self.actors.iter().map(restore).collect();
        if restored.iter().any(|one| *one != restored[0]) {
            bail!("a backup could be restored on some stages only");
        }
        self.restored |= restored[0];
        Ok(())
    }

    async fn resync(&mut self) -> Result<()> {
        self.refresh().await?;
        let listeners: Vec<String> =
            self.listeners.iter().filter(|listener| self.resyncing.contains(*listener)).cloned().collect();
        for actor in &self.actors {
            actor.resynced(&listeners).await?;
        }
        Ok(())
    }

    /// Everybody comes back, and what was lost comes to light.
    async fn end(&mut self) -> Result<()> {
        if self.away {
            self.come_back(&[]).await?;
        }
        self.losing = false;
        self.each(|actor| actor.stage.lose(false));
        if self.lost {
            self.go_away(Absence::Held(Ending::Clean)).await?;
            for actor in &mut self.actors {
                // The history must lack something.
                actor.stage.mark()?;
                actor.stage.server.faults().compact();
            }
            self.come_back(&[]).await?;
        }
        self.settle().await?;
        for actor in &self.actors {
            actor.agrees_with_server(self.script.setup.selects, &self.listeners).await?;
        }
        Ok(())
    }

    fn compare(&self) -> Verdict {
        let hark = self.actors[0].trace();
        let mut tallies = Vec::new();
        for ((queue, _), rival) in self.rivals.iter().zip(&self.actors[1..]) {
            let facts = Facts {
                resyncing: self.resyncing.clone(),
                classic: *queue == Queue::Classic,
                ..self.facts.clone()
            };
            match compare(&hark, &rival.trace(), &facts) {
                Ok(tally) => tallies.push((*queue, tally)),
                Err(difference) => return Verdict::Differ(*queue, difference),
            }
        }
        Verdict::Agree(tallies)
    }
}
