//! Work that blocks, away from the async threads: each piece on a thread of its own.
//!
//! Used for preparing plugins and for reading files. tokio's own way (`spawn_blocking`) panics where the system gives no
//! thread; here that is an error like any other. Invariant: whoever waits is told the result, or why there is none.

use std::io;
use std::thread::Builder;

use tokio::sync::oneshot;

/// How to get threads where there are none to be had, for messages.
pub(crate) const THREADS_CURE: &str =
    "raise the limit of processes (ulimit -u, a pod's pids limit), or lower `concurrency`";

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The system gave no thread; nothing was done.
    #[error("no thread to be had: {0}; {THREADS_CURE}")]
    NoThread(io::Error),
    /// The work panicked.
    #[error("it failed in the host, which is a bug of the host's (see its log)")]
    Panicked,
}

/// Does `work` on a thread called `name`, and waits for what comes of it.
///
/// # Errors
/// [`Lost`].
pub(crate) async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Lost> {
    run_on(Builder::new().name(name.to_owned()), work).await
}

async fn run_on<T: Send + 'static>(
    thread: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Lost> {
    let (sender, done) = oneshot::channel();
    let work = move || {
        // Whoever waited may have gone.
        let _ = sender.send(work());
    };
    thread.spawn(work).map_err(Lost::NoThread)?;
    done.await.map_err(|_| Lost::Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_a_thread_with_its_name() {
        let name = run("aside", || std::thread::current().name().map(str::to_owned)).await;
        assert_eq!(name.expect("a thread").as_deref(), Some("aside"));
    }

    #[tokio::test]
    async fn a_panic_and_the_want_of_a_thread_are_errors() {
        assert!(matches!(run("aside", || panic!("on purpose")).await, Err::<(), _>(Lost::Panicked)));
        // A stack beyond all address space: the system refuses.
        let lost = run_on(Builder::new().stack_size(1 << 50), || ()).await.expect_err("no such thread");
        let message = lost.to_string();
        assert!(message.starts_with("no thread to be had: "), "{message}");
        assert!(message.ends_with("a pod's pids limit), or lower `concurrency`"), "{message}");
    }
}
