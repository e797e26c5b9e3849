//! Instances that were started ahead of their events, from the thread that prepares a version to its handlers.
//!
//! Filled by `prepare`, taken by `running`. Only versions that export `lifecycle` have any. Invariant: an instance that
//! was started and is not taken is told so, on a thread of its own, whoever lets go of it: its file changed again or is
//! gone, its fellow did not start, the host stops. Only where the system gives no thread is it dropped without a word to
//! it, which is said.

use std::sync::Arc;
use std::thread::Builder;

use hark_sandbox::{Context, Plugin, StartError, StartReason, Started};
use tokio::sync::watch;

use super::running::guest_runtime;

/// See the file's head. Empty at first.
pub(crate) struct Ahead {
    plugin: String,
    reason: StartReason,
    unused: Unused,
    started: Vec<Started>,
}

/// Counts the threads on which instances are told that they are not needed. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Unused(Arc<watch::Sender<usize>>);

/// Why a version does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("cannot start a runtime to start it: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Plugin(#[from] StartError),
}

impl NotStarted {
    /// Whether the machine lacks something, and the version is not to blame.
    pub(crate) fn is_want(&self) -> bool {
        matches!(self, Self::Runtime(_) | Self::Plugin(StartError::Starved(_)))
    }
}

impl Ahead {
    /// For a version of this plugin, which begins for this reason.
    pub(crate) fn new(plugin: &str, reason: StartReason, unused: &Unused) -> Self {
        Self { plugin: plugin.to_owned(), reason, unused: unused.clone(), started: Vec::new() }
    }

    /// Why the version begins.
    pub(crate) fn reason(&self) -> StartReason {
        self.reason
    }

    /// Starts so many instances of the version, one after the other. Foreign code: it may block this thread for as long
    /// as `limits.budget` says, for each of them.
    ///
    /// # Errors
    /// Why one does not start. Those before it are told that they are not needed.
    pub(crate) fn start(
        &mut self,
        plugin: &Plugin,
        context: &Context,
        count: usize,
    ) -> Result<(), NotStarted> {
        let runtime = guest_runtime().map_err(NotStarted::Runtime)?;
        for _ in 0..count {
            self.started.push(runtime.block_on(plugin.start(context, self.reason))?);
        }
        Ok(())
    }

    /// The next instance, for a handler.
    pub(crate) fn take(&mut self) -> Option<Started> {
        self.started.pop()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let started: Vec<Started> = self.started.drain(..).filter(Started::is_instance).collect();
        if started.is_empty() {
            return;
        }
        let count = started.len();
        let at_work = self.unused.begin();
        let thread = Builder::new().name(format!("unused:{}", self.plugin));
        let discard = move || {
            let _at_work = at_work;
            discard_all(started)
        };
        if let Err(error) = thread.spawn(discard) {
            tracing::warn!(
                "{}: {count} started instances are dropped without being stopped: {error}",
                self.plugin
            );
        }
    }
}

/// Without a runtime they go untold: their host functions would have no timers.
fn discard_all(started: Vec<Started>) {
    match guest_runtime() {
        Ok(runtime) => runtime.block_on(async {
            for one in started {
                one.discard().await;
            }
        }),
        Err(error) => tracing::warn!("started instances are dropped without being stopped: {error}"),
    }
}

/// One of those that are counted.
struct AtWork(Unused);

impl Unused {
    fn begin(&self) -> AtWork {
        self.0.send_modify(|count| *count += 1);
        AtWork(self.clone())
    }

    /// Waits until none is at work.
    pub(crate) async fn all_told(&self) {
        // The sender is here, so it does not end before.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hark_sandbox::{Compile, Engine, GuestLine, GuestLog, Limits, LoadOptions, Settings, Usage};

    use super::*;

    /// Says `start` and `stop` with their reasons' numbers, and is good for nothing else.
    const GUEST: &str = r#"(module
        (import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 64) "start 0")
        (data (i32.const 80) "stop 0")
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "hark:plugin/handler@0.1.0#describe") (result i32) unreachable)
        (func (export "hark:plugin/handler@0.1.0#on-add")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)
        (func (export "hark:plugin/handler@0.1.0#on-update")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)
        (func (export "hark:plugin/handler@0.1.0#on-delete")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)
        (func (export "hark:plugin/lifecycle@0.1.0#start") (param $why i32) (result i32)
            (i32.store8 (i32.const 70) (i32.add (i32.const 48) (local.get $why)))
            (call $log (i32.const 2) (i32.const 64) (i32.const 7))
            (i32.const 128))
        (func (export "hark:plugin/lifecycle@0.1.0#stop") (param $why i32)
            (i32.store8 (i32.const 85) (i32.add (i32.const 48) (local.get $why)))
            (call $log (i32.const 2) (i32.const 80) (i32.const 6)))
        (func (export "hark:plugin/lifecycle@0.1.0#save") (result i32) unreachable)
        (func (export "hark:plugin/lifecycle@0.1.0#restore") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "hark:plugin/lifecycle@0.1.0#synced") (param i32) unreachable))"#;

    #[derive(Default)]
    struct Said(Mutex<Vec<String>>);

    impl GuestLog for Said {
        fn line(&self, line: GuestLine<'_>) {
            self.0.lock().expect("lines").push(line.message.to_owned());
        }
    }

    #[tokio::test]
    async fn what_is_started_and_not_taken_is_told_that_it_is_not_needed() {
        let engine = Engine::new().expect("an engine");
        let options = LoadOptions { allow_wat: true, compile: Compile::Fast };
        let plugin = engine.load(GUEST.as_bytes(), options).expect("a plugin with lifecycle");
        let said = Arc::new(Said::default());
        let context = Context {
            settings: Arc::new(Settings::default()),
            limits: Limits::default(),
            log: said.clone(),
            usage: Arc::new(Usage::default()),
            core_dumps: None,
        };
        let unused = Unused::default();
        let mut ahead = Ahead::new("a", StartReason::Settings, &unused);
        // A thread of its own, as when a version is prepared: it has a runtime of its own.
        let starts = std::thread::spawn({
            let (plugin, context) = (plugin.clone(), context.clone());
            move || ahead.start(&plugin, &context, 3).map(|()| ahead)
        });
        let mut ahead = starts.join().expect("the thread").expect("it starts");
        let taken = ahead.take();
        assert!(taken.is_some_and(|started| started.is_instance()));
        drop(ahead);
        unused.all_told().await;
        let said = said.0.lock().expect("lines").clone();
        assert_eq!(said, ["start 2", "start 2", "start 2", "stop 4", "stop 4"]);
    }
}
