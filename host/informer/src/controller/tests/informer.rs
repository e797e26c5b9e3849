//! The informer for one handler on a pretended collection: client-go's controller tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::super::*;
use super::cluster::Cluster;
use super::{Lines, line, read, write};
use crate::handler::Event;
use crate::object::Object;

struct Running {
    handle: InformerHandle,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

fn start(
    cluster: &Cluster,
    handler: impl ResourceEventHandler + 'static,
    options: InformerOptions,
) -> Running {
    let informer = Informer::new(Arc::new(cluster.clone()), handler, options);
    let handle = informer.handle();
    assert!(!handle.has_synced() && handle.last_resource_version().is_empty(), "R-SI-5");
    let cancel = CancellationToken::new();
    let task = tokio::spawn(informer.run(cancel.clone()));
    Running { handle, cancel, task }
}

impl Running {
    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.expect("the informer ends");
    }
}

fn recorder(lines: &Lines) -> impl ResourceEventHandler + use<> {
    let lines = lines.clone();
    move |event: &Event| {
        write(&lines, line(event));
        Ok(())
    }
}

/// Lets everything happen that can, retries of the reflector included.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_deletes_what_it_sees_hears_of_each_deletion() {
    let (cluster, lines) = (Cluster::new(), Lines::default());
    let handler = {
        let (cluster, lines) = (cluster.clone(), lines.clone());
        move |event: &Event| {
            match event {
                Event::Add { object, .. } => {
                    cluster.delete(object.key().name());
                }
                _ => write(&lines, line(event)),
            }
            Ok(())
        }
    };
    cluster.put("a-hello", "u");
    let running = start(&cluster, handler, InformerOptions::default());
    settle().await;
    cluster.put("b-controller", "u");
    cluster.put("c-framework", "u");
    settle().await;
    assert_eq!(
        read(&lines),
        ["delete a-hello@3 deleted", "delete b-controller@6 deleted", "delete c-framework@7 deleted"],
        "Example, ExampleNewInformer"
    );
    assert!(running.handle.indexer().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_missed_is_told_after_the_relist_and_is_not_initial() {
    let (cluster, lines) = (Cluster::new(), Lines::default());
    cluster.put("pod-1", "u");
    cluster.put("pod-0", "u");
    let running = start(&cluster, recorder(&lines), InformerOptions::default());
    assert!(running.handle.synced().await);
    settle().await;
    cluster.unseen(|cluster| {
        cluster.put("pod-1", "u");
        cluster.put("pod-2", "u");
        cluster.delete("pod-0");
    });
    settle().await;
    assert_eq!(
        read(&lines),
        [
            "add pod-0@3 initial",
            "add pod-1@2 initial",
            "update pod-1@2->4",
            "add pod-2@5",
            "delete pod-0@3 unknown",
        ],
        "TestResetWatch, R-PD-5"
    );
    assert_eq!(running.handle.last_resource_version(), "6");
    assert_eq!(running.handle.indexer().resource_version(), "6", "R-IX-9");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_has_the_version_of_each_event_also_of_a_deletion() {
    let cluster = Cluster::new();
    cluster.put("a", "u");
    let running = start(&cluster, |_: &Event| Ok(()), InformerOptions::default());
    settle().await;
    let mut versions = vec![running.handle.indexer().resource_version()];
    for change in [|cluster: &Cluster| cluster.put("a", "u"), |cluster: &Cluster| cluster.delete("a")] {
        let version = change(&cluster);
        settle().await;
        assert_eq!(running.handle.last_resource_version(), version.to_string());
        versions.push(running.handle.indexer().resource_version());
    }
    assert_eq!(versions, ["2", "3", "4"], "TestStoreResourceVersion");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn resyncs_come_at_their_period_from_the_first_list_on_and_a_relist_does_not_put_them_off() {
    let (cluster, resyncs) = (Cluster::new(), Arc::new(Mutex::new(Vec::new())));
    cluster.put("a", "u");
    let began = Instant::now();
    let handler = {
        let resyncs = resyncs.clone();
        move |event: &Event| {
            if let Event::Update { resync: true, .. } = event {
                resyncs.lock().expect("resyncs").push(began.elapsed().as_secs());
            }
            Ok(())
        }
    };
    let options =
        InformerOptions { resync_period: Some(Duration::from_secs(60)), ..InformerOptions::default() };
    let running = start(&cluster, handler, options);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(41)).await;
        cluster.unseen(|cluster| {
            cluster.put("b", "u");
        });
    }
    let lists = cluster.lists();
    assert_eq!(*resyncs.lock().expect("resyncs"), [60, 60, 120, 120, 180, 180], "R-RS-1, R-RS-3 (D)");
    assert_eq!(lists, 5, "one at first, one after each watch that was too old but the last");
    assert_eq!(running.handle.metrics().counts().resyncs, 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_period_there_is_no_resync() {
    for resync_period in [None, Some(Duration::ZERO)] {
        let cluster = Cluster::new();
        cluster.put("a", "u");
        let running = start(
            &cluster,
            |_: &Event| Ok(()),
            InformerOptions { resync_period, ..InformerOptions::default() },
        );
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(running.handle.metrics().counts().resyncs, 0, "R-RS-1");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_costs_one_event_and_not_the_informer() {
    let (cluster, lines) = (Cluster::new(), Lines::default());
    let handler = {
        let lines = lines.clone();
        move |event: &Event| {
            write(&lines, line(event));
            assert!(event.key().name() != "bad", "no such field");
            Ok(())
        }
    };
    cluster.put("bad", "u");
    let running = start(&cluster, handler, InformerOptions::default());
    assert!(running.handle.synced().await, "#129024: given up is processed");
    cluster.put("good", "u");
    settle().await;
    assert_eq!(read(&lines), ["add bad@2 initial", "add good@3"], "TestPanicPropagated (D), R-CT-4 (D)");
    let counts = running.handle.metrics().counts();
    assert_eq!((counts.panicked, counts.processed), (1, 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_real_transitions_are_seen() {
    let (cluster, seen) = (Cluster::new(), Arc::new(Mutex::new(BTreeSet::new())));
    let handler = {
        let seen = seen.clone();
        move |event: &Event| {
            let step = match event {
                Event::Add { .. } => "add",
                Event::Update { old, new, .. } if old.resource_version() < new.resource_version() => {
                    "forward"
                }
                Event::Update { .. } => "backward, or not at all",
                Event::Delete { .. } => "delete",
            };
            seen.lock().expect("seen").insert((event.key().name().to_owned(), step));
            Ok(())
        }
    };
    let running = start(&cluster, handler, InformerOptions::default());
    settle().await;
    // Versions of two digits, so that their texts compare as their numbers do.
    for _ in 0..9 {
        cluster.delete("nothing");
    }
    for name in ["a", "b", "c"] {
        cluster.put(name, "u");
        settle().await;
        cluster.put(name, "u");
    }
    settle().await;
    for name in ["a", "b", "c"] {
        cluster.delete(name);
    }
    settle().await;
    let want: BTreeSet<_> = ["a", "b", "c"]
        .iter()
        .flat_map(|name| ["add", "forward", "delete"].map(|step| ((*name).to_owned(), step)))
        .collect();
    assert_eq!(*seen.lock().expect("seen"), want, "TestUpdate");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_never_run_tells_nobody_that_it_is_synced() {
    let informer = Informer::new(Arc::new(Cluster::new()), |_: &Event| Ok(()), InformerOptions::default());
    let handle = informer.handle();
    drop(informer);
    assert!(!handle.synced().await);
    assert_eq!((handle.has_synced(), handle.depth()), (false, 0));
}

/// What a handler knows, and a word whenever it has learned something.
#[derive(Default)]
struct View {
    objects: Mutex<BTreeMap<String, Arc<Object>>>,
    changed: Notify,
}

impl View {
    fn hear(&self, event: &Event) -> Result<(), ProcessError> {
        let mut objects = self.objects.lock().expect("objects");
        let known = match event {
            Event::Delete { .. } => objects.remove(event.key().name()),
            _ => objects.insert(event.key().name().to_owned(), event.object().clone()),
        };
        assert_eq!(known.is_none(), matches!(event, Event::Add { .. }), "{event:?}");
        drop(objects);
        self.changed.notify_one();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammered_from_three_tasks_with_resyncs_it_ends_with_what_is_there() {
    let (cluster, view) = (Cluster::new(), Arc::new(View::default()));
    let handler = {
        let view = view.clone();
        move |event: &Event| view.hear(event)
    };
    let options = InformerOptions {
        resync_period: Some(Duration::from_millis(1)),
        capacity: 4,
        ..InformerOptions::default()
    };
    let running = start(&cluster, handler, options);
    assert!(running.handle.synced().await, "TestHammerController: false before, true after");
    let hammers = (0..3_u64).map(|hammer| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            for step in 0..100_u64 {
                let mixed = (step * 7 + hammer * 31).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                let name = format!("o{}", mixed % 10);
                match mixed / 10 % 3 {
                    0 => cluster.delete(&name),
                    _ => cluster.put(&name, "u"),
                };
                tokio::task::yield_now().await;
            }
        })
    });
    for hammer in hammers.collect::<Vec<_>>() {
        hammer.await.expect("a hammer");
    }
    let equal = async {
        while view.objects.lock().expect("objects").values().cloned().collect::<Vec<_>>() != cluster.objects()
        {
            view.changed.notified().await;
        }
    };
    timeout(Duration::from_secs(30), equal).await.expect("the handler's view becomes the collection");
    assert_eq!(running.handle.indexer().list(), cluster.objects());
    assert_eq!(running.handle.metrics().counts().panicked, 0, "every event made sense");
    running.stop().await;
}
