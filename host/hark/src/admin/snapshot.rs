//! Everything that the admin port speaks of, read at one moment: plain data that the documents are made from.
//!
//! Taken anew for each request, so nothing is sampled while nobody asks. Invariant: taking one waits for nobody but
//! the short locks of queues and caches, and keeps no informer alive afterwards.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hark_informer::delta_fifo::DeltaFifoStats;
use hark_informer::factory::Factory;
use hark_informer::listener::{Health, Joined, Listener, ListenerStats};
use hark_informer::reflector::{ReflectorMetrics, ReflectorStatus};
use hark_informer::resource::Selector;
use hark_informer::shared_informer::SharedInformer;
use hark_sandbox::{CompileStats, Engine};
use tokio::sync::watch;

use super::pulse::Pulse;
use crate::dead_letters::DeadLetters;
use crate::output::Output;
use crate::plugins::view::{PluginView, View};

/// Where the facts come from.
pub(crate) struct Sources {
    /// What the manager published last.
    pub(crate) views: watch::Receiver<Arc<View>>,
    /// Compiles the plugins.
    pub(crate) engine: Engine,
    /// The informers in use.
    pub(crate) factory: Arc<Factory>,
    /// Asks the manager's loop for a sign of life.
    pub(crate) pulse: Pulse,
    /// When the host began.
    pub(crate) started: SystemTime,
    /// For replaying them.
    pub(crate) dead_letters: DeadLetters,
    /// For what it lost.
    pub(crate) output: Arc<Output>,
}

/// See the file's head.
pub(super) struct Snapshot {
    pub(super) started: SystemTime,
    pub(super) view: Arc<View>,
    /// What was compiled.
    pub(super) compiled: CompileStats,
    /// Lines of log, screen and trace that were lost, by which of them.
    pub(super) lost_lines: Vec<(&'static str, u64)>,
    /// In the order of [`View::plugins`].
    pub(super) plugins: Vec<PluginFacts>,
    /// In the order of their selectors.
    pub(super) informers: Vec<InformerFacts>,
}

/// One plugin and its queue.
pub(super) struct PluginFacts {
    pub(super) view: PluginView,
    /// None while nothing runs.
    pub(super) queue: Option<ListenerStats>,
    /// None while nothing runs.
    pub(super) health: Option<Health>,
    /// By name; none while nothing runs.
    pub(super) joined: Vec<Joined>,
    /// CPU time of its threads.
    pub(super) cpu: Duration,
}

/// One informer.
pub(super) struct InformerFacts {
    pub(super) selector: Selector,
    pub(super) status: ReflectorStatus,
    /// The first list is in the cache.
    pub(super) synced: bool,
    pub(super) objects: usize,
    /// Of the objects' JSON text.
    pub(super) bytes: usize,
    /// Between the reflector and the cache.
    pub(super) queue: DeltaFifoStats,
    pub(super) metrics: Arc<ReflectorMetrics>,
}

impl Snapshot {
    /// The facts of this moment.
    pub(super) fn take(sources: &Sources) -> Self {
        let view = sources.views.borrow().clone();
        let plugins = view.plugins.iter().cloned().map(PluginFacts::of).collect();
        let informers =
            sources.factory.informers().iter().map(|informer| InformerFacts::of(informer)).collect();
        let compiled = sources.engine.stats();
        let lost_lines = sources.output.lost();
        Self { started: sources.started, view, compiled, lost_lines, plugins, informers }
    }
}

impl PluginFacts {
    fn of(view: PluginView) -> Self {
        let listener = view.running.as_ref().map(|running| &running.listener);
        let queue = listener.map(Listener::stats);
        let health = listener.map(Listener::health);
        let joined = listener.map(Listener::joined).unwrap_or_default();
        let cpu = view.usage.cpu();
        Self { view, queue, health, joined, cpu }
    }
}

impl InformerFacts {
    fn of(informer: &SharedInformer) -> Self {
        Self {
            selector: informer.selector().clone(),
            status: informer.status().borrow().clone(),
            synced: informer.has_synced(),
            objects: informer.indexer().len(),
            bytes: informer.indexer().bytes(),
            queue: informer.queue(),
            metrics: informer.metrics().clone(),
        }
    }
}
