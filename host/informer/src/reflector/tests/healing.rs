//! Resources that are refused, absent, gone and back; servers that are away.

use super::super::*;
use super::support::*;
use crate::reflector::waits::MAX_HEALABLE_WAIT;
use crate::status::ApiError;

#[tokio::test(start_paused = true)]
async fn a_forbidden_resource_is_tried_again_within_30_s_and_heals() {
    let mut lists: Vec<_> = (0..12).map(|_| Err(refused(403))).collect();
    lists.push(list("1", &["a"]));
    let played = play(script(lists, vec![Ok(vec![second(), second()])])).await;
    for index in 1..=12 {
        assert!(played.gap(index) <= MAX_HEALABLE_WAIT, "{:?}", played.gap(index));
    }
    assert_eq!(played.problems, [Some(ProblemKind::Forbidden), None]);
    assert_eq!(played.calls, ["replace@1 [a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_allowed_does_not_hide_a_watch_that_is_not() {
    let lists = (0..4).map(|_| list("1", &[])).collect();
    let watches = (0..3).map(|_| Err(refused(403))).collect();
    let played = play(script(lists, watches)).await;
    assert_eq!(played.problems, [Some(ProblemKind::Forbidden)], "no healing and failing at every cycle");
}

#[tokio::test(start_paused = true)]
async fn an_absent_resource_is_looked_for_until_it_appears() {
    let absent = || Err(ApiError::Absent("no Widget in x.io/v1".into()));
    let mut script = script(vec![list("1", &["a"])], vec![Ok(vec![second(), second()])]);
    script.resolves = (0..10).map(|_| absent()).collect();
    script.resolves.push_back(Ok(()));
    let played = play(script).await;
    assert_eq!(played.requests().iter().filter(|request| **request == "RESOLVE").count(), 11);
    for index in 1..=10 {
        assert!(played.gap(index) <= MAX_HEALABLE_WAIT, "{:?}", played.gap(index));
    }
    assert_eq!(played.problems, [Some(ProblemKind::Absent), None]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_is_resolved_again_and_the_store_keeps_what_it_had() {
    let mut script = script(vec![list("1", &["a"]), list("9", &[])], vec![quiet(), Err(refused(404))]);
    script.resolves = [Ok(()), Err(ApiError::Absent("gone".into())), Ok(())].into();
    let played = play(script).await;
    assert_eq!(
        played.requests(),
        [
            "RESOLVE",
            r#"LIST "0" 500"#,
            r#"WATCH "1""#,
            r#"WATCH "1""#,
            "RESOLVE",
            "RESOLVE",
            r#"LIST "1" 0"#,
            r#"WATCH "9""#
        ]
    );
    assert_eq!(played.forgotten, 2);
    assert_eq!(played.calls, ["replace@1 [a@1]", "replace@9 []"]);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_failure_costs_no_more_requests_than_the_back_off_allows() {
    let lists = (0..1000).map(|_| Err(unreachable())).collect();
    let options = ReflectorOptions { seed: Some(3), ..ReflectorOptions::default() };
    let played = play_for(script(lists, vec![]), options, Some(Duration::from_secs(3600))).await;
    assert!((60..=126).contains(&played.requests.len()), "I9: {}", played.requests.len());
    assert_eq!(played.status.failures, played.requests.len() as u64);
}
