//! What the manager does with a version that has been prepared: it takes over, or what runs goes on.
//!
//! Invariants: a version that cannot take over leaves the running one in place; why is said once.

use std::num::NonZeroU32;

use hark_informer::listener::{Inherit, TrialVerdict};
use hark_sandbox::LogLevel;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Event;
use super::Manager;
use super::carried::Carried;
use super::prepare::{Preparation, Prepared};
use super::running::{OnTrial, Running, Start, Version};
use super::slot::Slot;
use super::starting::Ahead;
use super::taking_over::{Swapped, TakingOver};
use super::trial::{Old, Origin, Provenance};
use crate::aside::Lost;
use crate::output::{Arrival, Change};
use crate::timings::{Reload, Timings};

/// Where the verdict on a version comes.
type Verdict = oneshot::Receiver<TrialVerdict>;

/// A version that is about to take over.
struct Next {
    version: Version,
    provenance: Provenance,
    timings: Timings,
    /// If it is on trial.
    verdict: Option<Verdict>,
}

impl Manager {
    pub(super) fn prepared(&mut self, prepared: Prepared) {
        if !self.lives(&prepared.plugin, &prepared.life) {
            return;
        }
        if prepared.back {
            return self.prepared_to_go_back(prepared);
        }
        let Some(slot) = self.slots.get_mut(&prepared.plugin) else { return };
        if slot.trial.is_going_back() {
            // One after the other.
            slot.waiting = Some(Box::new(prepared));
            return;
        }
        let Prepared { plugin, file, config, result, .. } = prepared;
        match overtaken(slot, &result).unwrap_or(result) {
            Preparation::Ready { version, ahead, provenance, timings } => {
                return self.install(&plugin, *version, ahead, provenance, timings);
            }
            Preparation::Same { hash } => {
                let same = slot.same(hash, &config);
                // Nobody noticed a change if it was only looked at once more.
                if !same.once_more {
                    self.reloads.count(Reload::Unchanged);
                }
                if same.good_again {
                    self.output.news(&plugin, LogLevel::Info, "its file is good again");
                }
                if same.refused_again {
                    self.say_what_stands_in(&plugin);
                }
            }
            Preparation::Stale => {
                slot.try_again(Instant::now());
                self.looker.look();
            }
            Preparation::Hindered { message } => return self.hindered(&plugin, message),
            Preparation::Failed { hash, message } => {
                let stays = stays(slot);
                let path = file.path.display();
                self.output.news(&plugin, LogLevel::Error, &format!("{path} is refused: {message}{stays}"));
                slot.refuse(hash, config, message);
                self.reloads.count(Reload::Refused);
            }
        }
        self.write_down(&plugin, None);
        self.prepare(&plugin);
    }

