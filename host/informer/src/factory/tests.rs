//! The factory: one informer for each selector, waiting for all of them, the end of all of them.

use std::time::Duration;

use super::*;
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
