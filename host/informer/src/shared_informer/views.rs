//! The views and indices of one informer, shared by those who ask for the same and gone with the last of them.
//!
//! Used by the factory for each subscription. Invariant: two subscriptions that ask for the same get the same
//! view, so an object is judged once for both, and the same index, so it is filed once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::SharedInformer;
use crate::factory::{ShutDown, SubscribeError};
use crate::filter::{FilterError, IndexPointer, Part};
use crate::indexer::Indexer;
use crate::namespaces;
use crate::view::{View, ViewSpec};

/// What an informer remembers of what it has given out.
#[derive(Default)]
pub(super) struct Views {
    views: Mutex<HashMap<ViewSpec, Weak<View>>>,
    /// By pointer.
    indices: Mutex<HashMap<String, Weak<Filed>>>,
    next_index: AtomicU64,
}

/// What a subscription may ask the cache by.
#[derive(Clone)]
pub struct Index {
    pub(crate) name: String,
    filed: Arc<Filed>,
}

/// An index that the indexer keeps for as long as anybody uses it.
struct Filed {
    indexer: Arc<Indexer>,
    /// Its name there: never used twice, so one that ends cannot take another with it.
    name: String,
}

impl Index {
    /// Its name at the indexer.
    pub(crate) fn filed_as(&self) -> &str {
        &self.filed.name
    }
}

impl Drop for Filed {
    fn drop(&mut self) {
        self.indexer.remove_indexer(&self.name);
    }
}

impl SharedInformer {
    /// The view of all that the informer has, wholly.
    pub fn view_of_everything(&self) -> Arc<View> {
        self.shared.everything.clone()
    }

    /// The view that sees what `spec` says. `namespaces` gives the informer of the namespaces that it follows, if it
    /// follows any.
    ///
    /// # Errors
    /// Everything that is wrong with the filter, or that there is no informer of the namespaces.
    pub fn view(
        &self,
        spec: ViewSpec,
        namespaces: impl FnOnce() -> Result<Arc<Self>, ShutDown>,
    ) -> Result<Arc<View>, SubscribeError> {
        if spec == ViewSpec::default() {
            return Ok(self.view_of_everything());
        }
        let mut views = self.shared.views.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(&spec).and_then(Weak::upgrade) {
            return Ok(view);
        }
        let view = Arc::new(View::compile(spec.clone())?);
        views.retain(|_, view| view.strong_count() > 0);
        views.insert(spec, Arc::downgrade(&view));
        drop(views);
        if view.follows() {
            let span = tracing::info_span!("namespaces", informer = %self.selector);
            let follow = namespaces::follow(namespaces()?, Arc::downgrade(&view), self.weak_core());
            view.set_follower(|| AbortOnDropHandle::new(self.runtime.spawn(follow.instrument(span))));
        }
        Ok(view)
    }

    /// Indices, each a name and a pointer.
    ///
    /// # Errors
    /// What is wrong with the pointers.
    pub fn indexes(&self, wanted: &[(String, String)]) -> Result<Vec<Index>, Vec<FilterError>> {
        let mut errors = Vec::new();
        let mut indexes = Vec::new();
        for (name, pointer) in wanted {
            match pointer.parse() {
                Ok(pointer) => indexes.push(Index { name: name.clone(), filed: self.filed(pointer) }),
                Err(error) => errors.push(FilterError::Pointer { part: Part::Indexes, error }),
            }
        }
        if errors.is_empty() { Ok(indexes) } else { Err(errors) }
    }

    fn filed(&self, pointer: IndexPointer) -> Arc<Filed> {
        let Views { indices, next_index, .. } = &self.shared.views;
        let mut indices = indices.lock().unwrap_or_else(PoisonError::into_inner);
        let text = pointer.pointer().to_string();
        if let Some(filed) = indices.get(&text).and_then(Weak::upgrade) {
            return filed;
        }
        let name = format!("{text} #{}", next_index.fetch_add(1, Ordering::Relaxed));
        let filed = Arc::new(Filed { indexer: self.indexer().clone(), name: name.clone() });
        let added = self.indexer().add_indexers(vec![(name, Arc::new(move |object| pointer.values(object)))]);
        // The name is new, so there is nothing that it could conflict with.
        debug_assert_eq!(added, Ok(()));
        indices.retain(|_, filed| filed.strong_count() > 0);
        indices.insert(text, Arc::downgrade(&filed));
        filed
    }
}
