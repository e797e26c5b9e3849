//! The plugin manager: keeps what runs in step with what lies in the folder and what the operator says.
//!
//! One task, one loop, one closed [`Event`] type: everything that can change what runs is listed there. For
//! each plugin there is one [`slot`]; preparing a version (read, compile, describe) happens away from the loop
//! and away from the events. Invariants: at most one version of a plugin is being prepared at a time; a version
//! that cannot be prepared leaves the running one in place and is reported once.
//!
//! | file | subject |
//! | --- | --- |
//! | `looking`, `complaints` | what lies in the folder, and what is wrong there |
//! | `configuring` | what the operator says |
//! | `slot` | what is known of one plugin |
//! | `tries`, `pace` | when a version of it is begun |
//! | `prepare`, `loading`, `content`, `starting` | a version on its way |
//! | `installing`, `taking_over`, `carried` | a version that is ready |
//! | `running`, `reporting`, `observer` | a version that runs |
//! | `stopping` | the end of all of them |
//! | `trial`, `rolling_back` | whether it is any good, and what follows if it is not |
//! | `view` | what others may see |

pub(crate) mod carried;
mod complaints;
mod configuring;
pub(crate) mod content;
mod installing;
mod loading;
mod looking;
mod observer;
mod pace;
mod prepare;
mod reporting;
mod rolling_back;
mod running;
mod slot;
mod starting;
mod stopping;
mod taking_over;
mod trial;
mod tries;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use hark_informer::factory::Factory;
use hark_sandbox::{Compile, Engine, LogLevel};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::admin::Heart;
use crate::config::DevConfig;
use crate::core_dumps::DumpWriter;
use crate::dead_letters::DeadLetters;
use crate::folder::{Looker, PluginFile, Seen};
use crate::host::ConfigFile;
use crate::kept::KeptVersions;
use crate::output::Output;
use crate::timings::ReloadStats;

use self::complaints::Complaints;
use self::prepare::{Job, Permits, Prepared};
use self::rolling_back::Tried;
use self::running::Running;
use self::slot::{Begin, Known, Life, Slot};
use self::starting::Unused;
use self::taking_over::Swapped;
use self::trial::Elsewhere;
use self::view::View;

/// What the manager works with.
pub(crate) struct ManagerOptions {
    /// The plugins folder.
    pub(crate) folder: PathBuf,
    /// Take `.wat` files too.
    pub(crate) allow_wat: bool,
    /// How plugins are compiled if the configuration does not say.
    pub(crate) compile: Compile,
    /// Where `[dev]` goes whenever it changes.
    pub(crate) dev: watch::Sender<DevConfig>,
    /// Shows that the loop turns.
    pub(crate) heart: Heart,
    /// Where what runs is published after each turn.
    pub(crate) view: watch::Sender<Arc<View>>,
    /// Where events go that are given up.
    pub(crate) dead_letters: DeadLetters,
    /// Where it is written down what is good, and what was rolled back.
    pub(crate) kept: KeptVersions,
    /// Where core dumps go, if they are kept.
    pub(crate) core_dumps: Option<Arc<DumpWriter>>,
}

/// Everything that can change what runs.
enum Event {
    /// A look at the folder found something else than the one before; `false`: there will be no more looks.
    Seen(bool),
    /// The configuration file was read.
    Configure,
    /// It is time to try a version, or to try it again.
    Due,
    /// A version has been prepared, or not.
    Prepared(Box<Prepared>),
    /// A version has taken over from another.
    Swapped(Box<Swapped>),
    /// A trial is over.
    Tried(Box<Tried>),
    /// It is time to try once more to bring a plugin's last good version back.
    GoBack { plugin: String, life: Life },
    /// A plugin's thread has ended although nobody asked it to.
    Died { plugin: String },
    /// Somebody asks whether the loop turns.
    Asked,
    /// A signal.
    Stop,
}

/// See the file's head.
pub(crate) struct Manager {
    options: ManagerOptions,
    config: ConfigFile,
    config_error: Option<String>,
    /// Keys of `[host]` that were last said to act at the next start.
    waiting: Vec<&'static str>,
    engine: Engine,
    factory: Arc<Factory>,
    output: Arc<Output>,
    slots: BTreeMap<String, Slot>,
    looker: Looker,
    /// What the looks found last.
    seen: Arc<Seen>,
    complaints: Complaints,
    reloads: ReloadStats,
    permits: Arc<Permits>,
    /// Plugins whose files are gone, until they have ended.
    leaving: Vec<Running>,
    unused: Unused,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
}

impl Manager {
    pub(crate) fn new(
        options: ManagerOptions,
        config: ConfigFile,
        looker: Looker,
        engine: Engine,
        factory: Arc<Factory>,
        output: Arc<Output>,
    ) -> Self {
        // Each plugin sends at most one message at a time, so the bound only paces a folder of hundreds.
        let (events, inbox) = mpsc::channel(64);
        let permits = Arc::new(Permits::default());
        Self {
            options,
            config,
            config_error: None,
            waiting: Vec::new(),
            engine,
            factory,
            output,
            slots: BTreeMap::new(),
            looker,
            seen: Arc::default(),
            complaints: Complaints::default(),
            reloads: ReloadStats::default(),
            permits,
            leaving: Vec::new(),
            unused: Unused::default(),
            events,
            inbox,
        }
    }

