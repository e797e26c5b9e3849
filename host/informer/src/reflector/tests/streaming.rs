//! The streaming list's states, rules R-WL.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::support::*;
use crate::status::{ApiError, Status};

/// As recorded of a kube-apiserver 1.36 on an etcd without progress requests.
const OLD_STORAGE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled","reason":"InternalError","code":500}"#;

const TOO_LARGE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 290","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;

fn broken() -> WatchReply {
    Ok(vec![second(), failing(status_of(""))])
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_list_and_watch_in_one_request() {
    let events = vec![
        added("foo", 1),
        marker("1"),
        modified("foo", 2),
        added("bar", 3),
        bookmark("4"),
        deleted("bar", 5),
        second(),
    ];
    let played = play(streaming(vec![], vec![Ok(events)])).await;
    assert_eq!(
        played.requests(),
        [r#"STREAM """#, r#"WATCH "5""#],
        "R-WL-1, R-WL-4; TestReflectorListAndWatch, watch-list on; TestWatchList 5"
    );
    assert_eq!(
        played.calls,
        ["replace@1 [foo@1]", "update foo@2", "add bar@3", "bookmark@4", "delete bar@5"]
    );
    assert_eq!((played.status.lists, played.status.watches, played.status.relists), (1, 1, 0));
    assert!(played.status.synced && played.problems.is_empty());
    assert_eq!(played.metrics.lists(ListWay::Streaming, ListOutcome::Ok), 1);
    assert_eq!(EventKind::ALL.map(|kind| played.metrics.events(kind)), [1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_stream_is_seen_before_its_marker() {
    let played = play(streaming(vec![], vec![Ok(vec![added("a", 1), Step::Exhausted, Step::Hang])])).await;
    assert_eq!(played.requests(), [r#"STREAM """#], "TestWatchList 1, TestWatchListResourceVersion");
    assert!(played.calls.is_empty() && !played.status.synced, "R-WL-2");
    assert_eq!(played.status.resource_version, "", "R-WL-4: not touched while streaming");
    assert_eq!(played.metrics.listing(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_while_streaming_are_part_of_the_list() {
    let events = vec![
        added("p1", 1),
        added("p2", 2),
        modified("p1", 3),
        added("p3", 4),
        deleted("p3", 5),
        deleted("p9", 5),
        marker("5"),
        Step::Exhausted,
        Step::Hang,
    ];
    let played = play(streaming(vec![], vec![Ok(events)])).await;
    assert_eq!(played.calls, ["replace@5 [p1@3 p2@2]"], "R-WL-2; TestWatchList 6");
    assert_eq!(played.status.resource_version, "5", "TestWatchListResourceVersion");
}

#[tokio::test(start_paused = true)]
async fn only_the_marker_ends_the_initial_events() {
    let events = vec![added("a", 1), bookmark("2"), bookmark("3"), marker("4"), Step::Exhausted, Step::Hang];
    let played = play(streaming(vec![], vec![Ok(events)])).await;
    assert_eq!(played.calls, ["replace@4 [a@1]"], "R-WL-3; TestWatchList 11");
}

#[tokio::test(start_paused = true)]
async fn an_empty_collection_is_a_list_too() {
    let played = play(streaming(vec![], vec![Ok(vec![marker("7"), Step::Exhausted, Step::Hang])])).await;
    assert_eq!(played.calls, ["replace@7 []"], "TestWatchListSemanticsSimple");
    assert!(played.status.synced);
}

#[tokio::test(start_paused = true)]
async fn lists_are_requested_where_they_are_not_to_be_streamed() {
    let lists = || vec![list("1", &["p1"])];
    let as_asked = ReflectorOptions { initial_list: InitialList::List, ..ReflectorOptions::default() };
    let cases =
        [(streaming(lists(), vec![]), as_asked), (script(lists(), vec![]), ReflectorOptions::default())];
    for (script, options) in cases {
        let played = play_with(script, options).await;
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, r#"WATCH "1""#],
            "R-LAW-1; TestWatchList 2, TestNewReflectorWithDisablementWatchList, TestUnSupportWatchListSemantics"
        );
        assert_eq!(FallBack::ALL.map(|why| played.metrics.fall_backs(why)), [0; 5]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_refused_is_a_list_in_the_same_cycle_and_asked_for_in_the_next() {
    let refusals: [(WatchReply, FallBack); 6] = [
        (Err(refused(403)), FallBack::Refused),
        (Err(refused(500)), FallBack::Refused),
        (Err(ApiError::Decode("html".into())), FallBack::Undecodable),
        (Ok(vec![added("a", 1), failing(Status::from_response(403, None, b""))]), FallBack::Refused),
        (Ok(vec![added("a", 1), failing(status_of(OLD_STORAGE))]), FallBack::Refused),
        (Ok(vec![added("a", 1), Step::Broken(ApiError::Decode("no event".into()))]), FallBack::Undecodable),
    ];
    for (refusal, why) in refusals {
        let script = streaming(vec![list("1", &["p1"])], vec![refusal, broken(), Ok(vec![marker("9")])]);
        let played = play(script).await;
        assert_eq!(
            played.requests()[..4],
            [r#"STREAM """#, r#"LIST "0" 500"#, r#"WATCH "1""#, r#"STREAM "1""#],
            "R-LAW-2, R-WL-5; TestWatchList 3"
        );
        assert_eq!((played.gap(1), played.gap(2)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(played.metrics.fall_backs(why), 1);
        assert_eq!(played.calls[..2], ["replace@1 [p1@1]", "replace@9 []"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_not_asked_again_for_an_hour() {
    for refusal in [Err(refused(422)), Ok(vec![failing(status_of(OLD_STORAGE))])] {
        let early = (0..3).map(|_| broken());
        let late = Ok(vec![Step::After(Duration::from_secs(3600)), failing(status_of(""))]);
        let watches = std::iter::once(refusal).chain(early).chain([late, Ok(vec![marker("5"), second()])]);
        let lists = (1..=4).map(|version| list(&version.to_string(), &[])).collect();
        let played = play(streaming(lists, watches.collect())).await;
        assert_eq!(
            played.requests(),
            [
                r#"STREAM """#,
                r#"LIST "0" 500"#,
                r#"WATCH "1""#,
                r#"LIST "1" 0"#,
                r#"WATCH "2""#,
                r#"LIST "2" 0"#,
                r#"WATCH "3""#,
                r#"LIST "3" 0"#,
                r#"WATCH "4""#,
                r#"STREAM "4""#,
                r#"WATCH "5""#,
            ],
            "R-LAW-2 (D); TestWatchList 4"
        );
        assert_eq!(played.metrics.fall_backs(FallBack::Unsupported), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_or_away_is_asked_for_the_stream_again_with_back_off() {
    for failure in [|| Err(refused(429)), || Err(unreachable()), || Ok(vec![failing(status_429())])] {
        let watches = vec![failure(), failure(), Ok(vec![added("p1", 1), marker("2"), second(), second()])];
        let played = play(streaming(vec![], watches)).await;
        assert_eq!(
            played.requests(),
            [r#"STREAM """#, r#"STREAM """#, r#"STREAM """#, r#"WATCH "2""#],
            "R-WL-5; TestWatchList 7"
        );
        for (index, nominal) in [(1, 0.8), (2, 1.6)] {
            assert!((nominal..nominal * 2.0).contains(&played.gap(index).as_secs_f64()), "R-BO-1");
        }
        assert_eq!(played.problems.last(), Some(&None), "healed");
        assert_eq!(played.metrics.lists(ListWay::Streaming, ListOutcome::Failed), 2);
    }
}

fn status_429() -> Status {
    status_of(r#"{"kind":"Status","apiVersion":"v1","code":429}"#)
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_busy_server_can_be_cancelled() {
    let busy = ApiError::Status(Status::from_response(429, Some(Duration::from_secs(100)), b""));
    let server = server(streaming(vec![], vec![Err(busy)]));
    let reflector = Reflector::new(server as _, Arc::new(Recorder::default()), ReflectorOptions::default());
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| matches!(status.phase, Phase::Waiting { .. })).await.expect("running");
    let asked = Instant::now();
    cancel.cancel();
    running.await.expect("no panic");
    assert_eq!(asked.elapsed(), Duration::ZERO, "R-WL-5 (D)");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_served_is_given_up_at_once() {
    for (status, reason) in [(expired(), ListReason::Expired), (status_of(TOO_LARGE), ListReason::TooLarge)] {
        for refusal in [Err(ApiError::Status(status.clone())), Ok(vec![failing(status.clone())])] {
            let first = Ok(vec![added("a", 1), marker("10"), second(), failing(status_of(""))]);
            let watches = vec![first, refusal, Ok(vec![added("b", 11), marker("11"), second(), second()])];
            let played = play(streaming(vec![], watches)).await;
            assert_eq!(
                played.requests(),
                [r#"STREAM """#, r#"STREAM "10""#, r#"STREAM """#, r#"WATCH "11""#],
                "R-WL-5; section 7.12 no. 24"
            );
            assert_eq!(played.gap(2), Duration::ZERO, "at once, whatever Retry-After says");
            assert_eq!(played.calls, ["replace@10 [a@1]", "replace@11 [b@11]"]);
            assert_eq!(played.metrics.list_reasons(reason), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_version_at_all_that_cannot_be_served_is_not_asked_for_for_ever() {
    let watches = (0..3).map(|_| Err(ApiError::Status(expired()))).collect();
    let played = play(streaming(vec![list("3", &[])], watches)).await;
    assert_eq!(
        played.requests()[..4],
        [r#"STREAM """#, r#"STREAM """#, r#"LIST "" 500"#, r#"WATCH "3""#],
        "at once, but not for ever"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_closed_before_its_marker_is_asked_for_again_at_once_from_the_beginning() {
    let watches = vec![
        Ok(vec![added("p1", 1)]),
        Ok(vec![second()]),
        Ok(vec![added("p2", 2), marker("3"), Step::Exhausted, Step::Hang]),
    ];
    let played = play(streaming(vec![], watches)).await;
    assert_eq!(played.requests(), [r#"STREAM """#; 3], "R-WL-6; TestWatchList 8");
    assert_eq!((played.gap(1), played.gap(2)), (Duration::ZERO, Duration::from_secs(1)));
    assert_eq!(played.calls, ["replace@3 [p2@2]"], "a fresh store each time");
    assert_eq!(played.metrics.lists(ListWay::Streaming, ListOutcome::Failed), 2);
}

#[tokio::test(start_paused = true)]
async fn streams_closed_again_and_again_before_the_marker_become_a_list() {
    let watches = (0..4).map(|_| Ok(vec![added("p1", 1)])).collect();
    let played = play(streaming(vec![list("1", &["p1"])], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"STREAM """#, r#"STREAM """#, r#"STREAM """#, r#"STREAM """#, r#"LIST "0" 500"#, r#"WATCH "1""#],
        "R-WL-6 (D): at once, but not for ever"
    );
    assert_eq!(played.metrics.fall_backs(FallBack::Closed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_closed_at_once_becomes_a_list() {
    let played = play(streaming(vec![list("1", &[])], vec![Ok(vec![])])).await;
    assert_eq!(played.requests(), [r#"STREAM """#, r#"LIST "0" 500"#, r#"WATCH "1""#], "R-WL-6");
    assert_eq!(played.metrics.fall_backs(FallBack::Closed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_after_its_marker_is_followed_by_a_watch() {
    let watches = vec![Ok(vec![added("p1", 1), marker("2"), added("p3", 3)]), Ok(vec![added("p4", 4)])];
    let played = play(streaming(vec![], watches)).await;
    assert_eq!(played.requests(), [r#"STREAM """#, r#"WATCH "3""#, r#"WATCH "4""#], "R-W-6; TestWatchList 9");
    assert_eq!((played.gap(1), played.gap(2)), (Duration::ZERO, Duration::ZERO));
    assert_eq!(played.calls, ["replace@2 [p1@1]", "add p3@3", "add p4@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_right_after_its_marker_was_a_very_short_watch() {
    let watches = vec![Ok(vec![added("p1", 1), second(), marker("2")]), Ok(vec![marker("2"), second()])];
    let played = play(streaming(vec![], watches)).await;
    assert_eq!(played.requests()[..2], [r#"STREAM """#, r#"STREAM "2""#], "R-W-6, as client-go counts");
    assert!((1.8..2.6).contains(&played.gap(1).as_secs_f64()), "{:?}", played.gap(1));
    assert_eq!(played.metrics.very_short_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_old_is_followed_by_a_stream_at_the_last_version() {
    let watches = vec![
        Ok(vec![added("p1", 1), marker("2"), added("p3", 3)]),
        Err(ApiError::Status(expired())),
        Ok(vec![added("p3", 3), marker("9"), second(), second()]),
    ];
    let played = play(streaming(vec![], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"STREAM """#, r#"WATCH "3""#, r#"STREAM "3""#, r#"WATCH "9""#],
        "R-W-7, R-WL-1; TestWatchList 10; section 7.12 no. 3"
    );
    assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()));
    assert_eq!(played.metrics.list_reasons(ListReason::Expired), 1);
    assert_eq!(played.calls.last().map(String::as_str), Some("replace@9 [p3@3]"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_sends_the_marker_is_listed_after_a_minute_and_not_streamed_again() {
    let silent = vec![added("p1", 1), Step::Hang];
    let lists = vec![list("1", &["p1"]), list("2", &["p1"])];
    let played = play(streaming(lists, vec![Ok(silent), broken()])).await;
    assert_eq!(
        played.requests(),
        [r#"STREAM """#, r#"LIST "0" 500"#, r#"WATCH "1""#, r#"LIST "1" 0"#, r#"WATCH "2""#],
        "R-WL-7 (D), #129408; section 7.12 no. 19"
    );
    assert_eq!(played.gap(1), Duration::from_secs(60));
    assert_eq!(played.metrics.fall_backs(FallBack::NoMarker), 1);
    assert_eq!(played.metrics.list_time(ListWay::Streaming), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_do_not_make_up_for_the_marker_but_objects_do() {
    let ten_seconds = || Step::After(Duration::from_secs(10));
    let bookmarks = (0..20).flat_map(|_| [ten_seconds(), bookmark("5")]).collect();
    let played = play(streaming(vec![list("1", &[])], vec![Ok(bookmarks)])).await;
    assert_eq!(played.requests()[..2], [r#"STREAM """#, r#"LIST "0" 500"#]);
    assert_eq!(played.gap(1), Duration::from_secs(60));

    let mut slow: Vec<Step> = (1..=20).flat_map(|n| [ten_seconds(), added(&format!("p{n}"), n)]).collect();
    slow.extend([marker("20"), Step::Exhausted, Step::Hang]);
    let played = play(streaming(vec![], vec![Ok(slow)])).await;
    assert_eq!(played.requests(), [r#"STREAM """#], "a slow list is one");
    assert_eq!(played.metrics.lists(ListWay::Streaming, ListOutcome::Ok), 1);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_always_changes_does_not_hide_that_the_marker_is_missing() {
    let busy = (1..1000).flat_map(|n| [Step::After(Duration::from_secs(5)), modified("p1", n)]).collect();
    let played = play(streaming(vec![list("1", &[])], vec![Ok(busy)])).await;
    assert_eq!(played.requests(), [r#"STREAM """#, r#"LIST "0" 500"#, r#"WATCH "1""#]);
    assert_eq!(played.gap(1), Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_makes_a_list_which_tells_what_is_gone() {
    for is_deletion in [false, true] {
        let watches = vec![
            Ok(vec![added("a", 1), added("b", 1), marker("2"), second(), failing(status_of(""))]),
            Ok(vec![added("a", 1), undecodable("b", is_deletion), marker("3"), Step::Hang]),
        ];
        let bad_item = Err(ApiError::Decode("item 1 (b): object has no metadata.name".into()));
        let played = play(streaming(vec![bad_item], watches)).await;
        assert_eq!(played.requests()[..3], [r#"STREAM """#, r#"STREAM "2""#, r#"LIST "2" 0"#]);
        assert_eq!(played.calls, ["replace@2 [a@1 b@1]"], "design 4.6");
        assert_eq!(played.metrics.fall_backs(FallBack::Undecodable), 1);
        assert_eq!(played.metrics.undecodable(), 1);
        assert!(played.problems.contains(&Some(ProblemKind::Decode)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// R-WL-2: whatever happens before the marker, what is put into the store is what a map would hold.
    #[test]
    fn the_list_is_what_is_left_of_the_initial_events(
        events in prop::collection::vec((0..3u8, 0..6u8, prop::bool::weighted(0.2)), 0..40),
    ) {
        let mut model = BTreeMap::new();
        let mut steps = Vec::new();
        for (version, (kind, name, bookmarked)) in (1u64..).zip(events) {
            let name = format!("o{name}");
            steps.push(match kind {
                0 => added(&name, version),
                1 => modified(&name, version),
                _ => deleted(&name, version),
            });
            if kind < 2 {
                model.insert(name, version);
            } else {
                model.remove(&name);
            }
            steps.extend(bookmarked.then(|| bookmark(&version.to_string())));
        }
        steps.extend([marker("99"), Step::Exhausted, Step::Hang]);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
        let played = runtime.block_on(play(streaming(vec![], vec![Ok(steps)])));
        let left: Vec<String> = model.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        prop_assert_eq!(played.calls, [format!("replace@99 [{}]", left.join(" "))]);
    }
}
