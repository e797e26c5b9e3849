//! What a reflector has done so far, in numbers that anybody can read at any time.
//!
//! Written by the reflector alone, read by metrics pages and by whoever waits for a list, through an `Arc`.
//! Invariant: counters only rise, and reading or writing one never waits for anybody. The numbers of one
//! reading need not belong to one instant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Makes an enum whose variants are counted: their number, all of them, and the word for each.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in a fixed order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word used as a label's value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

counted! {
    /// How a list was had.
    ListWay {
        /// As the beginning of a watch (rules R-WL).
        Streaming = "streaming",
        /// Page by page (rules R-LIST).
        List = "list",
    }
}

counted! {
    /// How a list ended.
    ListOutcome {
        /// It is in the store.
        Ok = "ok",
        /// It was not had; the store is as before.
        Failed = "failed",
    }
}

counted! {
    /// Why a list was asked for.
    ListReason {
        /// It is the first one.
        Start = "start",
        /// The version to go on from was too old for the server.
        Expired = "expired",
        /// The version to go on from was in the server's future.
        TooLarge = "too-large",
        /// A watch was closed at once, without an event.
        ShortWatch = "short-watch",
        /// A deletion could not be read.
        UndecodableDeletion = "undecodable-deletion",
        /// A watch was refused, or ended with another error.
        WatchFailed = "watch-failed",
        /// The list before, or asking discovery for it, failed.
        Retry = "retry",
    }
}

counted! {
    /// Why a list was not streamed although it was to be.
    FallBack {
        /// The server does not know streaming lists, or its storage cannot give them.
        Unsupported = "unsupported",
        /// The server never said that the initial events are through.
        NoMarker = "no-marker",
        /// The stream was closed at once, or again and again, before the initial events were through.
        Closed = "closed",
        /// Something in the stream did not decode.
        Undecodable = "undecodable",
        /// The server refused the stream, or ended it with an error.
        Refused = "refused",
    }
}

counted! {
    /// The types of watch events that are applied.
    EventKind {
        /// ADDED.
        Added = "added",
        /// MODIFIED.
        Modified = "modified",
        /// DELETED.
        Deleted = "deleted",
        /// BOOKMARK.
        Bookmark = "bookmark",
    }
}

