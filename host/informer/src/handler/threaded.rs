//! A handler with an OS thread of its own, for handlers that block: guest code, or a library that does.
//!
//! Used where a listener has several lanes: the lanes share the task that runs the listener, so a handler that
//! blocks would hold its neighbours back. Invariants: the inner handler is called and dropped on its thread and
//! nowhere else; the thread ends when the [`Threaded`] is dropped, and survives a panic of the handler.

use std::thread::Builder;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::{
    AsideFuture, Call, Delivery, EventHandler, HandleFuture, Legacy, Outcome, Stop, start_thread, within,
};

/// See the file's head.
pub struct Threaded {
    /// Room for one: a handler gets one delivery at a time.
    jobs: mpsc::Sender<Job>,
}

/// What the handler is to do; the methods of [`EventHandler`].
enum Job {
    Handle(Delivery, Asked<Outcome>),
    Save(Asked<Result<Option<Legacy>, String>>),
    Restore(Option<Legacy>, Asked<Result<(), String>>),
    Synced(u32, Asked<()>),
    Stop(Stop, Asked<()>),
}

/// Who waits for a job's answer, and as a part of which call. An error: it panicked.
struct Asked<T> {
    call: Option<Call>,
    answer: oneshot::Sender<Result<T, String>>,
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

    /// Has the thread do something. The error: it panicked, or its thread is gone.
    async fn ask<T>(&self, job: impl FnOnce(Asked<T>) -> Job) -> Result<T, String> {
        let gone = || "the handler's thread is gone".to_owned();
        let (answer, answered) = oneshot::channel();
        self.jobs.send(job(Asked { call: Call::current(), answer })).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// As [`Threaded::ask`], where nobody can be told of an error.
    async fn tell(&self, what: &str, job: impl FnOnce(Asked<()>) -> Job) {
        if let Err(why) = self.ask(job).await {
            tracing::error!("a handler was told: {what}: {why}");
        }
    }
}

impl EventHandler for Threaded {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async {
            let job = |asked| Job::Handle(delivery.clone(), asked);
            self.ask(job).await.unwrap_or_else(Outcome::Trap)
        })
    }

    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        Box::pin(async { self.ask(Job::Save).await? })
    }

    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        Box::pin(async { self.ask(|asked| Job::Restore(legacy, asked)).await? })
    }

    fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
        Box::pin(self.tell("synced", move |asked| Job::Synced(subscription, asked)))
    }

    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        Box::pin(self.tell("stop", move |asked| Job::Stop(why, asked)))
    }
}

impl<T> Asked<T> {
    /// Has it answered, unless nobody waits for that any more.
    async fn by(self, work: impl Future<Output = T>) {
        let Self { call, mut answer } = self;
        let done = tokio::select! {
            biased;
            done = within(call, work) => done,
            // It was abandoned.
            () = answer.closed() => return,
        };
        // It may have been abandoned just now, which leaves nobody to tell.
        let _ = answer.send(done);
    }
}

/// The thread's work: one job after another, until nobody can send one.
async fn serve(mut handler: Box<dyn EventHandler>, mut inbox: mpsc::Receiver<Job>) {
    while let Some(job) = inbox.recv().await {
        // Each call is made within, so that a panic while its future is made is caught as well.
        match job {
            Job::Handle(delivery, asked) => asked.by(async { handler.handle(&delivery).await }).await,
            Job::Save(asked) => asked.by(async { handler.save().await }).await,
            Job::Restore(legacy, asked) => asked.by(async { handler.restore(legacy).await }).await,
            Job::Synced(number, asked) => asked.by(async { handler.synced(number).await }).await,
            Job::Stop(why, asked) => asked.by(async { handler.stop(why).await }).await,
        }
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
    struct Probe(std::sync::mpsc::Sender<(&'static str, ThreadId)>, u32);

    impl Probe {
        fn say(&self, what: &'static str) {
            self.0.send((what, std::thread::current().id())).expect("the test listens");
        }
    }

    impl EventHandler for Probe {
        fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
            self.say("save");
            let legacy: Legacy = Arc::new(self.1);
            Box::pin(async { Ok(Some(legacy)) })
        }

        fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
            let legacy = legacy.expect("nothing");
            self.1 = *legacy.downcast_ref().expect("a number");
            self.say("restore");
            Box::pin(async { Ok(()) })
        }

        fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
            self.1 += subscription;
            self.say("synced");
            Box::pin(async {})
        }

        fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
            assert_eq!(why, Stop::Drained);
            self.say("stop");
            Box::pin(async { panic!("nobody minds") })
        }

        fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async move {
                self.say("called");
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
        assert!(Threaded::spawn_on(thread, Box::new(Probe(sender, 0)), runtime).is_err());
        let last: Vec<_> = seen.iter().map(|(what, _)| what).collect();
        assert_eq!(last, ["dropped"]);
    }

    #[tokio::test]
    async fn a_threaded_handler_is_called_and_dropped_on_its_thread_and_survives_panics() {
        let (sender, seen) = std::sync::mpsc::channel();
        let mut handler = Threaded::spawn("lane", Box::new(Probe(sender, 0))).expect("a thread");
        assert_eq!(handler.handle(&delivery("bad")).await, Outcome::Trap("panicked: no 7".into()));
        assert_eq!(handler.handle(&delivery("good")).await, Outcome::Ok);
        let abandoned = delivery("stuck");
        tokio::select! {
            biased;
            outcome = handler.handle(&abandoned) => panic!("it never ends, but: {outcome:?}"),
            () = async { let mut left = 3; while left > 0 { left -= seen.try_iter().count().min(left); tokio::task::yield_now().await } } => {}
        }
        assert_eq!(handler.handle(&delivery("good")).await, Outcome::Ok, "the one before was abandoned");
        let legacy: Legacy = Arc::new(7_u32);
        assert_eq!(handler.restore(Some(legacy)).await, Ok(()));
        assert_eq!(handler.restore(None).await, Err("panicked: nothing".into()), "it survives that");
        handler.synced(3).await;
        let saved = handler.save().await.expect("it saves").expect("something");
        assert_eq!(saved.downcast_ref::<u32>(), Some(&10));
        handler.stop(Stop::Drained).await;
        drop(handler);
        let last: Vec<_> = seen.iter().collect();
        let asked: Vec<_> = last.iter().map(|(what, _)| *what).collect();
        assert_eq!(asked, ["called", "restore", "synced", "save", "stop", "dropped"]);
        assert!(last.iter().all(|(_, thread)| *thread == last[0].1), "all on one thread");
        assert_ne!(last[0].1, std::thread::current().id());
    }
}
