//! Keeps a view's namespaces those that a label selector matches now.
//!
//! One [`follow`] task for each view that names namespaces by their labels, started by the factory and ended with
//! the view. It reads an informer of namespaces, which the API server narrows to the selector, and says what is in
//! its cache whenever that changes. Invariant: it goes by the cache's contents, not by single events, so nothing
//! is lost if several changes are looked at once.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::handler::Event;
use crate::processor::{Core, Sink};
use crate::shared_informer::SharedInformer;
use crate::view::View;

/// Wakes the task when the namespaces' informer has something to tell.
#[derive(Default)]
struct Changed(Notify);

impl Sink for Changed {
    fn offer(&self, _: u64, _: Event) {
        self.0.notify_one();
    }

    fn synced(&self, _: u64) {
        self.0.notify_one();
    }

    fn excused(&self, _: u64, _: bool) {
        self.0.notify_one();
    }
}

/// A place among the informer's registrations, given back when the task ends or is aborted.
struct Joined {
    namespaces: Arc<SharedInformer>,
    sink: Arc<dyn Sink>,
}

impl Joined {
    fn new(namespaces: Arc<SharedInformer>, sink: Arc<dyn Sink>) -> Self {
        let everything = namespaces.view_of_everything();
        namespaces.core().with(|processor, _| processor.register(&sink, 0, None, &everything));
        Self { namespaces, sink }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.namespaces.core().with(|processor, _| processor.unregister(&self.sink, 0));
    }
}

/// Runs until the view or its informer's `core` is gone.
pub(crate) async fn follow(namespaces: Arc<SharedInformer>, view: Weak<View>, core: Weak<Core>) {
    let changed = Arc::new(Changed::default());
    let joined = Joined::new(namespaces, changed.clone());
    while let (Some(view), Some(core)) = (view.upgrade(), core.upgrade()) {
        tell(&joined.namespaces, &view, &core);
        drop((view, core));
        changed.0.notified().await;
    }
}

/// Says how things stand. The two informers' locks are never held together.
fn tell(namespaces: &SharedInformer, view: &Arc<View>, core: &Core) {
    let (names, excused) = namespaces.core().with(|processor, indexer| {
        let names = processor.synced().then(|| indexer.keys());
        (names, processor.excused())
    });
    core.with(|processor, indexer| match names {
        Some(names) => {
            let names = names.iter().map(|key| key.name().into()).collect();
            processor.set_view_excused(view, false);
            processor.set_namespaces(view, names, indexer);
        }
        None => processor.set_view_excused(view, excused),
    });
}
