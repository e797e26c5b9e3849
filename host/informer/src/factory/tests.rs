//! The factory: one informer for each selector, waiting for all of them, the end of all of them.

use std::time::Duration;

use super::*;
use crate::filter::FilterSpec;
use crate::handler::{Delivery, EventHandler, HandleFuture, Outcome};
use crate::listener::{Listener, ListenerConfig, OnSwap, Registration, Subscription, Swap};
use crate::reflector::InitialList;
use crate::shared_informer::tests::Feed;
use crate::testing::object;

/// A factory whose informers have one object each, but for the kind `Slow`, whose list never comes.
fn factory() -> Factory {
    let source = |selector: &Selector| -> Arc<dyn ListerWatcher> {
        let lists = usize::from(selector.kind != "Slow");
        Feed::new(lists, vec![object("n/a", "u", "1")])
    };
    Factory::with_source(source, Handle::current())
}

fn kind(kind: &str) -> Selector {
    Selector::new("v1", kind)
}

#[tokio::test(start_paused = true)]
async fn equal_selectors_share_an_informer_which_ends_with_its_last_user() {
    // TestFilteredDynamicSharedInformerFactory in part, R-FA-1; 7.12 no. 18: asked for twice.
    let factory = factory();
    let pods = factory.informer(&kind("Pod")).expect("it runs");
    let same = factory.informer(&kind("Pod")).expect("it runs");
    assert!(Arc::ptr_eq(&pods, &same));
    let other = factory.informer(&kind("Pod").in_namespace("n")).expect("it runs");
    assert!(!Arc::ptr_eq(&pods, &other));
    let running: Vec<String> =
        factory.informers().iter().map(|informer| informer.selector().to_string()).collect();
    assert_eq!(running, ["v1/Pod", "v1/Pod in n"]);
    drop((pods, same));
    assert_eq!(factory.informers().len(), 1);
    let anew = factory.informer(&kind("Pod")).expect("it runs");
    assert!(!anew.has_synced(), "another one");
}

