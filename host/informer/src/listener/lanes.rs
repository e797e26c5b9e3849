//! The handlers of a listener, and the calls under way: one lane each.
//!
//! Used by the loop of `run` alone, which drives every call itself. Invariant: a lane's handler is either here or
//! in its call, so it has one delivery at a time.

use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::time::{Duration, Instant};

use crate::handler::{AsideFuture, Call, Delivery, EventHandler, Outcome, guarded, within};
use crate::queue::Taken;
use crate::view::View;

pub(super) type Handler = Box<dyn EventHandler>;

/// A call under way; it gives its handler back.
type Calling = Pin<Box<dyn Future<Output = (Done, Handler)> + Send>>;

/// See the file's head.
pub(super) struct Lanes {
    /// By lane; none while its call is under way.
    handlers: Vec<Option<Handler>>,
    calls: FuturesUnordered<Calling>,
}

/// A call that is over.
pub(super) struct Done {
    pub(super) taken: Taken,
    pub(super) delivery: Delivery,
    pub(super) outcome: Outcome,
    pub(super) began: Instant,
    pub(super) took: Duration,
}

impl Lanes {
    pub(super) fn new(handlers: Vec<Handler>) -> Self {
        Self { handlers: handlers.into_iter().map(Some).collect(), calls: FuturesUnordered::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.handlers.len()
    }

    /// The handlers that have no call under way.
    pub(super) fn into_handlers(self) -> Vec<Handler> {
        self.handlers.into_iter().flatten().collect()
    }

    /// Asks every handler for something, all at once, when no call is under way. Gives their answers by lane; an error is
    /// what a panic said.
    pub(super) async fn ask<'a, T>(
        &'a mut self,
        call: Call,
        ask: impl Fn(usize, &'a mut (dyn EventHandler + 'static)) -> AsideFuture<'a, T>,
    ) -> Vec<Result<T, String>> {
        let ask = &ask;
        let handlers = self.handlers.iter_mut().enumerate();
        let idle = handlers.filter_map(|(lane, handler)| Some((lane, handler.as_deref_mut()?)));
        join_all(idle.map(|(lane, handler)| within(Some(call), async move { ask(lane, handler).await })))
            .await
    }

    /// As [`Lanes::ask`], where there is nothing to answer: a panic is logged.
    pub(super) async fn tell<'a>(
        &'a mut self,
        call: Call,
        what: &str,
        tell: impl Fn(usize, &'a mut (dyn EventHandler + 'static)) -> AsideFuture<'a, ()>,
    ) {
        for why in self.ask(call, tell).await.into_iter().filter_map(Result::err) {
            tracing::error!("a handler was told: {what}: {why}");
        }
    }

    /// Begins to hand an event to its lane's handler, as one of subscription `number` and as `view` shows it.
    pub(super) fn begin(&mut self, taken: Taken, number: u32, view: Arc<View>, call: Call) {
        // The queue gives out an event of a lane only when the one before is done with, so the handler is here.
        let Some(mut handler) = self.handlers.get_mut(taken.lane).and_then(Option::take) else { return };
        self.calls.push(Box::pin(async move {
            let mut delivery = taken.delivery(number);
            delivery.event = view.show(delivery.event);
            let began = Instant::now();
            let outcome = guarded(&mut *handler, &delivery, Some(call)).await;
            (Done { taken, delivery, outcome, began, took: began.elapsed() }, handler)
        }));
    }

    /// The next call that is over. Waits for ever if none is under way. Nothing is lost if it is dropped.
    pub(super) async fn next(&mut self) -> Done {
        let Some((done, handler)) = self.calls.next().await else { return std::future::pending().await };
        if let Some(place) = self.handlers.get_mut(done.taken.lane) {
            *place = Some(handler);
        }
        done
    }
}
