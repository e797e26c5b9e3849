//! What the manager does when a trial is over: nothing, or it brings the last good version back.
//!
//! The listener of a version that failed its trial holds until another one takes over, so nothing more breaks meanwhile. A
//! build that is saved then is prepared as ever: if it is taking over already, there is no way back but forward, and it is
//! on trial itself; if it is ready before the last good version is back, it waits for that, and takes over from it.
//!
//! Invariants: the way back is never under way twice; it ends in a version that takes over, or in the one that failed
//! going on, which is said; with the machine short of something it is tried again.

use hark_informer::listener::TrialVerdict;
use hark_sandbox::LogLevel;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::prepare::{Preparation, Prepared};
use super::running::Version;
use super::slot::{Known, Life};
use super::trial::{Old, Origin, Provenance};
use super::view::Shown;
use super::{Event, Manager};
use crate::kept::Fresh;
use crate::timings::Reload;

/// A trial that is over.
pub(super) struct Tried {
    plugin: String,
    life: Life,
    generation: u64,
    verdict: TrialVerdict,
}

impl Manager {
    /// Waits for the verdict on a version, unless it is replaced before.
    pub(super) fn await_verdict(
        &self,
        plugin: &str,
        life: Life,
        generation: u64,
        verdict: oneshot::Receiver<TrialVerdict>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (plugin, events) = (plugin.to_owned(), self.events.clone());
        async move {
            if let Ok(verdict) = verdict.await {
                let tried = Box::new(Tried { plugin, life, generation, verdict });
                // The manager is gone only when the host stops.
                let _ = events.send(Event::Tried(tried)).await;
            }
        }
    }

    pub(super) fn tried(&mut self, tried: Tried) {
        let Tried { plugin, life, generation, verdict } = tried;
        let Some(slot) = self.slots.get_mut(&plugin) else { return };
        if slot.life() != life || slot.at_work() != generation {
            return;
        }
        match verdict {
            TrialVerdict::Passed => {
                slot.trial.passed();
                self.write_down(&plugin, None);
            }
            TrialVerdict::Failed { attempts, cause } => self.failed(&plugin, attempts, &cause),
        }
    }

