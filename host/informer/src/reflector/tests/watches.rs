//! The watch states, rules R-W.

use super::super::*;
use super::support::*;
use crate::backoff::BackoffConfig;
use crate::list_watch::WatchEvent;
use crate::object::Ingest;
use crate::status::{ApiError, Status};

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_opened_again_at_once_at_the_last_event() {
    let watches = vec![Ok(vec![modified("bar", 55), added("baz", 32)]), quiet(), Ok(vec![bookmark("40")])];
    let played = play(script(vec![list("10", &[])], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "32""#, r#"WATCH "32""#, r#"WATCH "40""#],
        "R-W-6, TestReflectorWatchHandler: the last version, not the greatest; section 7.12 no. 2"
    );
    assert_eq!(
        (played.gap(2), played.gap(3), played.gap(4)),
        (Duration::ZERO, Duration::from_secs(1), Duration::ZERO)
    );
    assert_eq!(played.status.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_very_short_watch_is_followed_by_a_wait_and_a_list() {
    let played = play(script(vec![list("10", &[]), list("10", &[])], vec![Ok(vec![])])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "10""#],
        "R-W-6, R-W-7; TestReflectorHandleWatchResultChanClosedBefore"
    );
    assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()), "{:?}", played.gap(2));
    assert!(played.problems.is_empty(), "once is nothing to speak of");
}

#[tokio::test(start_paused = true)]
async fn very_short_watches_in_a_row_are_a_problem_and_wait_longer_each_time() {
    let lists = (0..6).map(|_| list("10", &[])).collect();
    let mut watches: Vec<WatchReply> = (0..5).map(|_| Ok(vec![])).collect();
    watches.push(Ok(vec![second(), second()]));
    let played = play(script(lists, watches)).await;
    let waits: Vec<f64> = (1..6).map(|cycle| played.gap(cycle * 2).as_secs_f64()).collect();
    for (wait, nominal) in waits.iter().zip([0.8, 1.6, 3.2, 6.4, 12.8]) {
        assert!((nominal..nominal * 2.0).contains(wait), "R-BO-1: {waits:?}");
    }
    assert_eq!(played.problems, [Some(ProblemKind::Server), None]);
}

#[tokio::test(start_paused = true)]
async fn events_passed_over_do_not_make_a_watch_longer() {
    let watches = vec![Ok(vec![undecodable("a", false)])];
    let played = play(script(vec![list("10", &[]), list("10", &[])], watches)).await;
    assert_eq!(played.requests()[2], r#"LIST "10" 0"#, "R-W-4, section 7.12 no. 5");
    assert_eq!((played.status.undecodable, played.status.events), (1, 0));
    assert_eq!(played.problems, [Some(ProblemKind::Decode), None], "the list put it right");
}

#[tokio::test(start_paused = true)]
async fn an_event_passed_over_moves_neither_version_nor_store_and_shows_until_put_right() {
    let watches = vec![Ok(vec![undecodable("a", false), second()]), Ok(vec![modified("a", 12)])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.requests(), [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "12""#]);
    assert_eq!(played.calls, ["replace@10 [a@1]", "update a@12"]);
    assert_eq!(played.problems, [Some(ProblemKind::Decode), None]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_makes_a_list() {
    let watches = vec![Ok(vec![added("b", 11), undecodable("a", true), Step::Hang])];
    let played = play(script(vec![list("10", &["a"]), list("12", &["b"])], watches)).await;
    assert_eq!(played.requests(), [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "11" 0"#, r#"WATCH "12""#]);
    assert_eq!(played.calls.last().map(String::as_str), Some("replace@12 [b@1]"));
    assert_eq!(played.status.undecodable, 1);
}

#[tokio::test(start_paused = true)]
async fn versions_of_unordered_initial_events_are_not_recorded() {
    for start in ["", "0"] {
        let watches = vec![
            Ok(vec![added("a", 9), added("b", 3), second()]),
            Ok(vec![added("a", 9), added("b", 3), modified("b", 10), added("c", 11)]),
        ];
        let played = play(script(vec![list(start, &[])], watches)).await;
        let at_start = format!("WATCH {start:?}");
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, at_start.as_str(), at_start.as_str(), r#"WATCH "11""#],
            "R-W-2; section 7.12 no. 6"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_does_not_erase_the_last_one() {
    let nameless = Object::parse(r#"{"metadata":{"name":"a"}}"#, None, Ingest::default()).expect("an object");
    let watches = vec![Ok(vec![Step::Event(WatchEvent::Modified(nameless))])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.requests().last(), Some(&r#"WATCH "10""#), "a deviation from R-W-4, no. 8");
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_old_waits_a_step_and_lists_at_the_last_version() {
    for reply in [Ok(vec![failing(expired())]), Err(ApiError::Status(expired()))] {
        let watches = vec![reply, Ok(vec![modified("a", 21), Step::Hang])];
        let lists = vec![list("10", &["a"]), list("20", &["a", "b"])];
        let played = play_for(
            script(lists, watches),
            ReflectorOptions { seed: Some(1), ..ReflectorOptions::default() },
            Some(Duration::from_secs(5)),
        )
        .await;
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "20""#],
            "R-W-7, R-LOOP-2; section 7.12 no. 3"
        );
        assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()));
        assert!(played.problems.is_empty(), "having been away is no problem");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_called_too_old_twice_is_given_up() {
    let watches = vec![Ok(vec![failing(expired())]), Ok(vec![failing(expired())])];
    let lists = vec![list("10", &[]), list("10", &[]), list("30", &[])];
    let played = play(script(lists, watches)).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"WATCH "10""#,
            r#"LIST "10" 0"#,
            r#"WATCH "10""#,
            r#"LIST "" 500"#,
            r#"WATCH "30""#
        ],
        "#133810, a deviation from R-W-7"
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_watched_again_at_the_same_version_without_a_list() {
    let busy = || Err(refused(429));
    let watches = vec![busy(), busy(), busy(), busy(), Ok(vec![modified("a", 11)])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.status.lists, 1, "R-W-3; TestNoRelistOnTooManyRequests");
    assert_eq!(played.status.watches, 1);
    assert_eq!(played.requests().iter().filter(|request| **request == r#"WATCH "10""#).count(), 5);
    for (index, nominal) in [(2, 0.8), (3, 1.6), (4, 3.2), (5, 6.4)] {
        assert!((nominal..nominal * 2.0).contains(&played.gap(index).as_secs_f64()), "R-BO-1");
    }
    assert_eq!(played.problems, [Some(ProblemKind::Throttled), None]);
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_that_says_when_to_come_back_is_watched_again_without_a_list() {
    let trouble = |code, seconds| {
        let after = Some(Duration::from_secs(seconds));
        Err(ApiError::Status(Status::from_response(code, after, b"shutting down")))
    };
    let watches = vec![trouble(503, 3), trouble(500, 1), Ok(vec![modified("a", 11)])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    let requests = [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "11""#];
    assert_eq!(played.requests(), requests, "section 1.10");
    assert!((3.0..4.0).contains(&played.gap(2).as_secs_f64()), "{:?}", played.gap(2));

    let without = vec![Err(refused(503)), Ok(vec![modified("a", 11)])];
    let played = play(script(vec![list("10", &["a"]), list("10", &["a"])], without)).await;
    assert_eq!(played.status.lists, 2, "R-W-3: without a Retry-After, a list follows");

    let watches = (0..11).map(|_| trouble(503, 1)).collect();
    let played = play(script(vec![list("10", &["a"]), list("10", &["a"])], watches)).await;
    assert_eq!(played.status.lists, 2, "section 1.10: ten times in a row, and no more");
    assert_eq!(played.requests()[11..13], [r#"WATCH "10""#, r#"LIST "10" 0"#]);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_within_a_stream_keep_its_place_too() {
    let busy =
        status_of(r#"{"kind":"Status","apiVersion":"v1","code":429,"details":{"retryAfterSeconds":17}}"#);
    let watches = vec![Err(refused(429)), Ok(vec![modified("a", 11), failing(busy)]), quiet()];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "11""#, r#"WATCH "11""#],
        "R-W-7; TestBackoffOnTooManyRequests"
    );
    assert!((17.0..18.0).contains(&played.gap(3).as_secs_f64()), "Retry-After: {:?}", played.gap(3));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_within_reason() {
    let asks = |seconds| {
        Err(ApiError::Status(Status::from_response(429, Some(Duration::from_secs(seconds)), b"plain text")))
    };
    let mut lists = vec![asks(7), asks(1_000_000)];
    lists.extend((0..14).map(|_| asks(1)));
    lists.push(asks(0));
    lists.push(list("1", &[]));
    let played = play(script(lists, vec![])).await;
    let gap = |index| played.gap(index).as_secs_f64();
    assert!((7.0..8.0).contains(&gap(1)));
    assert!((120.0..121.0).contains(&gap(2)));
    for index in 3..=10 {
        assert!((1.0..2.0).contains(&gap(index)), "section 1.10: as asked, {}", gap(index));
    }
    for (index, nominal) in [(11, 1.0), (12, 1.6), (13, 3.2), (14, 6.4), (15, 12.8), (16, 25.6), (17, 30.0)] {
        assert!(
            (nominal..nominal * 2.0).contains(&gap(index)),
            "the back-off's own from then on: {}",
            gap(index)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_old_after_an_outage_is_followed_by_a_list_soon() {
    let mut watches: Vec<WatchReply> = (0..8).map(|_| Err(unreachable())).collect();
    watches.push(Ok(vec![failing(expired())]));
    let played = play(script(vec![list("10", &[]), list("20", &[])], watches)).await;
    let relist = played.requests().iter().position(|request| *request == r#"LIST "10" 0"#).expect("a relist");
    assert!(played.gap(relist - 1) > Duration::from_secs(20), "the outage brought the back-off far");
    assert!(played.gap(relist) < Duration::from_secs(2), "a deviation from R-BO-1: {:?}", played.gap(relist));
}

#[tokio::test(start_paused = true)]
async fn the_back_off_begins_anew_when_an_absent_resource_has_appeared() {
    let mut script =
        script(vec![list("1", &["a"])], vec![Ok(vec![second(), second()]), Err(unreachable()), quiet()]);
    script.resolves = (0..8).map(|_| Err(ApiError::Absent("gone".into()))).collect();
    let played = play(script).await;
    assert!(played.gap(8) > Duration::from_secs(20));
    let last = played.requests.len() - 2;
    assert!(played.gap(last) < Duration::from_secs(2), "{:?}", played.gap(last));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_watched_again_at_the_same_version_with_back_off() {
    for (failures, least, most) in [(5, 0.031, 0.064), (40, 1.79, 3.7)] {
        let mut watches: Vec<WatchReply> = (0..failures).map(|_| Err(unreachable())).collect();
        watches.push(Ok(vec![modified("a", 11)]));
        let backoff = BackoffConfig {
            initial: Duration::from_millis(1),
            cap: Duration::from_millis(50),
            ..BackoffConfig::default()
        };
        let options = ReflectorOptions { backoff, ..ReflectorOptions::default() };
        let played = play_with(script(vec![list("10", &["a"])], watches), options).await;
        assert_eq!(played.status.lists, 1, "R-W-3: no relist");
        let total = played.requests.last().map(|(at, _)| at.as_secs_f64()).unwrap_or_default();
        assert!((least..most).contains(&total), "TestReflectorListAndWatchInitConnBackoff: {total}");
        assert_eq!(played.problems, [Some(ProblemKind::Unreachable), None]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_error_of_a_watch_makes_a_new_cycle() {
    let store_read = r#"{"kind":"Status","apiVersion":"v1","code":500,"reason":"StoreReadError"}"#;
    for reply in [
        Ok(vec![added("corrupt", 4), failing(status_of(store_read))]),
        Ok(vec![added("corrupt", 4), Step::Broken(ApiError::Decode("no event".into()))]),
        Ok(vec![added("corrupt", 4), failing(Status::from_response(403, None, b""))]),
    ] {
        let lists = vec![list("3", &["a"]), list("5", &["a"])];
        let played = play(script(lists, vec![reply])).await;
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, r#"WATCH "3""#, r#"LIST "4" 0"#, r#"WATCH "5""#],
            "R-W-7; TestReflectorReplacesStoreOnUnsafeDelete"
        );
        assert_eq!(played.calls, ["replace@3 [a@1]", "add corrupt@4", "replace@5 [a@1]"]);
    }
    for error in [refused(500), refused(403), ApiError::Decode("html".into())] {
        let played = play(script(vec![list("3", &[]), list("3", &[])], vec![Err(error)])).await;
        assert_eq!(played.requests()[2], r#"LIST "3" 0"#, "R-W-3");
    }
}

fn internal_error() -> Status {
    Status::from_response(500, None, b"")
}

#[tokio::test(start_paused = true)]
async fn internal_errors_are_retried_without_a_list_for_as_long_as_said() {
    for (limit, retries) in [(0, 0), (30, 31)] {
        let watches = (0..50).map(|_| Ok(vec![second(), failing(internal_error()), Step::Hang])).collect();
        let max_internal_error_retry = Duration::from_secs(limit);
        let options = ReflectorOptions { max_internal_error_retry, ..ReflectorOptions::default() };
        let played = play_with(script(vec![list("3", &[])], watches), options).await;
        let requests = played.requests();
        let watched = requests.iter().filter(|request| **request == r#"WATCH "3""#).count();
        assert_eq!(watched, retries + 1, "R-W-8; TestRetryInternalError");
        assert_eq!(requests.last(), Some(&r#"LIST "3" 0"#));
        assert_eq!(played.gap(2) == Duration::from_secs(1), limit > 0, "at once: {:?}", played.gap(2));
    }
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_at_once_is_waited_for_and_one_of_the_request_is_not_retried() {
    let max_internal_error_retry = Duration::from_secs(30);
    let options = ReflectorOptions { max_internal_error_retry, ..ReflectorOptions::default() };
    let watches = vec![Ok(vec![failing(internal_error())]), Err(refused(500))];
    let played = play_with(script(vec![list("3", &[])], watches), options).await;
    assert_eq!(played.requests()[1..], [r#"WATCH "3""#, r#"WATCH "3""#, r#"LIST "3" 0"#], "R-W-3, R-W-8 (D)");
    assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()), "{:?}", played.gap(2));
}

#[tokio::test(start_paused = true)]
async fn the_watch_timeout_is_drawn_anew_between_its_bounds() {
    for (minimum, least, most) in [(0, 300, 600), (1, 300, 600), (1800, 1800, 3600)] {
        let watches = (0..50).map(|_| quiet()).collect();
        let min_watch_timeout = Duration::from_secs(minimum);
        let options = ReflectorOptions { min_watch_timeout, ..ReflectorOptions::default() };
        let played = play_with(script(vec![list("1", &[])], watches), options).await;
        assert!(played.timeouts.iter().all(|timeout| (least..=most).contains(timeout)), "TestWatchTimeout");
        let distinct: std::collections::BTreeSet<u64> = played.timeouts.iter().copied().collect();
        assert!(distinct.len() > 20, "section 1.1: re-drawn for each request");
    }
}
