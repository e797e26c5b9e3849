//! Many reflectors of one client: they list in turns, and do not come back together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

use super::super::*;
use super::support::*;
use crate::list_watch::{LISTS_AT_A_TIME, ListPage, ListParams, Turns, WatchEvent, WatchParams, WatchStream};
use crate::status::ApiError;

const MANY: usize = 100;

/// A server for all of them: a list takes a second, and every open watch breaks when told to.
#[derive(Default)]
struct Crowd {
    turns: Turns,
    streams: bool,
    /// So many lists never end.
    hanging: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    lists: Mutex<Vec<Instant>>,
    watches: AtomicUsize,
    broken: CancellationToken,
}

impl Crowd {
    /// A list, or the first part of a stream.
    async fn serve(&self) {
        self.lists.lock().expect("no panic").push(Instant::now());
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        let hangs = |left: usize| left.checked_sub(1);
        if self.hanging.fetch_update(Ordering::Relaxed, Ordering::Relaxed, hangs).is_ok() {
            std::future::pending().await
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn lists(&self) -> usize {
        self.lists.lock().expect("no panic").len()
    }

    /// When the lists from this one on began, seconds after `begin`.
    fn begun_after(&self, first: usize, begin: Instant) -> Vec<f64> {
        let lists = self.lists.lock().expect("no panic");
        lists[first..].iter().map(|at| (*at - begin).as_secs_f64()).collect()
    }
}

/// A handle of the crowd's server, for one reflector.
struct Member(Arc<Crowd>);

impl ListerWatcher for Member {
    fn supports_watch_list(&self) -> bool {
        self.0.streams
    }

    fn turn(&self) -> BoxFuture<'_, Turn> {
        self.0.turns.next().boxed()
    }

    fn list(&self, _: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        async {
            self.0.serve().await;
            list("1", &["a"])
        }
        .boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let crowd = Arc::clone(&self.0);
        crowd.watches.fetch_add(1, Ordering::Relaxed);
        let initial = params.initial_events;
        let first = async move {
            if initial {
                crowd.serve().await;
                return Ok(WatchEvent::Bookmark { resource_version: "1".into(), initial_events_end: true });
            }
            Ok(WatchEvent::Bookmark { resource_version: "1".into(), initial_events_end: false })
        };
        // Each watch breaks once at most.
        let broken =
            if self.0.broken.is_cancelled() { CancellationToken::new() } else { self.0.broken.clone() };
        let end = async move {
            broken.cancelled().await;
            Ok(WatchEvent::Error(expired()))
        };
        let events = futures::stream::once(first).chain(futures::stream::once(end));
        futures::future::ready(Ok(events.boxed())).boxed()
    }
}

struct Running {
    statuses: Vec<channel::Receiver<ReflectorStatus>>,
    _tasks: JoinSet<()>,
}

impl Running {
    fn start(crowd: &Arc<Crowd>) -> Self {
        let mut tasks = JoinSet::new();
        let start = |seed| {
            let options = ReflectorOptions { seed: Some(seed), ..ReflectorOptions::default() };
            let store = Arc::new(Recorder::default());
            let reflector = Reflector::new(Arc::new(Member(Arc::clone(crowd))), store, options);
            let status = reflector.status();
            tasks.spawn(reflector.run(CancellationToken::new()));
            status
        };
        let statuses = (0..MANY as u64).map(start).collect();
        Self { statuses, _tasks: tasks }
    }

    async fn listed(&mut self, times: u64) {
        for status in &mut self.statuses {
            let listed = status.wait_for(|status| status.lists >= times && status.phase == Phase::Watching);
            listed.await.expect("running");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_that_start_together_list_in_turns() {
    for streams in [false, true] {
        let crowd = Arc::new(Crowd { streams, ..Crowd::default() });
        let begin = Instant::now();
        Running::start(&crowd).listed(1).await;
        assert_eq!(crowd.most.load(Ordering::Relaxed), LISTS_AT_A_TIME, "streams: {streams}");
        assert_eq!(crowd.lists(), MANY, "each listed once");
        let rounds = MANY.div_ceil(LISTS_AT_A_TIME) as u64;
        assert_eq!(begin.elapsed().as_millis(), u128::from(rounds * 1000), "and nobody waited needlessly");
    }
}

#[tokio::test(start_paused = true)]
async fn many_that_lose_their_watches_together_come_back_spread_and_in_turns() {
    for streams in [false, true] {
        let crowd = Arc::new(Crowd { streams, ..Crowd::default() });
        let mut running = Running::start(&crowd);
        running.listed(1).await;
        let broken = Instant::now();
        crowd.broken.cancel();
        running.listed(2).await;
        assert_eq!(crowd.most.load(Ordering::Relaxed), LISTS_AT_A_TIME);
        let begun = crowd.begun_after(MANY, broken);
        assert!(begun.iter().all(|&at| at >= 0.8), "R-BO-1: {begun:?}");
        let first_second = begun.iter().filter(|&&at| at < 1.0).count();
        assert!((5..=LISTS_AT_A_TIME).contains(&first_second), "spread: {begun:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_hang_hold_the_others_back_for_a_bounded_time() {
    for streams in [false, true] {
        let crowd = Arc::new(Crowd { streams, hanging: LISTS_AT_A_TIME.into(), ..Crowd::default() });
        let begin = Instant::now();
        let _running = Running::start(&crowd);
        tokio::time::sleep(Duration::from_secs(31)).await;
        let begun = crowd.begun_after(0, begin);
        assert_eq!(begun.len(), MANY, "streams: {streams}");
        let waited = &begun[LISTS_AT_A_TIME..];
        assert!(waited.iter().all(|at| (10.0..=30.0).contains(at)), "{waited:?}");
        let busiest = (10..30).map(|second| {
            waited.iter().filter(|&&at| (f64::from(second)..f64::from(second + 1)).contains(&at)).count()
        });
        assert!(busiest.max() <= Some(LISTS_AT_A_TIME), "nor do they run out together: {waited:?}");
    }
}
