//! What a reflector counts.

use super::super::*;
use super::support::*;
use crate::status::ApiError;

#[tokio::test(start_paused = true)]
async fn each_list_is_counted_by_its_reason_and_outcome() {
    let lists = vec![
        Err(unreachable()),
        page("1", &["a", "b"], "C1"),
        list("1", &["c"]),
        list("2", &[]),
        Err(refused(500)),
        list("3", &[]),
        list("4", &[]),
        Err(ApiError::Status(expired())),
        list("5", &[]),
    ];
    let watches = vec![
        Ok(vec![]),
        Ok(vec![second(), failing(status_of(""))]),
        Ok(vec![undecodable("a", false), undecodable("b", true)]),
        Ok(vec![second(), failing(expired())]),
    ];
    let played = play(script(lists, watches)).await;
    let metrics = &played.metrics;
    let reasons: Vec<(&str, u64)> =
        ListReason::ALL.iter().map(|reason| (reason.as_str(), metrics.list_reasons(*reason))).collect();
    assert_eq!(
        reasons,
        [
            ("start", 2),
            ("expired", 2),
            ("too-large", 0),
            ("short-watch", 1),
            ("undecodable-deletion", 1),
            ("watch-failed", 1),
            ("retry", 1),
        ],
        "a first list that failed is still the first; an expired one is repeated at once"
    );
    assert_eq!(ListOutcome::ALL.map(|outcome| metrics.lists(ListWay::List, outcome)), [5, 2]);
    assert_eq!((metrics.pages(), metrics.listing()), (6, 0));
    assert_eq!((metrics.watches(), metrics.very_short_watches(), metrics.undecodable()), (4, 1, 2));
    assert_eq!(metrics.resource_version(), 5);
    assert_eq!(metrics.last_event_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_list_is_that_until_it_is_in_the_store() {
    let events = vec![second(), added("a", 1), second(), marker("2"), second(), Step::Exhausted, Step::Hang];
    let played = play(streaming(vec![], vec![Ok(events)])).await;
    assert_eq!(played.metrics.list_time(ListWay::Streaming), Duration::from_secs(2));
    assert_eq!(played.metrics.list_time(ListWay::List), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_by_type_when_they_are_applied() {
    let events = vec![
        added("a", 2),
        modified("a", 3),
        modified("a", 4),
        deleted("a", 5),
        bookmark("6"),
        undecodable("b", false),
        second(),
        Step::Exhausted,
        Step::Hang,
    ];
    let played = play(script(vec![list("1", &[])], vec![Ok(events)])).await;
    assert_eq!(EventKind::ALL.map(|kind| played.metrics.events(kind)), [1, 2, 1, 1]);
    assert_eq!((played.metrics.undecodable(), played.metrics.resource_version()), (1, 6));
    assert!(played.metrics.last_event_millis() > 0 && played.metrics.last_bookmark_millis() > 0);
}
