//! All builds of `hark dev`: those of the configuration as it is now, or the one of the command line.
//!
//! Used by the composition root. Invariants: a build that the configuration has no more is over, with all its processes,
//! before the new ones begin; when [`Builds::ended`] is done, none is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

use super::builder::{Builder, Queue};
use super::sources::{Own, absolute};
use crate::config::{Build, DevConfig};
use crate::output::Output;

/// How long a build may take to end: longer than its processes have before they are killed.
const ENDING: Duration = Duration::from_secs(5);

/// What all builds share.
pub(crate) struct Options {
    /// `--build`: comes before the configuration's.
    pub(crate) command: Option<String>,
    /// How many files a command may have open; none: no bound.
    pub(crate) files: Option<u64>,
    /// What the configuration's paths are relative to.
    pub(crate) base: PathBuf,
    /// What is no source of any.
    pub(crate) own: Own,
    pub(crate) output: Arc<Output>,
    /// `[dev]`, now and whenever it changes.
    pub(crate) config: watch::Receiver<DevConfig>,
}

/// See the file's head.
pub(crate) struct Builds {
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
}

/// One that runs.
struct Running {
    build: Build,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Builds {
    /// Runs them, each at once and then whenever its sources change.
    pub(crate) fn start(options: Options) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, ended) = oneshot::channel();
        tokio::spawn(async move {
            supervise(options, stopped).await;
            // Nobody may wait.
            let _ = tell.send(());
        });
        Self { stop: Some(stop), ended }
    }

    /// Ends all commands; none is started any more. Does not wait.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits until the last command has ended, but no longer than [`ENDING`].
    pub(crate) async fn ended(mut self) {
        self.stop();
        if tokio::time::timeout(ENDING, self.ended).await.is_err() {
            tracing::warn!("a build does not end; it is killed when Hark is gone");
        }
    }
}

async fn supervise(mut options: Options, mut stopped: oneshot::Receiver<()>) {
    // One command at a time: each takes all of the machine.
    let turns = Arc::new(Semaphore::new(1));
    let mut running: Vec<Running> = Vec::new();
    let mut anew = false;
    loop {
        let config = options.config.borrow_and_update().clone();
        let wanted = config.builds(&options.base, options.command.as_deref());
        let (stay, go): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|running| wanted.contains(&running.build));
        end(go, true).await;
        running = stay;
        let mut before = None;
        for build in wanted {
            if running.iter().all(|running| running.build != build) {
                let (tell, next) = oneshot::channel();
                let queue = Queue::new(turns.clone(), before.replace(next), tell);
                running.extend(begin(build, &options, queue, anew));
            }
        }
        tokio::select! {
            _ = &mut stopped => break,
            Ok(()) = options.config.changed() => anew = true,
        }
    }
    end(running, false).await;
}

/// Starts one; none: it cannot be, which is said. `anew`: the configuration has changed.
fn begin(build: Build, options: &Options, queue: Queue, anew: bool) -> Option<Running> {
    make_plugins_folder(&options.own.plugins);
    match Builder::new(&build, options, queue, anew) {
        Ok(builder) => {
            let (stop, stopped) = oneshot::channel();
            let task = tokio::spawn(builder.run(stopped));
            Some(Running { build, stop, task })
        }
        Err(error) => {
            tracing::error!("cannot build: {error}");
            None
        }
    }
}

/// Makes the plugins folder if there are builds: they fill it, so it need not be there before.
pub(crate) fn make_plugins_folder_if_built(config: &DevConfig, command: Option<&str>, folder: &Path) {
    if !config.builds(Path::new(""), command).is_empty() {
        make_plugins_folder(folder);
    }
}

fn make_plugins_folder(folder: &Path) {
    let made = absolute(folder).and_then(std::fs::create_dir_all);
    if let Err(error) = made {
        tracing::warn!("cannot make the plugins folder {}: {error}", folder.display());
    }
}

/// Ends these, all at the same time. `dropped`: the configuration has them no more, which they say.
async fn end(running: Vec<Running>, dropped: bool) {
    let tasks: Vec<JoinHandle<()>> = running
        .into_iter()
        .map(|Running { stop, task, .. }| {
            if dropped {
                // One that has ended, which is a fault and was said, has nothing to end.
                let _ = stop.send(());
            }
            task
        })
        .collect();
    for task in tasks {
        // One that panicked has said so; its command ended with it.
        let _ = task.await;
    }
}
