//! Hands out shared informers: one for each selector, however many ask.
//!
//! Used by the host when a plugin's subscriptions are known. Invariants: informers are counted by their users;
//! the factory itself keeps none alive, so an informer stops when its last user leaves. After [`Factory::shutdown`]
//! there are none, and no new ones.
//!
//! An informer is started when it is first asked for, so there is no `Start` to call, or to forget after asking for
//! one more (R-FA-3, a deviation). Selectors are part of the question, so one factory serves all namespaces and
//! selectors (R-FA-7, a deviation).

mod subscribe;
mod wait;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

pub use self::subscribe::{SubscribeError, SubscriptionSpec};
pub use self::wait::{Cause, NotSynced, SyncResult, wait_for_sync};
use crate::client::Client;
use crate::list_watch::{ListWatch, ListerWatcher};
use crate::object::Ingest;
use crate::reflector::ReflectorOptions;
use crate::resource::Selector;
use crate::shared_informer::SharedInformer;

/// Where informers list and watch: by selector.
type Source = Box<dyn Fn(&Selector) -> Arc<dyn ListerWatcher> + Send + Sync>;

/// See the file's head.
pub struct Factory {
    source: Source,
    options: ReflectorOptions,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    informers: HashMap<Selector, Weak<SharedInformer>>,
    shut_down: bool,
}

/// The factory was shut down: it starts nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no informer for {selector}: its factory was shut down")]
pub struct ShutDown {
    /// What was asked for.
    pub selector: Selector,
}

impl Factory {
    /// A factory whose informers speak through `client` and run on `runtime`.
    pub fn new(client: Client, ingest: Ingest, runtime: Handle) -> Self {
        let source = move |selector: &Selector| -> Arc<dyn ListerWatcher> {
            Arc::new(ListWatch::new(client.clone(), selector.clone(), ingest))
        };
        Self::with_source(source, runtime)
    }

    /// A factory whose informers list and watch wherever `source` says: another transport, or a test's server.
    pub fn with_source(
        source: impl Fn(&Selector) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
        runtime: Handle,
    ) -> Self {
        Self {
            source: Box::new(source),
            options: ReflectorOptions::default(),
            runtime,
            state: Mutex::default(),
        }
    }

    /// Sets how the informers started from now on list and watch: page size, way of the first list, back-off. Each is
    /// named by its selector.
    #[must_use]
    pub fn with_options(self, options: ReflectorOptions) -> Self {
        Self { options, ..self }
    }

    /// The informer for `selector`, started if nobody uses it yet.
    ///
    /// # Errors
    /// [`ShutDown`] after [`Factory::shutdown`].
    pub fn informer(&self, selector: &Selector) -> Result<Arc<SharedInformer>, ShutDown> {
        let mut state = self.lock();
        if state.shut_down {
            return Err(ShutDown { selector: selector.clone() });
        }
        if let Some(informer) = state.informers.get(selector).and_then(Weak::upgrade) {
            return Ok(informer);
        }
        let (source, options) = ((self.source)(selector), self.options.clone());
        let informer = SharedInformer::start_with(selector.clone(), source, &self.runtime, options);
        let informer = Arc::new(informer);
        state.informers.retain(|_, informer| informer.strong_count() > 0);
        state.informers.insert(selector.clone(), Arc::downgrade(&informer));
        Ok(informer)
    }

    /// The informers in use at present, in the order of their selectors.
    pub fn informers(&self) -> Vec<Arc<SharedInformer>> {
        let mut running: Vec<_> = self.lock().informers.values().filter_map(Weak::upgrade).collect();
        running.sort_by(|a, b| a.selector().cmp(b.selector()));
        running
    }

    /// Waits until the first list of every informer in use at present is in its cache, or until `cancel`
    /// (R-FA-5). For some of them, see [`wait_for_sync`].
    pub async fn wait_for_sync(&self, cancel: &CancellationToken) -> SyncResult {
        let informers = self.informers();
        wait_for_sync(&informers, cancel).await
    }

    /// Stops every informer in use and waits until their tasks have ended; from now on there are no new ones.
    /// May be called again, and by several at once (R-FA-4): each waits. Listeners are not stopped: they go on with
    /// what they have queued.
    pub async fn shutdown(&self) {
        self.lock().shut_down = true;
        let informers = self.informers();
        for informer in &informers {
            informer.stop();
        }
        for informer in &informers {
            informer.shutdown().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
