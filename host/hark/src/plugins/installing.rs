//! What the manager does with a version that has been prepared: it takes over, or what runs goes on.
//!
//! Invariants: a version that cannot take over leaves the running one in place; why is said once.

use hark_sandbox::LogLevel;
use tokio::time::Instant;

use super::Event;
use super::Manager;
use super::carried::Carried;
use super::prepare::{Preparation, Prepared};
use super::running::{Running, Version};
use super::slot::Slot;
use super::starting::Ahead;
use super::taking_over::{Swapped, TakingOver};
use crate::aside::Lost;
use crate::output::{Arrival, Change};
use crate::timings::{Reload, Timings};

impl Manager {
    pub(super) fn prepared(&mut self, prepared: Prepared) {
        let Prepared { plugin, file, config, result } = prepared;
        let Some(slot) = self.slots.get_mut(&plugin) else { return };
        match result {
            Preparation::Ready { version, ahead, timings } => {
                return self.install(&plugin, *version, ahead, timings);
            }
            Preparation::Same { hash } => {
                // Nobody noticed a change if it was only looked at once more.
                if !slot.same(hash) {
                    self.reloads.count(Reload::Unchanged);
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
        self.prepare(&plugin);
    }

    /// Hands the plugin over to a prepared version.
    fn install(&mut self, plugin: &str, version: Version, ahead: Ahead, mut timings: Timings) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        slot.generation += 1;
        let start = match version.start(ahead, plugin, slot.generation, &self.factory, &self.output) {
            Ok(start) => start,
            Err(message) => return self.not_started(plugin, message),
        };
        let Some(running) = &slot.running else {
            match Running::spawn(start, self.events.clone(), self.options.dead_letters.clone()) {
                Ok(running) => {
                    timings.end();
                    slot.settled();
                    self.reloads.count(Reload::Started);
                    self.announce(plugin, &running.version, None, timings);
                    if let Some(slot) = self.slots.get_mut(plugin) {
                        slot.running = Some(running);
                    }
                }
                Err(error) => self.without_threads(plugin, error),
            }
            return;
        };
        let (budget, listener) = (running.version.config.limits.budget, running.listener().clone());
        let swap = match running.swap(start) {
            Ok(swap) => swap,
            Err(error) => return self.without_threads(plugin, error),
        };
        slot.takes_over();
        let (plugin, output) = (plugin.to_owned(), self.output.clone());
        let taking_over = TakingOver { plugin, version, timings, budget, listener, output };
        let events = self.events.clone();
        tokio::spawn(async move {
            let swapped = taking_over.wait(swap).await;
            // As above.
            let _ = events.send(Event::Swapped(Box::new(swapped))).await;
        });
    }

    /// The system gives no thread, or not as many as a version wants.
    fn without_threads(&mut self, plugin: &str, error: std::io::Error) {
        if let Some(slot) = self.slots.get_mut(plugin) {
            slot.generation -= 1;
        }
        self.hindered(plugin, format!("cannot start its threads: {}", Lost::NoThread(error)));
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
    fn not_started(&mut self, plugin: &str, message: String) {
        self.output.news(plugin, LogLevel::Error, &message);
        if let Some(slot) = self.slots.get_mut(plugin) {
            slot.not_started(message);
            self.reloads.count(Reload::Refused);
        }
    }

    pub(super) fn swapped(&mut self, swapped: Swapped) {
        let Swapped { plugin, version, timings, report } = swapped;
        if let Some(slot) = self.slots.get_mut(&plugin) {
            slot.settled();
            if let (Some(report), Some(running)) = (report, &mut slot.running) {
                let old = std::mem::replace(&mut running.version, version.clone());
                let carried =
                    Carried::of(&report, old.plugin.has_lifecycle(), version.plugin.has_lifecycle());
                if let Some(carried) = &carried {
                    slot.hand_overs.note(carried.clone());
                }
                self.reloads.reloaded(&timings);
                let change = Change { before: old.plugin.hash(), report: &report, carried: carried.as_ref() };
                self.announce(&plugin, &version, Some(change), timings);
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

/// That the version before goes on, if there is one.
fn stays(slot: &Slot) -> String {
    match &slot.running {
        Some(running) => format!("; {} goes on", running.version.plugin.hash().short()),
        None => String::new(),
    }
}
