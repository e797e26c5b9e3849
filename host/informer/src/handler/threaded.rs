//! A handler with an OS thread of its own, for handlers that block: guest code, or a library that does.
//!
//! Used where a listener has several lanes: the lanes share the task that runs the listener, so a handler that
//! blocks would hold its neighbours back. Invariants: the inner handler is called and dropped on its thread and
//! nowhere else; the thread ends when the [`Threaded`] is dropped, and survives a panic of the handler.

use std::thread::Builder;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::{Call, Delivery, EventHandler, HandleFuture, Outcome, guarded, start_thread};

/// See the file's head.
pub struct Threaded {
    /// Room for one: a handler gets one delivery at a time.
    jobs: mpsc::Sender<Job>,
}

struct Job {
    delivery: Delivery,
    call: Option<Call>,
    outcome: oneshot::Sender<Outcome>,
}

impl Threaded {
    /// Moves `handler` to a new thread called `name`, with a runtime of one thread for timers and sockets.
    ///
    /// # Errors
    /// If the system gives no thread, or no runtime.
    pub fn spawn(name: &str, handler: Box<dyn EventHandler>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Self::spawn_on(Builder::new().name(name.to_owned()), handler, runtime)
    }

    /// As [`Threaded::spawn`], with a runtime of the caller's, which need not have what the handler does not use: each
    /// one that has sockets takes four descriptors.
    ///
    /// # Errors
    /// If the system gives no thread. The handler is dropped on this one then, without having been called.
    pub fn spawn_on(
        thread: Builder,
        handler: Box<dyn EventHandler>,
        runtime: Runtime,
    ) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel(1);
        let work = move |runtime: Runtime| runtime.block_on(serve(handler, inbox));
        start_thread(thread, runtime, work).map_err(|(error, runtime)| {
            // Dropping it here panics if this is a task of another one.
            runtime.shutdown_background();
            error
        })?;
        Ok(Self { jobs })
    }

    async fn forward(&self, delivery: &Delivery) -> Outcome {
        let (outcome, answer) = oneshot::channel();
        let job = Job { delivery: delivery.clone(), call: Call::current(), outcome };
        if self.jobs.send(job).await.is_err() {
            return Outcome::Trap("the handler's thread is gone".into());
        }
        answer.await.unwrap_or_else(|_| Outcome::Trap("the handler's thread is gone".into()))
    }
}

impl EventHandler for Threaded {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(self.forward(delivery))
    }
}

/// The thread's work: one job after another, until nobody can send one.
async fn serve(mut handler: Box<dyn EventHandler>, mut inbox: mpsc::Receiver<Job>) {
    while let Some(Job { delivery, call, mut outcome }) = inbox.recv().await {
        let handled = tokio::select! {
            biased;
            handled = guarded(&mut *handler, &delivery, call) => handled,
            // The attempt was abandoned.
            () = outcome.closed() => continue,
        };
        // It may have been abandoned just now, which leaves nobody to tell.
        let _ = outcome.send(handled);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::ThreadId;
    use std::time::SystemTime;

    use super::*;
    use crate::handler::Event;
    use crate::testing::object;

    /// Says on which threads it is called and dropped; panics for the name `bad`, never ends for `stuck`.
    struct Probe(std::sync::mpsc::Sender<(&'static str, ThreadId)>);

    impl EventHandler for Probe {
        fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async move {
                self.0.send(("called", std::thread::current().id())).expect("the test listens");
                match delivery.event.key().name() {
                    "bad" => panic!("no {}", delivery.sequence),
                    "stuck" => std::future::pending().await,
                    _ => Outcome::Ok,
                }
            })
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            // The test may have failed by now.
            let _ = self.0.send(("dropped", std::thread::current().id()));
        }
    }

    fn delivery(name: &str) -> Delivery {
        Delivery {
            subscription: 0,
            sequence: 7,
            attempt: 1,
            arrived: SystemTime::UNIX_EPOCH,
            event: Event::Add { object: Arc::clone(&object(name, "u", "1")), initial: false },
        }
    }

    #[tokio::test]
    async fn without_a_thread_there_is_an_error_and_no_panic_within_a_runtime() {
        let (sender, seen) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        // A stack beyond all address space: the system refuses.
        let thread = Builder::new().stack_size(1 << 50);
        assert!(Threaded::spawn_on(thread, Box::new(Probe(sender)), runtime).is_err());
        let last: Vec<_> = seen.iter().map(|(what, _)| what).collect();
        assert_eq!(last, ["dropped"]);
    }

    #[tokio::test]
    async fn a_threaded_handler_is_called_and_dropped_on_its_thread_and_survives_panics() {
        let (sender, seen) = std::sync::mpsc::channel();
        let mut handler = Threaded::spawn("lane", Box::new(Probe(sender))).expect("a thread");
        assert_eq!(handler.handle(&delivery("bad")).await, Outcome::Trap("panicked: no 7".into()));
        assert_eq!(handler.handle(&delivery("good")).await, Outcome::Ok);
        let abandoned = delivery("stuck");
        tokio::select! {
            biased;
            outcome = handler.handle(&abandoned) => panic!("it never ends, but: {outcome:?}"),
            () = async { let mut left = 3; while left > 0 { left -= seen.try_iter().count().min(left); tokio::task::yield_now().await } } => {}
        }
        assert_eq!(handler.handle(&delivery("good")).await, Outcome::Ok, "the one before was abandoned");
        drop(handler);
        let last: Vec<_> = seen.iter().collect();
        assert_eq!(last.iter().map(|(what, _)| *what).collect::<Vec<_>>(), ["called", "dropped"]);
        assert!(last.iter().all(|(_, thread)| *thread == last[0].1), "all on one thread");
        assert_ne!(last[0].1, std::thread::current().id());
    }
}
