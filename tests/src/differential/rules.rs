//! The known deviations of Hark from client-go, one by one, and how often each was met.
//!
//! Used by the comparer and in reports. Invariant: whatever is not named here is a difference.
//!
//! That Hark lists less often than client-go in some cases (R-W-3, the reflector's head) is no rule, since no script
//! has shown it: client-go's REST layer repeats what Hark's reflector does (section 1.10).

use std::collections::BTreeMap;
use std::fmt;

/// A deviation that the design wants. Numbers are those of the delivery contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An object that a list shows again as it was is no event of Hark's (5). client-go delivers an update
    /// whose two states are the same, also to handlers that never asked for a resync (R-PD-6, R-RP-6).
    /// Allowed only where the server's log has a list of client-go's since the last settling.
    UnchangedRelist,
    /// Resyncs come when their time has come, which is another moment for each client: both sides' are left
    /// out, of listeners that asked for them. Each must show the state that the handler knows; that each object
    /// gets one is what the step `Resync` waits for.
    ResyncTiming,
    /// A deletion of an object that the handler was never shown is no event of Hark's (6). client-go's
    /// in-order queue delivers it (R-RF-1); its classic one does not, so there it is a difference.
    NeverShown,
    /// Another uid under the same name is a delete and an add for Hark (7), and one update for client-go
    /// (R-PD-7). The delete has the last state shown, and is `unknown`.
    Recreated,
    /// The watch reports the deletion of an incarnation that was never shown, while an older one still was: for
    /// Hark the older one is gone, `unknown` when (6 and 7). client-go delivers the deletion of the one that
    /// the handler never saw.
    OtherIncarnation,
    /// No event before the first list of every subscription is there (3). What happened to the first resource
    /// while the second one's list was held back comes then: an object of the first list as one initial add of
    /// its state by then, or not at all if it is gone; what happened to younger objects, event by event.
    HeldBack,
    /// Where Hark serves a selector from a wider informer, an object that leaves the selector is deleted with the
    /// state that the handler knows, and never `unknown` (the view's head). A server that selects reports the
    /// version of the change, and a list that shows it no more tells client-go nothing but that.
    LeftSelector,
}

/// How often each rule was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Rule, u64>);

impl Tally {
    /// Counts one use.
    pub fn count(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }

    /// How often a rule was applied.
    pub fn of(&self, rule: Rule) -> u64 {
        self.0.get(&rule).copied().unwrap_or_default()
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Self) {
        for (rule, times) in &other.0 {
            *self.0.entry(*rule).or_default() += times;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.iter().map(|(rule, times)| format!("{rule:?} {times}"));
        f.write_str(&counts.collect::<Vec<_>>().join(", "))
    }
}
