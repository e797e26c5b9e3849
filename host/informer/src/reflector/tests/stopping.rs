//! Starting, being held back, stopping, and what is told meanwhile.

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;

use super::super::*;
use super::support::*;
use crate::list_watch::{ListPage, ListParams, WatchParams, WatchStream};
use crate::status::ApiError;

#[tokio::test(start_paused = true)]
async fn a_reflector_cancelled_before_it_runs_asks_for_nothing() {
    let server = server(script(vec![list("1", &[])], vec![]));
    let reflector =
        Reflector::new(Arc::clone(&server) as _, Arc::new(Recorder::default()), ReflectorOptions::default());
    let status = reflector.status();
    let cancel = CancellationToken::new();
    cancel.cancel();
    reflector.run(cancel).await;
    assert!(server.requests.lock().expect("no panic").is_empty(), "TestReflectorWatchStoppedBefore");
    assert_eq!(status.borrow().phase, Phase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_dropped_on_cancelling() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    struct Silent(Arc<Notify>);
    impl ListerWatcher for Silent {
        fn list(&self, _: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
            futures::future::ready(list("1", &[])).boxed()
        }
        fn watch(&self, _: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
            let guard = Dropped(Arc::clone(&self.0));
            let stream = futures::stream::pending().inspect(move |_| {
                let _keep = &guard;
            });
            futures::future::ready(Ok(stream.boxed())).boxed()
        }
    }
    let dropped = Arc::new(Notify::new());
    let source = Arc::new(Silent(Arc::clone(&dropped)));
    let reflector = Reflector::new(source, Arc::new(Recorder::default()), ReflectorOptions::default());
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| status.phase == Phase::Watching).await.expect("running");
    cancel.cancel();
    running.await.expect("no panic");
    dropped.notified().await;
    assert_eq!(status.borrow().phase, Phase::Stopped, "TestReflectorWatchStoppedAfter, TestRunUntil, R-W-10");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_holds_the_watch_back_and_can_be_cancelled() {
    let events = vec![added("a", 2), added("b", 3), added("c", 4)];
    let server = server(script(vec![list("1", &[])], vec![Ok(events)]));
    let store = Arc::new(Recorder { full: true, ..Recorder::default() });
    let reflector = Reflector::new(server as _, Arc::clone(&store), ReflectorOptions::default());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(*store.calls.lock().expect("no panic"), ["replace@1 []", "add a@2"]);
    cancel.cancel();
    running.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn the_phase_says_what_it_is_waiting_for() {
    let lists = vec![Err(unreachable()), list("1", &[])];
    let server = server(script(lists, vec![Ok(vec![Step::Hang])]));
    let reflector = Reflector::new(server as _, Arc::new(Recorder::default()), ReflectorOptions::default());
    let mut status = reflector.status();
    assert_eq!(status.borrow().phase, Phase::Idle);
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    let waiting = status
        .wait_for(|status| matches!(status.phase, Phase::Waiting { .. }))
        .await
        .expect("running")
        .clone();
    assert!(matches!(waiting.phase, Phase::Waiting { until } if until > Instant::now()));
    assert_eq!(waiting.problem.map(|problem| problem.kind), Some(ProblemKind::Unreachable));
    assert!(!waiting.synced);
    let watching = status.wait_for(|status| status.phase == Phase::Watching).await.expect("running").clone();
    assert!(watching.synced);
    status.wait_for(|status| status.problem.is_none()).await.expect("healed a second later");
    cancel.cancel();
    running.await.expect("no panic");
}