    /// Hands the plugin over to a prepared version.
    pub(super) fn install(
        &mut self,
        plugin: &str,
        version: Version,
        ahead: Ahead,
        provenance: Provenance,
        timings: Timings,
    ) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let before = slot.running.as_ref().map(|running| running.listener().registrations());
        let subscriptions = match version.subscribe(&self.factory, &before.unwrap_or_default()) {
            Ok(subscriptions) => subscriptions,
            Err(message) => return self.not_started(plugin, provenance.origin, message),
        };
        slot.generation += 1;
        let attempts = slot.trial.attempts(version.plugin.hash(), version.config.rollback);
        let (trial, verdict) = attempts.map(trial).unzip();
        let start = Start {
            version: version.clone(),
            ahead,
            plugin: plugin.to_owned(),
            generation: slot.generation,
            output: self.output.clone(),
            subscriptions,
            trial,
        };
        let next = Next { version, provenance, timings, verdict };
        match slot.running {
            None => self.begin(plugin, start, next),
            Some(_) => self.swap(plugin, start, next),
        }
    }

    /// The plugin's first version begins.
    fn begin(&mut self, plugin: &str, start: Start, next: Next) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let Next { version, provenance, mut timings, verdict } = next;
        match Running::spawn(start, self.events.clone(), self.options.dead_letters.clone()) {
            Ok(running) => slot.running = Some(running),
            Err(error) => return self.without_threads(plugin, provenance.origin, error),
        }
        timings.swapped();
        slot.settled();
        let (life, generation) = (slot.life(), slot.generation);
        self.reloads.count(Reload::Started);
        self.announce(plugin, &version, None, timings);
        self.took_over(plugin, &version, provenance, verdict.is_some(), None);
        if let Some(verdict) = verdict {
            tokio::spawn(self.await_verdict(plugin, life, generation, verdict));
        }
    }

    /// Another version takes over as soon as no call is under way.
    fn swap(&mut self, plugin: &str, start: Start, next: Next) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let Some(running) = &slot.running else { return };
        let Next { version, provenance, timings, verdict } = next;
        let (budget, listener) = (running.version.config.limits.budget, running.listener().clone());
        let inherit = match provenance.origin {
            Origin::Back => Inherit::Given(slot.trial.legacies()),
            Origin::File | Origin::StandIn => Inherit::Predecessor,
        };
        let swap = match running.swap(start, inherit) {
            Ok(swap) => swap,
            Err(error) => return self.without_threads(plugin, provenance.origin, error),
        };
        if provenance.origin != Origin::Back {
            slot.takes_over();
        }
        let (life, generation, on_trial) = (slot.life(), slot.generation, verdict.is_some());
        let tried = verdict.map(|verdict| self.await_verdict(plugin, life.clone(), generation, verdict));
        let (plugin, output, events) = (plugin.to_owned(), self.output.clone(), self.events.clone());
        let taking_over =
            TakingOver { plugin, life, version, provenance, on_trial, timings, budget, listener, output };
        tokio::spawn(async move {
            let swapped = taking_over.wait(swap).await;
            // The manager is gone only when the host stops.
            let _ = events.send(Event::Swapped(Box::new(swapped))).await;
            // One after the other, so that the manager knows whom it is about.
            if let Some(tried) = tried {
                tried.await;
            }
        });
    }

    /// The system gives no thread, or not as many as a version wants.
    fn without_threads(&mut self, plugin: &str, origin: Origin, error: std::io::Error) {
        if let Some(slot) = self.slots.get_mut(plugin) {
            slot.generation -= 1;
        }
        let message = format!("cannot start its threads: {}", Lost::NoThread(error));
        match origin {
            Origin::Back => self.go_back_later(plugin, &message),
            Origin::File | Origin::StandIn => self.hindered(plugin, message),
        }
    }

    /// The machine lacks what a version takes: the one before, if any, goes on, and this one is tried again later.
    fn hindered(&mut self, plugin: &str, message: String) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        self.reloads.count(Reload::Hindered);
        let wait = slot.hindered(message.clone(), Instant::now());
        let stays = stays(slot);
        let message = format!("{message}; tried again in {} s{stays}", wait.as_secs());
        self.output.news(plugin, LogLevel::Error, &message);
    }

    /// A prepared version could not take over: the one before, if any, goes on.
    fn not_started(&mut self, plugin: &str, origin: Origin, message: String) {
        if origin == Origin::Back {
            return self.overrule(plugin, &message);
        }
        self.output.news(plugin, LogLevel::Error, &message);
        if let Some(slot) = self.slots.get_mut(plugin) {
            slot.not_started(message);
            self.reloads.count(Reload::Refused);
        }
    }

    pub(super) fn swapped(&mut self, swapped: Swapped) {
        let Swapped { plugin, life, version, provenance, on_trial, timings, report } = swapped;
        if !self.lives(&plugin, &life) {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&plugin) {
            let before = slot.at_work();
            match provenance.origin {
                Origin::Back => slot.went_back(),
                Origin::File | Origin::StandIn => slot.settled(),
            }
            if let (Some(report), Some(running)) = (report, &mut slot.running) {
                // Its verdict may still be on its way here.
                if running.has_passed(before) {
                    slot.trial.passed();
                }
                let old = std::mem::replace(&mut running.version, version.clone());
                let carried =
                    Carried::of(&report, old.plugin.has_lifecycle(), version.plugin.has_lifecycle());
                if let Some(carried) = &carried {
                    slot.hand_overs.note(carried.clone());
                }
                self.reloads.reloaded(&timings);
                let change = Change { before: old.plugin.hash(), report: &report, carried: carried.as_ref() };
                self.announce(&plugin, &version, Some(change), timings);
                let old = Old { plugin: old.plugin, legacies: report.saved };
                self.took_over(&plugin, &version, provenance, on_trial, Some(old));
            }
        }
        self.prepare(&plugin);
    }

    fn announce(&self, plugin: &str, version: &Version, change: Option<Change<'_>>, timings: Timings) {
        self.output.arrived(&Arrival {
            plugin,
            name: &version.description.name,
            version: &version.description.version,
            hash: version.plugin.hash(),
            change,
            subscriptions: &version.summary(),
            timings,
        });
    }
}

/// What a version comes to that became ready although something was rolled back since its preparation began, which it does
/// not know of; none if that makes no difference to it. What runs need not take over from itself, and what was rolled back
/// must not come again.
fn overtaken(slot: &Slot, result: &Preparation) -> Option<Preparation> {
    let Preparation::Ready { version, provenance, .. } = result else { return None };
    let hash = *version.plugin.hash();
    let refused = slot.trial.rolled_back().map(|rolled_back| rolled_back.hash);
    let stands_in = provenance.origin == Origin::StandIn;
    if !stands_in && version.config.rollback.is_some() && refused == Some(hash) {
        // With what is known now, the last good version stands in for it.
        return Some(Preparation::Stale);
    }
    let running = &slot.running.as_ref()?.version;
    let runs = *running.plugin.hash() == hash && running.config == version.config;
    let in_file = if stands_in { refused? } else { hash };
    runs.then_some(Preparation::Same { hash: in_file })
}

/// A trial of so many attempts, and where its verdict comes.
fn trial(attempts: NonZeroU32) -> (OnTrial, Verdict) {
    let (told, verdict) = oneshot::channel();
    (OnTrial { attempts, verdict: told }, verdict)
}

/// That the version before goes on, if there is one.
fn stays(slot: &Slot) -> String {
    match &slot.running {
        Some(running) => format!("; {} goes on", running.version.plugin.hash().short()),
        None => String::new(),
    }
}
