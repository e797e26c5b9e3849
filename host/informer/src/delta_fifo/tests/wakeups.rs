//! No wake-up is lost: every order in which tasks can be run, a task being run only after it was woken.
//!
//! A task here runs from one await to the next, as on a runtime with one thread; a pop may also be dropped while
//! it waits, as by `select!`. A schedule in which somebody has work left and nobody is woken is a lost wake-up.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use futures::FutureExt as _;

use super::*;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct Task<'a> {
    future: Option<Running<'a>>,
    woken: Arc<Flag>,
    /// Makes it anew after it was dropped while it waited.
    again: Option<Box<dyn Fn() -> Running<'a> + 'a>>,
}

impl<'a> Task<'a> {
    fn new(future: impl Future<Output = ()> + 'a) -> Self {
        Self { future: Some(Box::pin(future)), woken: Arc::new(Flag(AtomicBool::new(true))), again: None }
    }

    fn repeatable<F: Future<Output = ()> + 'a>(make: impl Fn() -> F + 'a) -> Self {
        let mut task = Self::new(make());
        task.again = Some(Box::new(move || Box::pin(make())));
        task
    }

    fn is_woken(&self) -> bool {
        self.future.is_some() && self.woken.0.load(Ordering::SeqCst)
    }

    fn poll(&mut self) {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.woken.clone());
        if let Some(future) = &mut self.future
            && future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            self.future = None;
        }
    }

    /// Drops it where it waits, woken or not, and begins anew.
    fn drop_and_begin_anew(&mut self) -> bool {
        let Some(again) = self.again.as_ref().filter(|_| self.future.is_some()) else { return false };
        self.future = None;
        self.future = Some(again());
        self.woken.0.store(true, Ordering::SeqCst);
        self.again = None;
        true
    }
}

/// Runs the schedule that `choices` begins, taking the first way wherever it says nothing. Gives the number of
/// ways that there were at each step.
fn play(tasks: &mut [Task<'_>], choices: &[usize]) -> Vec<usize> {
    let mut ways = Vec::new();
    while tasks.iter().any(|task| task.future.is_some()) {
        let woken: Vec<usize> = (0..tasks.len()).filter(|at| tasks[*at].is_woken()).collect();
        assert!(!woken.is_empty(), "a wake-up was lost after {choices:?}");
        let droppable =
            (0..tasks.len()).filter(|at| tasks[*at].again.is_some() && tasks[*at].future.is_some());
        let moves: Vec<_> =
            woken.iter().map(|at| (*at, false)).chain(droppable.map(|at| (at, true))).collect();
        let choice = choices.get(ways.len()).copied().unwrap_or(0);
        ways.push(moves.len());
        match moves[choice] {
            (at, false) => tasks[at].poll(),
            (at, true) => assert!(tasks[at].drop_and_begin_anew()),
        }
    }
    ways
}

/// The next schedule in order, if there is one.
fn next(choices: &[usize], ways: &[usize]) -> Option<Vec<usize>> {
    let mut choices: Vec<usize> = (0..ways.len()).map(|at| choices.get(at).copied().unwrap_or(0)).collect();
    while let Some(last) = choices.pop() {
        if last + 1 < ways[choices.len()] {
            choices.push(last + 1);
            return Some(choices);
        }
    }
    None
}

/// Plays every schedule of what `round` sets up; gives how many there were.
fn explore(round: impl Fn(&[usize]) -> Vec<usize>) -> usize {
    let (mut choices, mut schedules) = (Vec::new(), 0);
    loop {
        schedules += 1;
        let ways = round(&choices);
        match next(&choices, &ways) {
            Some(following) => choices = following,
            None => return schedules,
        }
    }
}

/// Pops until all of `expected` were seen. What was seen survives that the popper is dropped and begun anew.
async fn popper(fifo: &DeltaFifo, seen: &AtomicUsize, expected: usize) {
    while seen.load(Ordering::SeqCst) < expected {
        fifo.pop(|popped| {
            if let Popped::Deltas { deltas, .. } = popped {
                seen.fetch_add(deltas.len(), Ordering::SeqCst);
            }
        })
        .await;
        yield_once().await;
    }
}

/// Lets others run, as a task at the end of its budget does.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn produce(fifo: &DeltaFifo, script: &str) {
    for text in script.split_whitespace() {
        fifo.update(at(text)).await;
    }
}

