//! The loop with a scripted process: order, failures, pauses, resyncs, the end.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::super::*;
use super::{Lines, read, write};
use crate::delta_fifo::DEFAULT_CAPACITY;
use crate::indexer::Indexer;
use crate::testing::object;

/// Writes down what it is given, fails as scripted, and keeps the cache as deltas say.
struct Scripted {
    indexer: Arc<Indexer>,
    lines: Lines,
    answers: Mutex<VecDeque<Result<(), ProcessError>>>,
    schedule: Mutex<VecDeque<Instant>>,
}

impl Process for Scripted {
    fn process(&self, delta: &Delta, initial: bool) -> Result<(), ProcessError> {
        let initial = if initial { " initial" } else { "" };
        let (kind, version) = (delta.kind, delta.object.resource_version());
        write(&self.lines, format!("{kind:?} {}@{version}{initial}", delta.object.key()));
        let answer = self.answers.lock().expect("answers").pop_front().unwrap_or(Ok(()));
        if let Err(ProcessError::Panicked(message)) = answer {
            std::panic::panic_any(message);
        }
        if answer.is_ok() {
            transition::store(&self.indexer, delta);
        }
        answer
    }

    fn synced(&self) {
        write(&self.lines, "synced".into());
    }

    fn next_resync(&self) -> Option<Instant> {
        self.schedule.lock().expect("schedule").front().copied()
    }

    fn should_resync(&self, now: Instant) -> bool {
        let mut schedule = self.schedule.lock().expect("schedule");
        let due = schedule.front().is_some_and(|next| *next <= now);
        if due {
            schedule.pop_front();
        }
        due
    }
}

struct Rig {
    fifo: Arc<DeltaFifo>,
    process: Arc<Scripted>,
    controller: Controller<Scripted>,
}

fn rig(answers: impl IntoIterator<Item = Result<(), ProcessError>>) -> Rig {
    let indexer = Arc::new(Indexer::new());
    let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, indexer.clone()));
    let process = Arc::new(Scripted {
        indexer,
        lines: Lines::default(),
        answers: Mutex::new(answers.into_iter().collect()),
        schedule: Mutex::default(),
    });
    let controller = Controller::new(fifo.clone(), process.clone());
    Rig { fifo, process, controller }
}

fn retry() -> Result<(), ProcessError> {
    Err(ProcessError::Retry("not now".into()))
}