/// One number for each variant of an enum.
#[derive(Debug)]
struct Family<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Family<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Family<N> {
    fn add(&self, index: usize, count: u64) {
        if let Some(number) = self.0.get(index) {
            number.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn get(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |number| number.load(Ordering::Relaxed))
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct ReflectorMetrics {
    lists: [Family<{ ListOutcome::ALL.len() }>; ListWay::ALL.len()],
    list_micros: Family<{ ListWay::ALL.len() }>,
    list_reasons: Family<{ ListReason::ALL.len() }>,
    fall_backs: Family<{ FallBack::ALL.len() }>,
    events: Family<{ EventKind::ALL.len() }>,
    pages: AtomicU64,
    listing: AtomicU64,
    watches: AtomicU64,
    very_short_watches: AtomicU64,
    undecodable: AtomicU64,
    last_event: AtomicU64,
    last_bookmark: AtomicU64,
    resource_version: AtomicU64,
}

impl ReflectorMetrics {
    /// Lists that ended so. A list that fell back to another way failed in the first.
    pub fn lists(&self, way: ListWay, outcome: ListOutcome) -> u64 {
        self.lists.get(way as usize).map_or(0, |outcomes| outcomes.get(outcome as usize))
    }

    /// How long the lists had this way took in all, from the first request to the last object; failed ones
    /// count too.
    pub fn list_time(&self, way: ListWay) -> Duration {
        Duration::from_micros(self.list_micros.get(way as usize))
    }

    /// Lists asked for, for this reason.
    pub fn list_reasons(&self, reason: ListReason) -> u64 {
        self.list_reasons.get(reason as usize)
    }

    /// Lists that were to be streamed and were not.
    pub fn fall_backs(&self, why: FallBack) -> u64 {
        self.fall_backs.get(why as usize)
    }

    /// Pages of lists received.
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Objects of the list under way received so far; 0 if none is. A list that comes in one page is counted
    /// when it is whole.
    pub fn listing(&self) -> u64 {
        self.listing.load(Ordering::Relaxed)
    }

    /// Watches opened, streaming lists that became watches included.
    pub fn watches(&self) -> u64 {
        self.watches.load(Ordering::Relaxed)
    }

    /// Watches that were closed within a second, without an event (rule R-W-6).
    pub fn very_short_watches(&self) -> u64 {
        self.very_short_watches.load(Ordering::Relaxed)
    }

    /// Watch events applied; initial events of streaming lists are not among them.
    pub fn events(&self, kind: EventKind) -> u64 {
        self.events.get(kind as usize)
    }

    /// Events passed over because they did not decode, or were of another kind.
    pub fn undecodable(&self) -> u64 {
        self.undecodable.load(Ordering::Relaxed)
    }

    /// When the last watch event of an object was applied, in milliseconds since 1970; 0: never.
    pub fn last_event_millis(&self) -> u64 {
        self.last_event.load(Ordering::Relaxed)
    }

    /// When the last bookmark came, in milliseconds since 1970; 0: never.
    pub fn last_bookmark_millis(&self) -> u64 {
        self.last_bookmark.load(Ordering::Relaxed)
    }

    /// The last version seen, where it is a number as kube-apiserver's are; else 0.
    pub fn resource_version(&self) -> u64 {
        self.resource_version.load(Ordering::Relaxed)
    }

    pub(super) fn list_begun(&self, reason: ListReason) {
        self.list_reasons.add(reason as usize, 1);
    }

    pub(super) fn page(&self, objects: usize) {
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.listing_more(objects);
    }

    pub(super) fn listing_more(&self, objects: usize) {
        self.listing.fetch_add(objects as u64, Ordering::Relaxed);
    }

    pub(super) fn listed(&self, way: ListWay, outcome: ListOutcome, took: Duration) {
        if let Some(outcomes) = self.lists.get(way as usize) {
            outcomes.add(outcome as usize, 1);
        }
        self.list_micros.add(way as usize, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.listing.store(0, Ordering::Relaxed);
    }

    pub(super) fn fell_back(&self, why: FallBack) {
        self.fall_backs.add(why as usize, 1);
    }

    pub(super) fn watching(&self) {
        self.watches.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn watch_was_very_short(&self) {
        self.very_short_watches.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn applied(&self, kind: EventKind) {
        self.events.add(kind as usize, 1);
        let last = if kind == EventKind::Bookmark { &self.last_bookmark } else { &self.last_event };
        last.store(unix_millis(), Ordering::Relaxed);
    }

    pub(super) fn passed_over(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn at_version(&self, version: &str) {
        self.resource_version.store(version.parse().unwrap_or_default(), Ordering::Relaxed);
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_number_is_its_own() {
        let metrics = ReflectorMetrics::default();
        metrics.listed(ListWay::Streaming, ListOutcome::Ok, Duration::from_millis(1500));
        metrics.listed(ListWay::Streaming, ListOutcome::Failed, Duration::from_millis(500));
        metrics.listed(ListWay::List, ListOutcome::Ok, Duration::from_millis(7));
        let lists: Vec<u64> = ListWay::ALL
            .into_iter()
            .flat_map(|way| ListOutcome::ALL.map(|outcome| metrics.lists(way, outcome)))
            .collect();
        assert_eq!(lists, [1, 1, 1, 0]);
        assert_eq!(ListWay::ALL.map(|way| metrics.list_time(way).as_millis()), [2000, 7]);
        for (times, reason) in ListReason::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| metrics.list_begun(reason));
        }
        assert_eq!(ListReason::ALL.map(|reason| metrics.list_reasons(reason)), [0, 1, 2, 3, 4, 5, 6]);
        for (times, why) in FallBack::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| metrics.fell_back(why));
        }
        assert_eq!(FallBack::ALL.map(|why| metrics.fall_backs(why)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_times_of_events_and_of_bookmarks_are_kept_apart() {
        let metrics = ReflectorMetrics::default();
        metrics.applied(EventKind::Bookmark);
        assert!(metrics.last_bookmark_millis() > 1_700_000_000_000);
        assert_eq!(metrics.last_event_millis(), 0, "a bookmark is no change");
        metrics.applied(EventKind::Deleted);
        assert!(metrics.last_event_millis() >= metrics.last_bookmark_millis());
        assert_eq!(EventKind::ALL.map(|kind| metrics.events(kind)), [0, 0, 1, 1]);
    }

    #[test]
    fn objects_so_far_are_those_of_the_list_under_way() {
        let metrics = ReflectorMetrics::default();
        metrics.page(500);
        metrics.page(20);
        assert_eq!((metrics.pages(), metrics.listing()), (2, 520));
        metrics.listed(ListWay::List, ListOutcome::Failed, Duration::ZERO);
        assert_eq!((metrics.pages(), metrics.listing()), (2, 0));
    }

    #[test]
    fn a_version_that_is_no_number_is_not_taken_for_one() {
        let metrics = ReflectorMetrics::default();
        for (version, number) in [("42", 42), ("18446744073709551615", u64::MAX), ("abc", 0), ("", 0)] {
            metrics.at_version(version);
            assert_eq!(metrics.resource_version(), number, "{version}");
        }
    }

    #[test]
    fn the_words_of_a_label_differ() {
        let words: HashSet<&str> = ListReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), ListReason::ALL.len());
        let words: HashSet<&str> = FallBack::ALL.iter().map(|why| why.as_str()).collect();
        assert_eq!(words.len(), FallBack::ALL.len());
    }
}