    /// Runs until `stop` is ready, then lets the plugins finish what is queued.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut looks = true;
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            let due = self.slots.values().filter_map(Slot::due).chain(self.complaints.due()).min();
            let event = tokio::select! {
                () = &mut stop => Event::Stop,
                seen = self.looker.seen.changed(), if looks => Event::Seen(seen.is_ok()),
                Ok(()) = self.looker.configuration.changed() => Event::Configure,
                () = reached(due) => Event::Due,
                () = self.options.heart.asked() => Event::Asked,
                // The manager holds a sender itself, so there is always a next event.
                Some(event) = self.inbox.recv() => event,
            };
            match event {
                Event::Stop => break,
                Event::Seen(true) => {
                    let seen = self.looker.seen.borrow_and_update().clone();
                    self.seen(seen);
                }
                Event::Seen(false) => {
                    looks = false;
                    self.blind();
                }
                Event::Configure => self.configure(),
                Event::Due => {
                    self.complaints.say(Instant::now());
                    self.prepare_changed();
                }
                Event::Prepared(prepared) => self.prepared(*prepared),
                Event::Swapped(swapped) => self.swapped(*swapped),
                Event::Tried(tried) => self.tried(*tried),
                Event::GoBack { plugin, life } => {
                    if self.lives(&plugin, &life) {
                        self.go_back(&plugin);
                    }
                }
                Event::Died { plugin } => self.died(&plugin),
                Event::Asked => {
                    self.options.heart.beat();
                    continue;
                }
            }
            self.publish(false);
        }
        self.publish(true);
        // Versions that are ready, and will not take over any more.
        drop(self.inbox);
        let running = self.slots.into_values().filter_map(|slot| slot.running).collect();
        let stopped = stopping::stop_all(running, self.leaving, &self.unused, &self.factory, &self.output);
        tokio::select! { () = stopped => {}, () = self.options.heart.go_on() => {} }
    }

    /// Shows what runs now.
    fn publish(&self, stopping: bool) {
        let slots = self.slots.iter().map(|(name, slot)| slot.view(name)).collect();
        let view = View {
            folder: self.options.folder.clone(),
            folder_state: self.seen.state.clone(),
            folder_way: self.seen.way.clone(),
            looks: self.looker.stats.clone(),
            config_error: self.config_error.clone(),
            stopping,
            reloads: self.reloads,
            plugins: view::with_disputes(slots, &complaints::disputes(&self.seen.disputed)),
        };
        self.options.view.send_replace(Arc::new(view));
    }

    /// Whether what was begun in this life of a plugin is of use still.
    fn lives(&self, plugin: &str, life: &Life) -> bool {
        self.slots.get(plugin).is_some_and(|slot| slot.life() == *life)
    }

    /// Starts to prepare every version that is new and not being prepared.
    fn prepare_changed(&mut self) {
        let plugins: Vec<String> = self.slots.keys().cloned().collect();
        for plugin in plugins {
            self.prepare(&plugin);
        }
    }

    /// Starts to prepare a plugin's version if it is new and none is being prepared.
    fn prepare(&mut self, plugin: &str) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        let config = self.config.current().plugin(plugin);
        let (file, noticed) = match slot.begin(&config, Instant::now()) {
            Begin::Version(file, noticed) => (file, noticed),
            Begin::Nothing => return,
            Begin::Paced => {
                let message = "its file changes all the time: one version a second is taken from now on";
                return self.output.news(plugin, LogLevel::Warn, message);
            }
        };
        let known = slot.known(&|hash| self.options.kept.path_of(hash));
        self.start_preparing(plugin, file, noticed, known, None);
    }

    /// Has a version prepared: of the file, or one to go `back` to.
    fn start_preparing(
        &self,
        plugin: &str,
        file: PluginFile,
        noticed: Instant,
        known: Known,
        back: Option<Elsewhere>,
    ) {
        let Some(slot) = self.slots.get(plugin) else { return };
        let config = self.config.current().plugin(plugin);
        let job = Job {
            plugin: plugin.to_owned(),
            life: slot.life(),
            file,
            back,
            config,
            noticed,
            known,
            seen: self.looker.seen.clone(),
            allow_wat: self.options.allow_wat,
            compile: self.options.compile,
            engine: self.engine.clone(),
            output: self.output.clone(),
            usage: slot.usage.clone(),
            core_dumps: self.options.core_dumps.clone(),
            unused: self.unused.clone(),
        };
        let (permits, events) = (self.permits.clone(), self.events.clone());
        tokio::spawn(async move {
            let prepared = job.run(&permits).await;
            // The manager is gone only when the host stops.
            let _ = events.send(Event::Prepared(Box::new(prepared))).await;
        });
    }

    /// A plugin's thread ended by itself: a fault of ours. The plugin is started again.
    fn died(&mut self, plugin: &str) {
        if let Some(slot) = self.slots.get_mut(plugin) {
            slot.died(Instant::now());
            self.output.news(plugin, LogLevel::Error, "its thread ended unexpectedly: starting it again");
        }
    }
}

/// Waits for a moment; for ever if there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
