//! Shared informers as a whole: source, reflector, queue, cache, listeners; their resyncs and their end.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Semaphore, mpsc};

use super::*;
use crate::handler::{Delivery, Event, EventHandler, HandleFuture, Outcome};
use crate::list_watch::{ListPage, ListParams, WatchEvent, WatchParams, WatchStream};
use crate::listener::{Ended, Listener, ListenerConfig, Subscription};
use crate::object::Object;
use crate::status::ApiError;
use crate::testing::object;

type Stream = mpsc::UnboundedReceiver<Result<WatchEvent, ApiError>>;

/// A source that lists what it is told to have, once it may, and passes on what it is told to have happened.
pub(crate) struct Feed {
    objects: Mutex<Vec<Arc<Object>>>,
    may_list: Semaphore,
    watch: Mutex<Option<mpsc::UnboundedSender<Result<WatchEvent, ApiError>>>>,
}

impl Feed {
    /// With as many lists as it may answer at once.
    pub(crate) fn new(lists: usize, objects: Vec<Arc<Object>>) -> Arc<Self> {
        let (objects, may_list) = (Mutex::new(objects), Semaphore::new(lists));
        Arc::new(Self { objects, may_list, watch: Mutex::default() })
    }

    pub(crate) fn allow_list(&self) {
        self.may_list.add_permits(1);
    }

    fn send(&self, event: WatchEvent) {
        let watch = self.watch.lock().expect("no panic");
        watch.as_ref().expect("a watch").send(Ok(event)).expect("somebody watches");
    }

    /// The collection changes without anybody being told, and the watch breaks in a way that makes a new list.
    fn lose(&self, objects: Vec<Arc<Object>>) {
        *self.objects.lock().expect("no panic") = objects;
        let mut status = crate::status::Status::default();
        (status.code, status.reason) = (410, "Expired".into());
        self.send(WatchEvent::Error(status));
    }

    fn stream(&self) -> WatchStream {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.watch.lock().expect("no panic") = Some(sender);
        let next = |mut receiver: Stream| async move { Some((receiver.recv().await?, receiver)) };
        futures::stream::unfold(receiver, next).boxed()
    }
}

impl ListerWatcher for Feed {
    fn list(&self, _: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        async {
            self.may_list.acquire().await.expect("it stays").forget();
            let items = self.objects.lock().expect("no panic").clone();
            Ok(ListPage { items, resource_version: "10".into(), continue_token: String::new() })
        }
        .boxed()
    }

    fn watch(&self, _: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let stream = self.stream();
        async { Ok(stream) }.boxed()
    }
}

type Told = Arc<Mutex<Vec<String>>>;

struct Tell(Told);

impl EventHandler for Tell {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        let (op, key) = (delivery.event.op(), delivery.event.key().name().to_owned());
        let more = match &delivery.event {
            Event::Add { initial: true, .. } => " initial",
            Event::Update { resync: true, .. } => " resync",
            _ => "",
        };
        self.0.lock().expect("told").push(format!("{op} {key}{more}"));
        Box::pin(async { Outcome::Ok })
    }
}

fn start(feed: &Arc<Feed>) -> Arc<SharedInformer> {
    let selector = Selector::new("v1", "Pod");
    Arc::new(SharedInformer::start(selector, feed.clone(), &Handle::current()))
}

fn subscription(
    name: &str,
    number: u32,
    informer: &Arc<SharedInformer>,
    resync: Option<Duration>,
) -> Subscription {
    Subscription { resync, ..Subscription::to_everything(name, number, informer.clone()) }
}

fn join(
    informer: &Arc<SharedInformer>,
    resync: Option<Duration>,
) -> (Listener, Told, tokio::task::JoinHandle<Ended>) {
    let (told, listener) = (Told::default(), Listener::new(ListenerConfig::default(), Arc::new(())));
    let subscription = subscription("pods", 0, informer, resync);
    let (running, handler) = (listener.clone(), Box::new(Tell(told.clone())));
    let task = tokio::spawn(async move { running.run(vec![handler], vec![subscription]).await });
    (listener, told, task)
}

fn take(told: &Told) -> Vec<String> {
    std::mem::take(&mut told.lock().expect("told"))
}

fn after(seconds: u64) -> impl Future<Output = ()> {
    tokio::time::sleep(Duration::from_secs(seconds))
}