#[tokio::test(start_paused = true)]
async fn waiting_says_which_informers_have_synced() {
    // TestWaitFor, TestSyncResult, R-FA-5, R-SI-6.
    let factory = factory();
    let cancel = CancellationToken::new();
    assert_eq!(factory.wait_for_sync(&cancel).await.into_result(), Ok(()), "none at all");
    let _pods = factory.informer(&kind("Pod")).expect("it runs");
    assert_eq!(factory.wait_for_sync(&cancel).await.into_result(), Ok(()));
    let slow = factory.informer(&kind("Slow")).expect("it runs");
    let slower = factory.informer(&kind("Slow").in_namespace("n")).expect("it runs");
    let (ends, later) = (cancel.clone(), Duration::from_secs(60));
    tokio::spawn(async move {
        tokio::time::sleep(later).await;
        ends.cancel();
    });
    let began = tokio::time::Instant::now();
    let result = factory.wait_for_sync(&cancel).await;
    assert_eq!(began.elapsed(), later);
    assert_eq!(result.synced.values().copied().collect::<Vec<_>>(), [true, false, false]);
    let error = result.into_result().expect_err("two are missing");
    assert_eq!(
        error.to_string(),
        "failed to sync all caches: v1/Slow, v1/Slow in n: the waiting was cancelled"
    );
    let pods = factory.informer(&kind("Pod")).expect("it runs");
    let result = wait_for_sync(&[pods], &cancel).await;
    assert_eq!(result.into_result(), Ok(()), "who has synced has, though the waiting is cancelled already");
    let set = [slow.clone(), slower];
    let both = CancellationToken::new();
    let (result, ()) = tokio::join!(wait_for_sync(&set, &both), async {
        slow.stop();
        tokio::time::sleep(later).await;
        both.cancel();
    });
    assert_eq!(result.cause, Some(Cause::Cancelled), "one was stopped, the other was waited for");
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_nothing_runs_and_nothing_starts() {
    // R-FA-4; 7.12 no. 18: after Shutdown; TestAddOnStoppedSharedInformer.
    let factory = Arc::new(factory());
    let pods = factory.informer(&kind("Pod")).expect("it runs");
    let slow = factory.informer(&kind("Slow")).expect("it runs");
    assert!(pods.synced().await);
    let also = factory.clone();
    let other = tokio::spawn(async move { also.shutdown().await });
    factory.shutdown().await;
    other.await.expect("both wait");
    assert!(pods.is_stopped() && slow.is_stopped());
    assert!(!wait_for_sync(&[slow], &CancellationToken::new()).await.synced[&kind("Slow")]);
    let error = factory.informer(&kind("Pod")).err().expect("it is shut down");
    assert_eq!(error.to_string(), "no informer for v1/Pod: its factory was shut down");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn options_reach_the_reflectors() {
    struct Asks(Mutex<Vec<u32>>);
    impl ListerWatcher for Asks {
        fn supports_watch_list(&self) -> bool {
            true
        }
        fn list(
            &self,
            params: crate::list_watch::ListParams,
        ) -> futures::future::BoxFuture<'_, Result<crate::list_watch::ListPage, crate::status::ApiError>>
        {
            self.0.lock().expect("no panic").push(params.limit);
            Box::pin(std::future::ready(Ok(crate::list_watch::ListPage::default())))
        }
        fn watch(
            &self,
            _: crate::list_watch::WatchParams,
        ) -> futures::future::BoxFuture<'_, Result<crate::list_watch::WatchStream, crate::status::ApiError>>
        {
            Box::pin(std::future::pending())
        }
    }
    let asks = Arc::new(Asks(Mutex::default()));
    let source = asks.clone();
    let options = ReflectorOptions {
        initial_list: InitialList::List,
        page_size: Some(77),
        ..ReflectorOptions::default()
    };
    let factory = Factory::with_source(move |_| source.clone(), Handle::current()).with_options(options);
    let informer = factory.informer(&kind("Pod")).expect("it runs");
    assert!(informer.synced().await, "it lists, though it could stream");
    assert_eq!(*asks.0.lock().expect("no panic"), [77]);
}

struct Ignore;

impl EventHandler for Ignore {
    fn handle<'a>(&'a mut self, _: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(std::future::ready(Outcome::Ok))
    }
}

fn spec(namespaces: &[&str], labels: &str) -> SubscriptionSpec {
    SubscriptionSpec {
        name: "pods".into(),
        selector: kind("Pod").with_labels(labels),
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        ..SubscriptionSpec::default()
    }
}

/// A listener that runs with what serves the subscription.
async fn running(subscriptions: Vec<Subscription>) -> Listener {
    let listener = Listener::new(ListenerConfig::default(), Arc::new(()));
    let runs = listener.clone();
    tokio::spawn(async move { runs.run(vec![Box::new(Ignore)], subscriptions).await });
    assert!(listener.synced().await);
    listener
}

/// Its informers, with how many subscriptions a swap to these kept, added and removed.
async fn swapped(listener: &Listener, next: Vec<Subscription>) -> (Vec<String>, [usize; 3]) {
    let swap = Swap::new(vec![Box::new(Ignore)], next, OnSwap::Continue);
    let report = listener.swap(swap).await.expect("it swapped");
    let informer = |one: &Registration| one.informer.selector().to_string();
    let informers = listener.registrations().iter().map(informer).collect();
    (informers, [report.kept, report.added, report.removed])
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_asks_the_same_stays_where_it_is_served() {
    let factory = factory();
    let every = factory.informer(&kind("Pod")).expect("it runs");
    assert!(every.synced().await);
    let wanted = spec(&["n", "m"], "a=b");
    let listener = running(factory.subscribe(&wanted).expect("served")).await;
    // These have come to run since, so somebody new would be served by them.
    let others = ["m", "n"].map(|name| kind("Pod").in_namespace(name).with_labels("a=b"));
    let others = others.map(|selector| factory.informer(&selector).expect("it runs"));
    let newcomer: Vec<_> = factory.subscribe(&wanted).expect("served");
    assert!(Arc::ptr_eq(&newcomer[0].informer, &others[1]) && Arc::ptr_eq(&newcomer[1].informer, &others[0]));
    let shown = FilterSpec { fields: vec!["/metadata/labels".into()], ..FilterSpec::default() };
    let wanted = SubscriptionSpec { namespaces: vec!["m".into(), "n".into()], filter: shown, ..wanted };
    let next = factory.subscribe_again(&wanted, &listener.registrations()).expect("served");
    assert_eq!(next[0].view.spec().filter.fields, ["/metadata/labels"]);
    assert_eq!(swapped(&listener, next).await, (vec!["v1/Pod".into()], [1, 0, 0]));
    let elsewhere = SubscriptionSpec { name: "others".into(), ..wanted };
    let next = factory.subscribe_again(&elsewhere, &listener.registrations()).expect("served");
    assert_eq!(swapped(&listener, next).await.1, [0, 1, 1], "a name is a subscription of its own");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_asks_for_other_objects_begins_anew() {
    let factory = factory();
    let first = spec(&["m"], "");
    let both = spec(&["m", "n"], "");
    let listener = running(factory.subscribe(&first).expect("served")).await;
    let next = factory.subscribe_again(&both, &listener.registrations()).expect("served");
    let informers = vec!["v1/Pod in m".into(), "v1/Pod in n".into()];
    assert_eq!(swapped(&listener, next).await, (informers.clone(), [0, 1, 1]), "that of m as well");
    let next = factory.subscribe_again(&both, &listener.registrations()).expect("served");
    assert_eq!(swapped(&listener, next).await, (informers, [1, 0, 0]));
    let next = factory.subscribe_again(&first, &listener.registrations()).expect("served");
    assert_eq!(swapped(&listener, next).await, (vec!["v1/Pod in m".into()], [0, 1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_wider_informer_that_cannot_go_on_is_left() {
    let factory = factory();
    let every = factory.informer(&kind("Pod")).expect("it runs");
    assert!(every.synced().await);
    let wanted = spec(&["n"], "");
    let listener = running(factory.subscribe(&wanted).expect("served")).await;
    every.shutdown().await;
    let next = factory.subscribe_again(&wanted, &listener.registrations()).expect("served");
    assert_eq!(swapped(&listener, next).await, (vec!["v1/Pod in n".into()], [0, 1, 1]));
}
