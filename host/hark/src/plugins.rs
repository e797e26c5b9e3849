//! The plugin manager: keeps what runs in step with what lies in the folder and what the operator says.
//!
//! One task, one loop, one closed [`Event`] type: everything that can change what runs is listed there. For
//! each plugin there is one [`slot`]; preparing a version (read, compile, describe) happens away from the loop
//! and away from the events. Invariants: at most one version of a plugin is being prepared at a time; a version
//! that cannot be prepared leaves the running one in place and is reported once; a plugin stops only when its
//! file has been gone for [`GRACE`] from a folder that could be read.

mod content;
mod observer;
mod prepare;
mod running;
mod slot;
mod taking_over;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hark_informer::factory::Factory;
use hark_informer::listener::SwapReport;
use hark_sandbox::{Compile, Engine, LogLevel};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::admin::Heart;
use crate::aside::Lost;
use crate::config::PluginConfig;
use crate::core_dumps::DumpWriter;
use crate::dead_letters::DeadLetters;
use crate::folder::{self, ChangeWatch, Scan, Stamp};
use crate::host::ConfigFile;
use crate::output::{Arrival, Output, Timings};

use self::prepare::{Job, Permits, Preparation, Prepared};
use self::running::{Running, Version};
use self::slot::Slot;
use self::taking_over::{Swapped, TakingOver};
use self::view::{FolderState, View};

/// How long a file may be gone before its plugin stops, so that `rm` then `cp`, or an editor's way of saving,
/// is a change (design 4.12).
const GRACE: Duration = Duration::from_secs(2);

/// How long the configuration file must have been still before it is read: many ways of writing a file empty it
/// first, and an empty file is a valid one.
const CONFIG_STILL: Duration = Duration::from_millis(200);

/// What the manager works with.
pub(crate) struct ManagerOptions {
    /// The plugins folder.
    pub(crate) folder: PathBuf,
    /// Take `.wat` files too.
    pub(crate) allow_wat: bool,
    /// How plugins are compiled if the configuration does not say.
    pub(crate) compile: Compile,
    /// Shows that the loop turns.
    pub(crate) heart: Heart,
    /// Where what runs is published after each turn.
    pub(crate) view: watch::Sender<Arc<View>>,
    /// Where events go that are given up.
    pub(crate) dead_letters: DeadLetters,
    /// Where core dumps go, if they are kept.
    pub(crate) core_dumps: Option<Arc<DumpWriter>>,
}

/// Everything that can change what runs.
enum Event {
    /// It is time to look at the folder.
    Look,
    /// The configuration file changed.
    Configure,
    /// A version has been prepared, or not.
    Prepared(Box<Prepared>),
    /// A version has taken over from another.
    Swapped(Box<Swapped>),
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
    engine: Engine,
    factory: Arc<Factory>,
    output: Arc<Output>,
    slots: BTreeMap<String, Slot>,
    folder_state: FolderState,
    /// Stems that two files claim, with what is wrong about that.
    disputed: BTreeMap<String, String>,
    /// What was complained of at the last look, so that each fault is reported once.
    complaints: BTreeSet<String>,
    permits: Arc<Permits>,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
}