fn pods(versions: [u32; 2]) -> Vec<Arc<Object>> {
    let names = ["n/pod1", "n/pod2"].iter().zip(versions);
    names.map(|(name, version)| object(name, name, &version.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn each_listener_is_resynced_by_its_own_period() {
    // TestListenerResyncPeriods; the informer itself has no period: 7.12 no. 16 is otherwise here.
    let informer = start(&Feed::new(1, pods([1, 2])));
    assert!(informer.synced().await);
    let periods = [None, Some(Duration::from_secs(2)), Some(Duration::from_secs(3)), Some(Duration::ZERO)];
    let joined: Vec<_> = periods.into_iter().map(|period| join(&informer, period)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for (_, told, _) in &joined {
        assert_eq!(take(told), ["add pod1 initial", "add pod2 initial"]);
    }
    let both = ["update pod1 resync".to_owned(), "update pod2 resync".to_owned()];
    for second in 1..=6_u64 {
        after(1).await;
        for ((_, told, _), period) in joined.iter().zip([0, 2, 3, 0]) {
            let due = period != 0 && second % period == 0;
            assert_eq!(take(told), if due { &both[..] } else { &[] }, "period {period} after {second} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_period_of_less_than_a_second_is_one_of_a_second() {
    // R-RP-1. The period may change while the listener runs.
    let informer = start(&Feed::new(1, pods([1, 2])));
    let (listener, told, _) = join(&informer, Some(Duration::from_millis(1)));
    assert!(listener.synced().await);
    take(&told);
    tokio::time::sleep(Duration::from_millis(990)).await;
    assert_eq!(take(&told), [""; 0]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(take(&told).len(), 2);
    let longer = vec![subscription("pods", 0, &informer, Some(Duration::from_secs(60)))];
    let handler = || -> Vec<Box<dyn EventHandler>> { vec![Box::new(Tell(told.clone()))] };
    listener
        .swap(crate::listener::Swap::new(handler(), longer, crate::listener::OnSwap::Continue))
        .await
        .expect("it swapped");
    after(59).await;
    assert_eq!(take(&told), [""; 0]);
    after(2).await;
    assert_eq!(take(&told).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_in_the_middle_of_a_round_takes_nothing_from_it() {
    let informer = SharedInformer::idle(Selector::new("v1", "Pod"));
    let sink: Arc<dyn crate::processor::Sink> = Arc::new(Nobody);
    let everything = informer.view_of_everything();
    informer.core().with(|processor, _| {
        processor.register(&sink, 1, Some(Duration::from_secs(10)), &everything);
        processor.register(&sink, 2, Some(Duration::from_secs(12)), &everything);
    });
    let mark = |after: u64, idle| {
        let now = tokio::time::Instant::now() + Duration::from_secs(after);
        informer.core().with(|processor, _| (processor.mark_due(now, idle), processor.due()))
    };
    assert_eq!(mark(10, true), (true, vec![1]));
    assert_eq!(mark(11, false), (false, vec![1]), "asked again because another schedule changed");
    assert_eq!(mark(12, false), (true, vec![1, 2]), "the first round is still under way");
    assert_eq!(mark(20, true), (true, vec![1]), "both are over");
}

struct Nobody;

impl crate::processor::Sink for Nobody {
    fn offer(&self, _: u64, _: Event) {}
    fn synced(&self, _: u64) {}
    fn excused(&self, _: u64, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_relist_tells_of_what_changed_and_a_resync_of_everything() {
    // TestSharedInformerWatchDisruption. Unchanged objects are told to nobody by the relist (R-RP-6, 7.12 no. 17).
    let feed = Feed::new(9, pods([1, 2]));
    let informer = start(&feed);
    let (plain, told, _) = join(&informer, None);
    let (resyncing, resynced, _) = join(&informer, Some(Duration::from_secs(3600)));
    assert!(plain.synced().await && resyncing.synced().await);
    take(&told);
    take(&resynced);
    let mut now = pods([1, 12]);
    now.push(object("n/pod3", "p3", "11"));
    feed.lose(now);
    after(60).await;
    for told in [&told, &resynced] {
        let mut seen = take(told);
        seen.sort();
        assert_eq!(seen, ["add pod3", "update pod2"]);
    }
    after(3600).await;
    assert_eq!(take(&told), [""; 0]);
    assert_eq!(take(&resynced), ["update pod1 resync", "update pod2 resync", "update pod3 resync"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_event_of_a_known_state_is_no_event() {
    // 7.12 no. 11: there a sync, here nothing (delivery contract 5).
    let feed = Feed::new(1, pods([1, 2]));
    let informer = start(&feed);
    let (listener, told, _) = join(&informer, None);
    assert!(listener.synced().await);
    after(1).await;
    take(&told);
    feed.send(WatchEvent::Modified(pods([1, 2]).remove(0)));
    feed.send(WatchEvent::Modified(pods([3, 2]).remove(0)));
    after(1).await;
    assert_eq!(take(&told), ["update pod1"]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_joins_late_is_told_what_exists_and_what_follows() {
    // TestAddWhileActive, the second half.
    let feed = Feed::new(1, vec![object("n/pod1", "p1", "1")]);
    let informer = start(&feed);
    let (early, told, _) = join(&informer, None);
    assert!(early.synced().await);
    after(1).await;
    let (late, late_told, _) = join(&informer, None);
    assert!(!late.has_synced());
    assert!(late.synced().await);
    feed.send(WatchEvent::Added(object("n/pod2", "p2", "11")));
    after(1).await;
    assert_eq!(take(&told), ["add pod1 initial", "add pod2"]);
    assert_eq!(take(&late_told), ["add pod1 initial", "add pod2"]);
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_once_and_for_all() {
    // TestStateSharedInformer, TestShutdown, R-SI-1, R-SI-3.
    let feed = Feed::new(1, pods([1, 2]));
    let informer = start(&feed);
    let (listener, told, task) = join(&informer, None);
    assert!(listener.synced().await);
    assert!(!informer.is_stopped());
    let again = informer.clone();
    let (other, ()) = tokio::join!(tokio::spawn(async move { again.shutdown().await }), informer.shutdown());
    other.expect("both wait");
    assert!(informer.is_stopped() && informer.has_synced());
    assert_eq!(informer.indexer().len(), 2, "the cache stays");
    informer.shutdown().await;
    listener.drain();
    assert_eq!(
        task.await.expect("it ends"),
        Ended::Drained { abandoned: 0 },
        "its listener goes on to its end"
    );
    assert_eq!(take(&told), ["add pod1 initial", "add pod2 initial"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_list_leaves_nobody_waiting() {
    let (never, ready) = (start(&Feed::new(0, vec![])), start(&Feed::new(1, pods([1, 2]))));
    let waits = never.clone();
    let waiter = tokio::spawn(async move { waits.synced().await });
    let (told, listener) = (Told::default(), Listener::new(ListenerConfig::default(), Arc::new(())));
    let joined = vec![subscription("never", 0, &never, None), subscription("ready", 1, &ready, None)];
    let (running, handler) = (listener.clone(), Box::new(Tell(told.clone())));
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    after(1).await;
    assert!(!waiter.is_finished());
    assert_eq!(take(&told), [""; 0], "the gate is closed");
    never.shutdown().await;
    assert!(!waiter.await.expect("the waiter"));
    assert!(listener.synced().await);
    assert_eq!(take(&told), ["add pod1 initial", "add pod2 initial"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_tasks() {
    let feed = Feed::new(1, pods([1, 2]));
    let informer = start(&feed);
    assert!(informer.synced().await);
    let tasks = informer.tasks.clone();
    assert_eq!(tasks.len(), 2);
    drop(informer);
    tasks.wait().await;
    assert_eq!(Arc::strong_count(&feed), 1);
}

/// Listeners that come and go while the source changes and the informer stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joining_and_leaving_while_everything_changes_leaves_nothing_behind() {
    // TestSharedInformerHandlerAbuse, TestSharedInformerInitializationRace.
    let feed = Feed::new(0, pods([1, 2]));
    let informer = start(&feed);
    let workers: Vec<_> = (0..20)
        .map(|worker: usize| {
            let informer = informer.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    let (listener, told, task) = join(&informer, None);
                    if (worker + round).is_multiple_of(3) {
                        tokio::task::yield_now().await;
                        listener.remove("pods");
                    } else if (worker + round) % 3 == 1 && !listener.synced().await {
                        return Err("it has not synced".to_owned());
                    }
                    listener.close_and_wait().await.map_err(|error| error.to_string())?;
                    task.await.map_err(|error| error.to_string())?;
                    let mut told = take(&told);
                    told.retain(|line| line.ends_with("initial"));
                    let before = told.len();
                    told.sort();
                    told.dedup();
                    if told.len() != before {
                        return Err(format!("{told:?} of {before}: something was told twice"));
                    }
                }
                Ok(())
            })
        })
        .collect();
    tokio::task::yield_now().await;
    feed.allow_list();
    assert!(informer.synced().await);
    for version in 11..2_000_u32 {
        let watching = feed.watch.lock().expect("no panic").clone();
        if let Some(watch) = watching {
            let name = format!("n/p{}", version % 7);
            let pod = object(&name, &name, &version.to_string());
            let event = if version % 5 == 0 { WatchEvent::Deleted(pod) } else { WatchEvent::Modified(pod) };
            watch.send(Ok(event)).expect("somebody watches");
        }
        tokio::task::yield_now().await;
    }
    for worker in workers {
        assert_eq!(worker.await.expect("no panic"), Ok(()));
    }
    assert_eq!(informer.core().with(|processor, _| processor.registered()), 0);
    informer.shutdown().await;
}
