//! A handler that fails: what it is told again, from where, and when the first list ends.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::handling::Handling;
use super::super::*;
use super::{Lines, line, read, write};
use crate::delta_fifo::DEFAULT_CAPACITY;
use crate::handler::Event;
use crate::indexer::Indexer;
use crate::testing::object;

/// One informer without a reflector.
struct Rig<H> {
    fifo: Arc<DeltaFifo>,
    indexer: Arc<Indexer>,
    controller: Controller<Handling<H>>,
    synced: watch::Receiver<bool>,
}

fn rig<H: ResourceEventHandler>(handler: H, max_attempts: u32) -> Rig<H> {
    let indexer = Arc::new(Indexer::new());
    let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, indexer.clone()));
    let (sender, synced) = watch::channel(false);
    let handling = Handling::new(indexer.clone(), handler, None, max_attempts, sender);
    let controller = Controller::new(fifo.clone(), Arc::new(handling));
    Rig { fifo, indexer, controller, synced }
}

/// A handler that writes down what it hears and answers what `answer` says: given the line, and how often it
/// heard that before.
fn answering(
    lines: &Lines,
    answer: impl Fn(&str, usize) -> Result<(), ProcessError> + Send,
) -> impl ResourceEventHandler {
    let lines = lines.clone();
    move |event: &Event| {
        let line = line(event);
        let before = read(&lines).iter().filter(|other| **other == line).count();
        write(&lines, line.clone());
        match answer(&line, before) {
            Err(ProcessError::Panicked(message)) => std::panic::panic_any(message),
            answer => answer,
        }
    }
}

fn retry() -> Result<(), ProcessError> {
    Err(ProcessError::Retry("not now".into()))
}

fn give_up() -> Result<(), ProcessError> {
    Err(ProcessError::GiveUp("never".into()))
}

fn panics() -> Result<(), ProcessError> {
    Err(ProcessError::Panicked("no such field".into()))
}