impl Rig {
    /// Runs the controller for so long; gives what was processed and the counts.
    async fn run_for(self, time: Duration) -> (Vec<String>, ControllerCounts) {
        let metrics = self.controller.metrics();
        let ended = timeout(time, self.controller.run(CancellationToken::new())).await;
        assert!(ended.is_err(), "it ends only when it is told to");
        (read(&self.process.lines), metrics.counts())
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_work_later_goes_back_with_what_follows_it_and_holds_the_first_list_open() {
    let rig = rig([Ok(()), retry(), Ok(()), retry()]);
    rig.fifo.replace(vec![object("a", "u", "1"), object("b", "u", "1")], "1");
    rig.fifo.update(object("a", "u", "2")).await;
    rig.fifo.update(object("a", "u", "3")).await;
    rig.fifo.add(object("c", "u", "4")).await;
    let (lines, counts) = rig.run_for(Duration::from_secs(9)).await;
    assert_eq!(
        lines,
        [
            "Replaced a@1 initial",
            "Updated a@2 initial",
            "Replaced b@1 initial",
            "Added c@4",
            "Updated a@2 initial",
            "Updated a@3 initial",
            "synced",
            "Added c@4",
        ],
        "R-SYN-2, R-DF-7 (D): what was done of a is not repeated, and c, which is not of the list, waits for nobody"
    );
    assert_eq!(counts, ControllerCounts { processed: 5, requeued: 2, ..ControllerCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_delta_that_is_given_up_or_panics_is_counted_and_nothing_else_is_lost() {
    let panic = Err(ProcessError::Panicked("no such field".into()));
    let give_up = Err(ProcessError::GiveUp("too strange".into()));
    let rig = rig([panic, Ok(()), give_up]);
    rig.fifo.replace(vec![object("a", "u", "1"), object("b", "u", "1")], "1");
    rig.fifo.update(object("a", "u", "2")).await;
    let before = Instant::now();
    let (lines, counts) = rig.run_for(Duration::from_secs(9)).await;
    assert_eq!(
        lines,
        ["Replaced a@1 initial", "Updated a@2 initial", "Replaced b@1 initial", "synced"],
        "R-CT-3 (D), R-CT-4 (D), TestPanicPropagated (D)"
    );
    let want = ControllerCounts { processed: 1, given_up: 1, panicked: 1, ..ControllerCounts::default() };
    assert_eq!(counts, want);
    assert_eq!(before.elapsed(), Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn the_loop_pauses_longer_while_nothing_succeeds_and_not_at_all_after_a_success() {
    let rig = rig(std::iter::repeat_with(retry).take(12));
    rig.fifo.add(object("a", "u", "1")).await;
    let began = Instant::now();
    let cancel = CancellationToken::new();
    let (lines, metrics) = (rig.process.lines.clone(), rig.controller.metrics());
    let running = tokio::spawn(rig.controller.run(cancel.clone()));
    // 10 + 20 + … + 640 ms, then a second each.
    let pauses = Duration::from_millis(10 * 127) + Duration::from_secs(5);
    tokio::time::sleep_until(began + pauses - Duration::from_millis(1)).await;
    assert_eq!(metrics.counts().requeued, 12);
    assert_eq!(metrics.counts().processed, 0);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(metrics.counts().processed, 1);
    assert_eq!(read(&lines).len(), 14, "12 failures, the success, and the end of the first list");
    rig.process.answers.lock().expect("answers").push_back(retry());
    rig.fifo.add(object("b", "u", "1")).await;
    tokio::time::sleep(Duration::from_millis(11)).await;
    assert_eq!(metrics.counts().processed, 2, "the row began anew");
    cancel.cancel();
    running.await.expect("the loop");
}

#[test]
fn pauses_double_from_10_ms_to_a_second() {
    let pauses: Vec<u128> = [1, 2, 3, 7, 8, 9, u32::MAX].map(|row| pause(row).as_millis()).into();
    assert_eq!(pauses, [10, 20, 40, 640, 1000, 1000, 1000]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_leaves_what_waits_and_lets_a_held_back_producer_go() {
    let indexer = Arc::new(Indexer::new());
    let fifo = Arc::new(DeltaFifo::new(1, indexer));
    let process = rig([]).process;
    fifo.add(object("a", "u", "1")).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let producer = fifo.add(object("b", "u", "1"));
    let controller = Controller::new(fifo.clone(), process.clone());
    let ((), ()) = tokio::join!(producer, controller.run(cancel));
    assert_eq!(read(&process.lines), [""; 0], "R-CT-2: not drained");
    assert_eq!(fifo.depth(), 1, "what came after the end was not taken in");
}

/// Cancels its own loop at the first delta.
struct Stopping {
    cancel: CancellationToken,
    lines: Lines,
}

impl Process for Stopping {
    fn process(&self, delta: &Delta, _: bool) -> Result<(), ProcessError> {
        write(&self.lines, delta.object.key().to_string());
        self.cancel.cancel();
        Ok(())
    }

    fn synced(&self) {}

    fn next_resync(&self) -> Option<Instant> {
        None
    }

    fn should_resync(&self, _: Instant) -> bool {
        false
    }
}

#[tokio::test]
async fn a_stop_is_heard_before_the_next_pop_however_much_waits() {
    let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, Arc::new(Indexer::new())));
    fifo.replace(["a", "b", "c"].map(|name| object(name, "u", "1")).into(), "1");
    let (cancel, lines) = (CancellationToken::new(), Lines::default());
    let process = Stopping { cancel: cancel.clone(), lines: lines.clone() };
    Controller::new(fifo, Arc::new(process)).run(cancel).await;
    assert_eq!(read(&lines), ["a"], "R-CT-2");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_dropped_closes_the_queue() {
    let rig = rig([]);
    let fifo = rig.fifo.clone();
    let (_, _) = rig.run_for(Duration::from_secs(1)).await;
    fifo.add(object("a", "u", "1")).await;
    assert_eq!(fifo.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn resyncs_come_when_the_process_says_and_it_may_change_its_mind() {
    let rig = rig([]);
    rig.process.indexer.upsert(object("a", "u", "1"));
    let (process, rescheduler) = (rig.process.clone(), rig.controller.rescheduler());
    let began = Instant::now();
    let scripted = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(read(&process.lines), [""; 0], "none was asked for");
        process.schedule.lock().expect("schedule").extend([20, 30].map(|s| began + Duration::from_secs(s)));
        rescheduler.notify_one();
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(read(&process.lines).len(), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(read(&process.lines), ["Sync a@1"]);
        process.schedule.lock().expect("schedule").clear();
        rescheduler.notify_one();
    };
    let ((), (lines, counts)) = tokio::join!(scripted, rig.run_for(Duration::from_secs(60)));
    assert_eq!(lines, ["Sync a@1"], "R-RS-1, R-RS-2");
    assert_eq!((counts.resyncs, counts.processed), (1, 1));
}