fn small(capacity: usize) -> DeltaFifo {
    with_options(DeltaFifoOptions { capacity, ..DeltaFifoOptions::default() }, "")
}

#[test]
fn one_popper_that_may_be_dropped_and_one_producer_always_finish() {
    for capacity in [1, 2] {
        let schedules = explore(|choices| {
            let (fifo, seen) = (small(capacity), AtomicUsize::new(0));
            let mut tasks =
                [Task::repeatable(|| popper(&fifo, &seen, 4)), Task::new(produce(&fifo, "a@1 b@1 a@2 c@1"))];
            play(&mut tasks, choices)
        });
        assert!(schedules > 50, "{schedules} schedules with room for {capacity}");
    }
}

#[test]
fn two_poppers_and_two_producers_always_finish() {
    let schedules = explore(|choices| {
        let (fifo, seen) = (small(1), AtomicUsize::new(0));
        let pop = || async {
            popper(&fifo, &seen, 3).await;
            // The last one lets the other go.
            fifo.close();
        };
        let mut tasks = [
            Task::new(pop()),
            Task::new(pop()),
            Task::new(produce(&fifo, "a@1 b@1")),
            Task::new(produce(&fifo, "c@1")),
        ];
        play(&mut tasks, choices)
    });
    assert!(schedules > 1000, "{schedules} schedules");
}

#[test]
fn a_list_a_held_back_producer_and_a_close_at_any_time_always_finish() {
    let outcomes = std::cell::RefCell::new(BTreeSet::new());
    explore(|choices| {
        let (fifo, seen) = (small(1), AtomicUsize::new(0));
        let drain = async {
            while fifo.pop(|popped| popped).await.is_some() {
                seen.fetch_add(1, Ordering::SeqCst);
                yield_once().await;
            }
        };
        let reflect = async {
            produce(&fifo, "a@1").await;
            fifo.replace(objects("a@2 b@1"), "2");
            yield_once().await;
            produce(&fifo, "c@1 d@1").await;
        };
        let close = async {
            yield_once().await;
            fifo.close();
        };
        let mut tasks = [Task::new(drain), Task::new(reflect), Task::new(close)];
        let ways = play(&mut tasks, choices);
        outcomes.borrow_mut().insert(seen.load(Ordering::SeqCst));
        ways
    });
    let outcomes = outcomes.into_inner();
    assert!(outcomes.contains(&0) && outcomes.len() > 3, "closed early, late and in between: {outcomes:?}");
}

#[test]
fn one_word_reaches_everybody_whom_it_concerns() {
    let fifo = small(9);
    run(&fifo, "add first@1");
    assert_eq!((pop(&fifo), drain(&fifo).len()), (Some(Popped::Synced), 1));
    let mut poppers = [0; 3].map(|_| Box::pin(fifo.pop(|popped| popped)));
    assert!(poppers.iter_mut().all(|popper| popper.as_mut().now_or_never().is_none()));
    fifo.replace(objects("a@1 b@1 c@1"), "1");
    assert!(poppers.into_iter().all(|popper| popper.now_or_never().is_some()), "told once, of three keys");

    let fifo = small(2);
    run(&fifo, "add a@1; update a@2");
    assert_eq!(pop(&fifo), Some(Popped::Synced));
    let mut producers = ["b@1", "c@1"].map(|text| Box::pin(fifo.add(at(text))));
    assert!(producers.iter_mut().all(|producer| producer.as_mut().now_or_never().is_none()));
    assert!(pop(&fifo).is_some());
    assert!(producers.into_iter().all(|producer| producer.now_or_never().is_some()), "one pop, room for two");
}