impl Manager {
    pub(crate) fn new(
        options: ManagerOptions,
        config: ConfigFile,
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
            engine,
            factory,
            output,
            slots: BTreeMap::new(),
            folder_state: FolderState::Unseen,
            disputed: BTreeMap::new(),
            complaints: BTreeSet::new(),
            permits,
            events,
            inbox,
        }
    }

    /// Runs until `stop` is ready, then lets the plugins finish what is queued.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut folder = ChangeWatch::new(self.options.folder.clone());
        tokio::spawn(watch_config(self.config.path().to_owned(), self.events.clone()));
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            let event = tokio::select! {
                () = &mut stop => Event::Stop,
                () = folder.next() => Event::Look,
                () = self.options.heart.asked() => Event::Asked,
                // The manager holds a sender itself, so there is always a next event.
                Some(event) = self.inbox.recv() => event,
            };
            match event {
                Event::Stop => break,
                Event::Look => self.look(),
                Event::Configure => self.configure(),
                Event::Prepared(prepared) => self.prepared(*prepared),
                Event::Swapped(swapped) => self.swapped(*swapped),
                Event::Died { plugin } => self.died(&plugin),
                Event::Asked => {
                    self.options.heart.beat();
                    continue;
                }
            }
            self.publish(false);
        }
        self.publish(true);
        let running = self.slots.into_values().filter_map(|slot| slot.running).collect();
        let stopped = running::stop_all(running, &self.factory, &self.output);
        tokio::select! { () = stopped => {}, () = self.options.heart.go_on() => {} }
    }

    /// Shows what runs now.
    fn publish(&self, stopping: bool) {
        let slots = self.slots.iter().map(|(name, slot)| slot.view(name)).collect();
        let view = View {
            folder: self.options.folder.clone(),
            folder_state: self.folder_state.clone(),
            config_error: self.config_error.clone(),
            stopping,
            plugins: view::with_disputes(slots, &self.disputed),
        };
        self.options.view.send_replace(Arc::new(view));
    }

    /// Looks at the folder and brings every slot up to date.
    fn look(&mut self) {
        let mut complaints = BTreeSet::new();
        match folder::scan(&self.options.folder, self.options.allow_wat) {
            Ok(scan) => {
                self.folder_state = FolderState::Readable;
                self.disputed = scan.disputes();
                complaints.extend(scan.complaints());
                complaints.extend(self.tables_without_plugin(&scan));
                self.update_slots(scan);
                if self.slots.is_empty() {
                    complaints.insert(format!(
                        "no plugins in {} yet: copy a .wasm file there",
                        self.options.folder.display()
                    ));
                }
            }
            Err(error) => {
                self.folder_state = FolderState::Unreadable(error.to_string());
                let folder = self.options.folder.display();
                complaints.insert(format!("cannot read plugins folder {folder}: {error}; what runs goes on"));
            }
        }
        for complaint in complaints.difference(&self.complaints) {
            tracing::warn!("{complaint}");
        }
        self.complaints = complaints;
        self.prepare_changed();
    }

    /// A misspelt name would otherwise be a table that silently means nothing.
    fn tables_without_plugin(&self, scan: &Scan) -> Vec<String> {
        let (config, folder) = (self.config.path().display(), self.options.folder.display());
        let known = |name: &String| scan.files.contains_key(name) || scan.disputed.contains_key(name);
        let names = self.config.current().plugin_names().filter(|name| !known(name));
        names
            .map(|name| format!("{config} has [plugins.{name}], but there is no {name}.wasm in {folder}"))
            .collect()
    }

    fn update_slots(&mut self, scan: Scan) {
        let now = Instant::now();
        for (plugin, file) in &scan.files {
            self.slots.entry(plugin.clone()).or_default().file_is(file.clone(), now);
        }
        let present = |plugin: &String| scan.files.contains_key(plugin) || scan.disputed.contains_key(plugin);
        let absent: Vec<String> = self.slots.keys().filter(|plugin| !present(plugin)).cloned().collect();
        for plugin in absent {
            let Some(slot) = self.slots.get_mut(&plugin) else { continue };
            if slot.file_is_gone_for(GRACE, now) {
                self.remove(&plugin);
            }
        }
    }

    fn remove(&mut self, plugin: &str) {
        let Some(slot) = self.slots.remove(plugin) else { return };
        if let Some(running) = slot.running {
            running.close();
            self.output.news(plugin, LogLevel::Info, "stopped: its file is gone");
        }
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
        let Some((file, noticed)) = slot.begin(&config, Instant::now()) else { return };
        let job = Job {
            plugin: plugin.to_owned(),
            file,
            config,
            noticed,
            known: slot.known(),
            allow_wat: self.options.allow_wat,
            compile: self.options.compile,
            engine: self.engine.clone(),
            output: self.output.clone(),
            usage: slot.usage.clone(),
            core_dumps: self.options.core_dumps.clone(),
        };
        let (permits, events) = (self.permits.clone(), self.events.clone());
        tokio::spawn(async move {
            let prepared = job.run(&permits).await;
            // The manager is gone only when the host stops.
            let _ = events.send(Event::Prepared(Box::new(prepared))).await;
        });
    }

    fn prepared(&mut self, prepared: Prepared) {
        let Prepared { plugin, file, config, result } = prepared;
        let Some(slot) = self.slots.get_mut(&plugin) else { return };
        match result {
            Preparation::Ready { version, timings } => return self.install(&plugin, *version, timings),
            Preparation::Same { hash } => slot.same(hash),
            Preparation::Stale => slot.try_again(),
            Preparation::Hindered { message } => return self.hindered(&plugin, message),
            Preparation::Failed { hash, message } => {
                let stays = stays(slot);
                let path = file.path.display();
                self.output.news(&plugin, LogLevel::Error, &format!("{path} is refused: {message}{stays}"));
                slot.refuse(hash, config, message);
            }
        }
        self.prepare(&plugin);
    }

    /// Hands the plugin over to a prepared version.
    fn install(&mut self, plugin: &str, version: Version, mut timings: Timings) {
        let Some(slot) = self.slots.get_mut(plugin) else { return };
        slot.generation += 1;
        let start = match version.start(plugin, slot.generation, &self.factory, &self.output) {
            Ok(start) => start,
            Err(message) => return self.not_started(plugin, message),
        };
        let Some(running) = &slot.running else {
            match Running::spawn(start, self.events.clone(), self.options.dead_letters.clone()) {
                Ok(running) => {
                    timings.total = slot.noticed.elapsed();
                    slot.settled();
                    self.announce(plugin, &running.version, None, timings);
                    if let Some(slot) = self.slots.get_mut(plugin) {
                        slot.running = Some(running);
                    }
                }
                Err(error) => self.without_threads(plugin, error),
            }
            return;
        };
        let budget = running.version.config.limits.budget;
        let swap = match running.swap(start) {
            Ok(swap) => swap,
            Err(error) => return self.without_threads(plugin, error),
        };
        slot.takes_over();
        let (plugin, noticed, output) = (plugin.to_owned(), slot.noticed, self.output.clone());
        let taking_over = TakingOver { plugin, version, timings, noticed, budget, output };
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
        }
    }

    fn swapped(&mut self, swapped: Swapped) {
        let Swapped { plugin, version, timings, report } = swapped;
        if let Some(slot) = self.slots.get_mut(&plugin) {
            slot.settled();
            if let (Some(report), Some(running)) = (report, &mut slot.running) {
                let old = std::mem::replace(&mut running.version, version.clone());
                self.announce(&plugin, &version, Some((&old, report)), timings);
            }
        }
        self.prepare(&plugin);
    }

    fn announce(
        &self,
        plugin: &str,
        version: &Version,
        before: Option<(&Version, SwapReport)>,
        timings: Timings,
    ) {
        self.output.arrived(&Arrival {
            plugin,
            name: &version.description.name,
            version: &version.description.version,
            hash: version.plugin.hash(),
            before: before.map(|(old, report)| (old.plugin.hash(), report)),
            subscriptions: &version.summary(),
            timings,
        });
    }

    /// Looks at the configuration file; plugins whose part of it changed get a new version.
    fn configure(&mut self) {
        let before: BTreeMap<String, PluginConfig> =
            self.slots.keys().map(|plugin| (plugin.clone(), self.config.current().plugin(plugin))).collect();
        let host = self.config.current().host.clone();
        match self.config.reload() {
            Ok(None) => self.config_error = None,
            Ok(Some(config)) => {
                let changed = before.iter().filter(|(plugin, old)| config.plugin(plugin) != **old).count();
                let plugins = if changed == 1 { "plugin" } else { "plugins" };
                tracing::info!("configuration reloaded: {changed} {plugins} affected");
                waits_for_the_next_start(&config.host.differing(&host));
                self.config_error = None;
                let now = Instant::now();
                for (plugin, slot) in &mut self.slots {
                    if before.get(plugin).is_some_and(|old| config.plugin(plugin) != *old) {
                        slot.noticed = now;
                    }
                }
                self.prepare_changed();
            }
            Err(error) => {
                let message = error.to_string();
                if self.config_error.as_deref() != Some(&message) {
                    tracing::error!("{message}\nwhat was configured before stays");
                    self.config_error = Some(message);
                }
            }
        }
    }

    /// A plugin's thread ended by itself: a fault of ours. The plugin is started again by the next look.
    fn died(&mut self, plugin: &str) {
        if self.slots.remove(plugin).is_some() {
            self.output.news(plugin, LogLevel::Error, "its thread ended unexpectedly: starting it again");
        }
    }
}

/// Keys of the host that have changed while it runs.
fn waits_for_the_next_start(keys: &[&str]) {
    match keys {
        [] => {}
        [key] => tracing::warn!("{key} changed: acts at the next start"),
        keys => tracing::warn!("{} changed: act at the next start", keys.join(", ")),
    }
}

/// That the version before goes on, if there is one.
fn stays(slot: &Slot) -> String {
    match &slot.running {
        Some(running) => format!("; {} goes on", running.version.plugin.hash().short()),
        None => String::new(),
    }
}

/// Says so when the configuration file has changed and been still for [`CONFIG_STILL`]. Ends with the manager.
async fn watch_config(path: PathBuf, events: mpsc::Sender<Event>) {
    let mut watch = ChangeWatch::new(path.clone());
    let mut acted_on = Stamp::read(&path);
    loop {
        watch.next().await;
        let mut stamp = Stamp::read(&path);
        if stamp == acted_on {
            continue;
        }
        loop {
            tokio::time::sleep(CONFIG_STILL).await;
            let now = Stamp::read(&path);
            if now == stamp {
                break;
            }
            stamp = now;
        }
        acted_on = stamp;
        if events.send(Event::Configure).await.is_err() {
            return;
        }
    }
}