/// Runs the controller until `script` is through, with time for retries in between.
async fn while_running<H: ResourceEventHandler>(rig: Rig<H>, script: impl AsyncFnOnce(&DeltaFifo, &Indexer)) {
    let Rig { fifo, indexer, controller, .. } = rig;
    let cancel = CancellationToken::new();
    let scripted = async {
        script(&fifo, &indexer).await;
        cancel.cancel();
    };
    tokio::join!(controller.run(cancel.clone()), scripted);
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_wants_to_hear_again_it_hears_in_order_and_the_first_list_waits_for_it() {
    let lines = Lines::default();
    let rig = rig(
        answering(
            &lines,
            |line, before| if line.starts_with("add a") && before < 3 { retry() } else { Ok(()) },
        ),
        10,
    );
    let (metrics, mut synced) = (rig.controller.metrics(), rig.synced.clone());
    while_running(rig, async |fifo, indexer| {
        fifo.replace(vec![object("a", "u", "1"), object("b", "u", "2")], "2");
        fifo.add(object("c", "u", "3")).await;
        // Two failures: nothing of `a` was told, `b` and `c` were.
        tokio::time::sleep(Duration::from_millis(11)).await;
        assert_eq!((indexer.len(), *synced.borrow()), (3, false), "R-SYN-2");
        assert_eq!(read(&lines), ["add a@1 initial", "add b@2 initial", "add c@3", "add a@1 initial"]);
        fifo.update(object("a", "u", "4")).await;
        synced.wait_for(|synced| *synced).await.expect("the first list");
        settle().await;
    })
    .await;
    assert_eq!(read(&lines)[4..], ["add a@1 initial", "add a@1 initial", "update a@1->4"], "never around it");
    assert_eq!((metrics.counts().requeued, metrics.counts().given_up), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn after_its_attempts_an_event_is_given_up_and_made_good_by_the_next_one() {
    let lines = Lines::default();
    let rig = rig(
        answering(
            &lines,
            |line, _| if line.contains("@1") && !line.contains("->") { retry() } else { Ok(()) },
        ),
        3,
    );
    let (metrics, mut synced) = (rig.controller.metrics(), rig.synced.clone());
    while_running(rig, async |fifo, _| {
        fifo.replace(vec![object("a", "u", "1")], "1");
        synced.wait_for(|synced| *synced).await.expect("given up is processed");
        fifo.update(object("a", "u", "2")).await;
        settle().await;
    })
    .await;
    let add = "add a@1 initial";
    assert_eq!(read(&lines), [add, add, add, "add a@2"], "no update of what it was never told");
    let counts = metrics.counts();
    assert_eq!((counts.requeued, counts.given_up, counts.processed), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_hears_from_what_it_knows_not_from_what_it_missed() {
    type Answer = fn(&str, usize) -> Result<(), ProcessError>;
    type Case = (&'static str, Answer, &'static [&'static str]);
    let cases: [Case; 7] = [
        (
            "an update that panics is skipped over",
            |line, _| if line == "update a@1->2" { panics() } else { Ok(()) },
            &["add a@1", "update a@1->2", "update a@1->3", "delete a@4 deleted"],
        ),
        (
            "an update given up likewise",
            |line, _| if line == "update a@1->2" { give_up() } else { Ok(()) },
            &["add a@1", "update a@1->2", "update a@1->3", "delete a@4 deleted"],
        ),
        ("what was never told is not deleted", |_, _| give_up(), &["add a@1", "add a@2", "add a@3"]),
        (
            "each event has all attempts",
            |line, before| if before < 1 && line != "delete a@4 deleted" { retry() } else { Ok(()) },
            &[
                "add a@1",
                "add a@1",
                "update a@1->2",
                "update a@1->2",
                "update a@2->3",
                "update a@2->3",
                "delete a@4 deleted",
            ],
        ),
        (
            "also after one that was given up",
            |line, _| if line.starts_with("update") { retry() } else { Ok(()) },
            &[
                "add a@1",
                "update a@1->2",
                "update a@1->2",
                "update a@1->3",
                "update a@1->3",
                "delete a@4 deleted",
            ],
        ),
        (
            "a deletion is tried again",
            |line, before| if line.starts_with("delete") && before < 1 { retry() } else { Ok(()) },
            &["add a@1", "update a@1->2", "update a@2->3", "delete a@4 deleted", "delete a@4 deleted"],
        ),
        (
            "and given up for good",
            |line, _| if line.starts_with("delete") { retry() } else { Ok(()) },
            &["add a@1", "update a@1->2", "update a@2->3", "delete a@4 deleted", "delete a@4 deleted"],
        ),
    ];
    for (name, answer, want) in cases {
        let lines = Lines::default();
        let rig = rig(answering(&lines, answer), 2);
        while_running(rig, async |fifo, indexer| {
            for version in ["1", "2", "3"] {
                fifo.update(object("a", "u", version)).await;
                settle().await;
            }
            fifo.delete(object("a", "u", "4")).await;
            settle().await;
            assert!(indexer.is_empty());
        })
        .await;
        assert_eq!(read(&lines), want, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreation_is_told_as_a_delete_and_an_add_whatever_becomes_of_the_delete() {
    type Answer = fn(&str, usize) -> Result<(), ProcessError>;
    let cases: [(Answer, &[&str]); 3] = [
        (|_, _| Ok(()), &["add a@1", "delete a@1 unknown", "add a@5"]),
        (
            |line, _| if line.starts_with("delete") { give_up() } else { Ok(()) },
            &["add a@1", "delete a@1 unknown", "add a@5"],
        ),
        (
            |line, before| if line == "add a@5" && before == 0 { retry() } else { Ok(()) },
            &["add a@1", "delete a@1 unknown", "add a@5", "add a@5"],
        ),
    ];
    for (answer, want) in cases {
        let lines = Lines::default();
        while_running(rig(answering(&lines, answer), 2), async |fifo, _| {
            fifo.update(object("a", "u", "1")).await;
            settle().await;
            fifo.replace(vec![object("a", "v", "5")], "5");
            settle().await;
        })
        .await;
        assert_eq!(read(&lines), want, "R-PD-7, contract 7");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_makes_good_what_was_given_up() {
    let lines = Lines::default();
    let rig = rig(
        answering(&lines, |line, before| if line == "add a@1" && before == 0 { panics() } else { Ok(()) }),
        2,
    );
    while_running(rig, async |fifo, _| {
        fifo.add(object("a", "u", "1")).await;
        fifo.add(object("b", "u", "1")).await;
        settle().await;
        fifo.resync();
        settle().await;
    })
    .await;
    assert_eq!(read(&lines), ["add a@1", "add b@1", "add a@1", "update b@1->1 resync"]);
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_at_the_event_when_a_handler_hears_of_it() {
    let indexer = Arc::new(Indexer::new());
    let seen = Lines::default();
    let handler = {
        let (indexer, seen) = (indexer.clone(), seen.clone());
        move |event: &Event| {
            let cached = indexer.get(event.key()).map(|object| object.resource_version().to_owned());
            write(
                &seen,
                format!(
                    "{}: {} {}",
                    line(event),
                    cached.unwrap_or("gone".into()),
                    indexer.resource_version()
                ),
            );
            Ok(())
        }
    };
    let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, indexer.clone()));
    let handling = Handling::new(indexer.clone(), handler, None, 1, watch::channel(false).0);
    let controller = Controller::new(fifo.clone(), Arc::new(handling));
    let script = async {
        for list in [
            vec![("p1", "1")],
            vec![("p1", "1"), ("p3", "3")],
            vec![],
            vec![("p1", "1"), ("p2", "2"), ("p3", "3")],
        ] {
            fifo.replace(list.into_iter().map(|(name, version)| object(name, "u", version)).collect(), "3");
            settle().await;
        }
        fifo.replace(vec![object("p1", "u", "4"), object("p2", "u", "5"), object("p4", "u", "6")], "6");
        settle().await;
        fifo.delete(object("p4", "u", "7")).await;
        settle().await;
        fifo.close();
    };
    let ((), ()) = tokio::join!(script, controller.run(CancellationToken::new()));
    assert_eq!(
        read(&seen),
        [
            "add p1@1 initial: 1 1",
            "add p3@3: 3 3",
            "delete p1@1 unknown: gone 3",
            "delete p3@3 unknown: gone 3",
            "add p1@1: 1 1",
            "add p2@2: 2 2",
            "add p3@3: 3 3",
            "update p1@1->4: 4 4",
            "update p2@2->5: 5 5",
            "add p4@6: 6 6",
            "delete p3@3 unknown: gone 6",
            "delete p4@7 deleted: gone 7",
        ],
        "TestReplaceEvents, TestStoreResourceVersion; of one list, deletions come last (spec 2.6)"
    );
}
