//! Random changes and random answers of a handler: what it hears always makes sense, and in the end it knows all
//! that it did not refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::handling::Handling;
use super::super::{Controller, ProcessError};
use super::line;
use crate::delta_fifo::{DEFAULT_CAPACITY, DeltaFifo};
use crate::handler::Event;
use crate::indexer::Indexer;
use crate::object::Object;
use crate::testing::object;

#[derive(Debug, Clone)]
enum Change {
    /// Of a key: another version, with another uid or not.
    Put(u8, u8),
    Delete(u8),
    /// A relist with these keys, each of a uid.
    Relist(Vec<(u8, u8)>),
    Resync,
    /// Lets the loop get on.
    Settle,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Ok,
    Retry,
    GiveUp,
    Panic,
}

fn change() -> impl Strategy<Value = Change> {
    let state = (0..3_u8, 0..2_u8);
    prop_oneof![
        5 => state.clone().prop_map(|(key, uid)| Change::Put(key, uid)),
        2 => (0..3_u8).prop_map(Change::Delete),
        1 => prop::collection::vec(state, 0..4).prop_map(Change::Relist),
        1 => Just(Change::Resync),
        4 => Just(Change::Settle),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Ok),
        3 => Just(Answer::Retry),
        1 => Just(Answer::GiveUp),
        1 => Just(Answer::Panic),
    ]
}

/// What a handler holds for true, with what it was told that did not fit.
#[derive(Default)]
struct View {
    objects: BTreeMap<String, Arc<Object>>,
    nonsense: Vec<String>,
    answers: Vec<Answer>,
}

impl View {
    fn hear(&mut self, event: &Event) -> Result<(), ProcessError> {
        let known = self.objects.get(&event.key().to_string());
        let fits = match event {
            Event::Add { .. } => known.is_none(),
            Event::Update { old, new, resync } => {
                known.is_some_and(|known| known == old) && old.uid() == new.uid() && *resync == (old == new)
            }
            Event::Delete { object, .. } => known.is_some_and(|known| known.uid() == object.uid()),
        };
        if !fits {
            self.nonsense.push(format!("{} after {known:?}", line(event)));
        }
        match self.answers.pop().unwrap_or(Answer::Ok) {
            Answer::Ok => self.learn(event),
            Answer::Retry => return Err(ProcessError::Retry("again".into())),
            Answer::GiveUp => self.refuse(event, Err(ProcessError::GiveUp("no".into())))?,
            Answer::Panic => {
                let _ = self.refuse(event, Ok(()));
                std::panic::panic_any("on purpose");
            }
        }
        Ok(())
    }

    fn learn(&mut self, event: &Event) {
        match event {
            Event::Delete { .. } => drop(self.objects.remove(&event.key().to_string())),
            _ => drop(self.objects.insert(event.key().to_string(), event.object().clone())),
        }
    }

    /// A deletion that is refused is gone for good; anything else comes again.
    fn refuse(&mut self, event: &Event, answer: Result<(), ProcessError>) -> Result<(), ProcessError> {
        if matches!(event, Event::Delete { .. }) {
            self.learn(event);
        }
        answer
    }
}

async fn play(changes: Vec<Change>, answers: Vec<Answer>) -> (View, Vec<Arc<Object>>) {
    let view = Arc::new(Mutex::new(View { answers, ..View::default() }));
    let handler = {
        let view = view.clone();
        move |event: &Event| view.lock().unwrap_or_else(std::sync::PoisonError::into_inner).hear(event)
    };
    let indexer = Arc::new(Indexer::new());
    let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, indexer.clone()));
    // More attempts than answers: nothing is given up that the handler did not give up itself.
    let handling = Handling::new(indexer.clone(), handler, None, u32::MAX, watch::channel(false).0);
    let controller = Controller::new(fifo.clone(), Arc::new(handling));
    let cancel = CancellationToken::new();
    let settle = || tokio::time::sleep(Duration::from_secs(60));
    let script = async {
        for (version, change) in changes.into_iter().enumerate() {
            let state = |key, uid| object(&format!("k{key}"), &format!("u{uid}"), &version.to_string());
            match change {
                Change::Put(key, uid) => fifo.update(state(key, uid)).await,
                Change::Delete(key) => fifo.delete(state(key, 0)).await,
                Change::Relist(keys) => {
                    fifo.replace(keys.into_iter().map(|(key, uid)| state(key, uid)).collect(), "");
                }
                Change::Resync => fifo.resync(),
                Change::Settle => tokio::time::sleep(Duration::from_millis(15)).await,
            }
        }
        settle().await;
        // What was given up is made good by a resync, if the handler takes it then.
        view.lock().unwrap_or_else(std::sync::PoisonError::into_inner).answers.clear();
        fifo.resync();
        settle().await;
        cancel.cancel();
    };
    tokio::join!(controller.run(cancel.clone()), script);
    let view = std::mem::take(&mut *view.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    (view, indexer.list())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_handler_answers_it_hears_what_makes_sense_and_ends_with_the_cache(
        changes in prop::collection::vec(change(), 0..40),
        answers in prop::collection::vec(answer(), 0..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (view, cached) = runtime.expect("a runtime").block_on(play(changes, answers));
        prop_assert_eq!(view.nonsense, Vec::<String>::new(), "I2, I5 of section 10.3");
        prop_assert_eq!(view.objects.into_values().collect::<Vec<_>>(), cached, "I4 of section 10.3");
    }
}