    /// A version broke at all its first events.
    fn failed(&mut self, plugin: &str, attempts: u32, cause: &str) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let (all, last) = match attempts {
            1 => ("first attempt".into(), ""),
            _ => (format!("first {attempts} attempts all"), ", the last one"),
        };
        if slot.is_taking_over() {
            let message = format!("its {all} broke it, and another version takes over: {cause}");
            self.output.news(plugin, LogLevel::Error, &message);
            return;
        }
        let why = format!("its {all} broke it{last}: {cause}");
        let Some((bad, good)) = slot.trial.failed(&why) else { return };
        let (bad, good) = (bad.short(), good.short());
        let message =
            format!("rolling back from {bad} to {good}: {why}; nothing is handed over until {good} is back");
        self.output.news(plugin, LogLevel::Error, &message);
        self.write_down(plugin, None);
        self.go_back(plugin);
    }

    /// Starts to prepare the last good version.
    pub(super) fn go_back(&mut self, plugin: &str) {
        let Some(slot) = self.slots.get(plugin) else { return };
        let way = slot.trial.way_back(&|hash| self.options.kept.path_of(hash));
        match (way, slot.last_file()) {
            (Some(Ok(good)), Some(file)) => {
                self.start_preparing(plugin, file.clone(), Instant::now(), Known::default(), Some(good));
            }
            (Some(Err(message)), _) => self.overrule(plugin, &message),
            // It is over; or there never was a file, and so nothing ran.
            (None, _) | (_, None) => {}
        }
    }

    /// What came of preparing it.
    pub(super) fn prepared_to_go_back(&mut self, prepared: Prepared) {
        let Prepared { plugin, result, .. } = prepared;
        let Some(slot) = self.slots.get(&plugin) else { return };
        if !slot.trial.is_going_back() {
            return;
        }
        match result {
            Preparation::Ready { version, ahead, provenance, timings } => {
                self.install(&plugin, *version, ahead, provenance, timings);
            }
            Preparation::Hindered { message } => self.go_back_later(&plugin, &message),
            Preparation::Failed { message, .. } => self.overrule(&plugin, &message),
            // It is neither looked for in the file, nor compared with what runs.
            Preparation::Same { .. } | Preparation::Stale => self.overrule(&plugin, "it is not to be had"),
        }
    }

    /// The machine lacks something: nothing is handed over until it is tried again.
    pub(super) fn go_back_later(&mut self, plugin: &str, message: &str) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        self.reloads.count(Reload::Hindered);
        let wait = slot.hindered_on_the_way_back();
        let message = format!("cannot roll back yet: {message}; tried again in {} s", wait.as_secs());
        self.output.news(plugin, LogLevel::Error, &message);
        let (plugin, life, events) = (plugin.to_owned(), slot.life(), self.events.clone());
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // As above.
            let _ = events.send(Event::GoBack { plugin, life }).await;
        });
    }

    /// There is nothing to go back to: the version that failed goes on.
    pub(super) fn overrule(&mut self, plugin: &str, message: &str) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        slot.trial.overrule(message);
        if let Some(running) = &slot.running {
            let runs = running.version.plugin.hash().short();
            let message = format!("cannot roll back: {message}; {runs} goes on");
            self.output.news(plugin, LogLevel::Error, &message);
            running.listener().go_on();
        }
        self.write_down(plugin, None);
        self.go_on_with_what_waits(plugin);
    }

    /// Keeps the books when a version has taken over, from an `old` one if one ran.
    pub(super) fn took_over(
        &mut self,
        plugin: &str,
        version: &Version,
        provenance: Provenance,
        on_trial: bool,
        old: Option<Old>,
    ) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let (hash, Provenance { origin, fresh }) = (*version.plugin.hash(), provenance);
        let is_first = old.is_none();
        slot.trial.took_over(hash, origin, version.config.rollback, on_trial, old);
        if let (Some(rolled_back), Origin::Back) = (slot.trial.rolled_back(), origin) {
            let (bad, good) = (rolled_back.hash.short(), hash.short());
            let message = format!(
                "rolled back: {good} runs again, and {bad} stays refused until another build takes over, or {good} is saved"
            );
            self.output.news(plugin, LogLevel::Warn, &message);
        } else if is_first {
            self.say_what_stands_in(plugin);
        }
        self.write_down(plugin, fresh.map(|fresh| *fresh));
        if origin == Origin::Back {
            self.go_on_with_what_waits(plugin);
        }
    }

    /// What is in the file was rolled back, if so, and something runs in its place.
    pub(super) fn say_what_stands_in(&self, plugin: &str) {
        let Some(slot) = self.slots.get(plugin) else { return };
        let (Some(rolled_back), Some(running)) = (slot.trial.rolled_back(), &slot.running) else { return };
        let path = slot.last_file().map(|file| file.path.display().to_string()).unwrap_or_default();
        let message = format!(
            "{path} has content that is refused: {}; the last good version {} runs in its place, until another build is saved",
            Shown(rolled_back),
            running.version.plugin.hash().short()
        );
        self.output.news(plugin, LogLevel::Warn, &message);
    }

    /// The way back is over: what became ready meanwhile has its turn.
    fn go_on_with_what_waits(&mut self, plugin: &str) {
        let waiting = self.slots.get_mut(plugin).and_then(|slot| slot.waiting.take());
        if let Some(waiting) = waiting {
            self.prepared(*waiting);
        }
    }

    /// Has what is known of a plugin's versions kept, if that has changed, with the bytes of the newest.
    pub(super) fn write_down(&mut self, plugin: &str, fresh: Option<Fresh>) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        if let Some(record) = slot.trial.news() {
            self.options.kept.keep(plugin, record, fresh);
        }
    }
}
