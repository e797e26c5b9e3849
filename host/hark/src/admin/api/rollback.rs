//! How a plugin stands with rollback, as `/api/plugins` says it.
//!
//! Used by the documents of the admin port. Invariant: there is none with rollback switched off.

use serde::Serialize;

use crate::plugins::view::RollbackView;
use crate::timestamp::timestamp;

/// `rollback` of a plugin.
#[derive(Serialize)]
pub(super) struct RollbackDocument<'a> {
    /// `good`, `on-trial`, `rolling-back`, `rolled-back` or `overruled`.
    state: &'static str,
    /// What would be gone back to, or was. Null before the first version.
    good_sha256: Option<String>,
    /// The content that is refused; null if none is.
    refused_sha256: Option<String>,
    /// Since when it is, or since when there is no way back; null otherwise, as the next one.
    since: Option<String>,
    /// The last event that broke it, and how; or why there is no way back.
    why: Option<&'a str>,
    /// How often it came to that in this host.
    rollbacks: u64,
}

impl<'a> RollbackDocument<'a> {
    pub(super) fn of(view: &'a RollbackView) -> Self {
        let refused = view.rolled_back.as_ref();
        let refusal = refused.map(|one| (one.at, &*one.why));
        let cause = refusal.or(view.no_way_back.as_ref().map(|one| (one.at, &*one.why)));
        Self {
            state: view.state.as_str(),
            good_sha256: view.good.map(|hash| hash.to_string()),
            refused_sha256: refused.map(|one| one.hash.to_string()),
            since: cause.map(|(at, _)| timestamp(at)),
            why: cause.map(|(_, why)| why),
            rollbacks: view.rollbacks,
        }
    }
}
