//! The list states, rules R-LIST.

use super::super::*;
use super::support::*;
use crate::status::{ApiError, Status};

#[tokio::test(start_paused = true)]
async fn lists_at_0_in_pages_and_watches_from_the_lists_version() {
    let events = vec![modified("foo", 2), added("bar", 3), added("baz", 4), bookmark("5"), deleted("bar", 6)];
    let played = play(script(vec![list("1", &["foo"])], vec![Ok(events)])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "1""#, r#"WATCH "6""#],
        "R-LIST-1, R-LIST-2, R-W-1; TestReflectorListAndWatch, watch-list off"
    );
    assert_eq!(
        played.calls,
        ["replace@1 [foo@1]", "update foo@2", "add bar@3", "add baz@4", "bookmark@5", "delete bar@6"],
        "R-LIST-9, R-W-4; TestReflectorResourceVersionUpdate"
    );
    assert_eq!(played.status.resource_version, "6");
    assert_eq!((played.status.lists, played.status.relists, played.status.events), (1, 0, 5));
    assert!(played.status.synced && played.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_at_the_last_version_and_not_in_pages() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![list("10", &["a"]), list("20", &["a", "b"])];
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "20""#],
        "R-LIST-2; TestReflectorResyncWithResourceVersion, TestReflectorNotPaginatingNotConsistentReads"
    );
    assert_eq!(played.status.relists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_page_size_is_sent_with_every_list_request() {
    let pages =
        vec![page("10", &["a", "b"], "C1"), page("10", &["c"], "C2"), list("10", &["d"]), list("11", &[])];
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let options = ReflectorOptions { page_size: Some(4), ..ReflectorOptions::default() };
    let played = play_with(script(pages, vec![broken]), options).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 4"#,
            r#"LIST "" 4 C1"#,
            r#"LIST "" 4 C2"#,
            r#"WATCH "10""#,
            r#"LIST "10" 4"#,
            r#"WATCH "11""#
        ],
        "R-LIST-2, R-LIST-3; TestReflectorWatchListPageSize"
    );
    assert_eq!(played.calls.first().map(String::as_str), Some("replace@10 [a@1 b@1 c@1 d@1]"));
}

#[tokio::test(start_paused = true)]
async fn relists_stay_in_pages_once_a_list_at_0_came_in_pages() {
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![page("10", &["a"], "C1"), list("9", &["b"]), list("20", &["a"])];
    let played = play(script(lists, vec![broken()])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"LIST "" 500 C1"#, r#"WATCH "10""#, r#"LIST "10" 500"#, r#"WATCH "20""#],
        "R-LIST-6; TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_any_length_is_had_whole_page_by_page() {
    for (length, pages) in [(0, 1), (9, 1), (10, 1), (11, 2), (21, 3)] {
        let names: Vec<String> = (0..length).map(|number| format!("o{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let chunks: Vec<&[&str]> = if length == 0 { vec![&[]] } else { names.chunks(10).collect() };
        let token = |number| if number + 1 < pages { format!("C{number}") } else { String::new() };
        let mut lists: Vec<_> =
            chunks.iter().enumerate().map(|(number, names)| page("10", names, &token(number))).collect();
        lists.push(list("11", &[]));
        let broken = Ok(vec![second(), failing(status_of(""))]);
        let played = play(script(lists, vec![broken])).await;
        let whole: Vec<String> = names.iter().map(|name| format!("{name}@1")).collect();
        assert_eq!(played.calls[0], format!("replace@10 [{}]", whole.join(" ")), "TestListPager_List");
        let requests = played.requests();
        for (number, request) in requests[1..pages].iter().enumerate() {
            assert_eq!(
                *request,
                format!(r#"LIST "" 500 C{number}"#),
                "R-LIST-3: no version with a continuation"
            );
        }
        let relist = if pages > 1 { r#"LIST "10" 500"# } else { r#"LIST "10" 0"# };
        assert_eq!(requests[pages + 1], relist, "R-LIST-6: paginated only if there was more than one page");
        assert_eq!(played.metrics.pages(), pages as u64 + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_in_pages_says_nothing_about_the_servers_cache() {
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![
        Err(ApiError::Status(expired())),
        page("10", &["a"], "C1"),
        list("10", &["b"]),
        list("20", &["a"]),
    ];
    let played = play(script(lists, vec![broken()])).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500 C1"#,
            r#"WATCH "10""#,
            r#"LIST "10" 0"#,
            r#"WATCH "20""#
        ],
        "R-LIST-6; section 7.12 no. 4"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_at_an_expired_version_is_repeated_at_once_without_one() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![list("10", &["a"]), Err(ApiError::Status(expired())), list("11", &["a", "b"])];
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"LIST "" 0"#, r#"WATCH "11""#],
        "R-LIST-5; TestReflectorExpiredExactResourceVersion"
    );
    assert_eq!(played.gap(3), Duration::ZERO);
    assert_eq!(
        played.problems,
        [Some(ProblemKind::Server)],
        "the broken watch was one, the expired list is none"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_that_fails_is_tried_without_one_again() {
    let lists = vec![
        Err(ApiError::Status(expired())),
        Err(refused(500)),
        Err(refused(500)),
        list("3", &[]),
        list("4", &[]),
    ];
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500"#,
            r#"WATCH "3""#,
            r#"LIST "3" 0"#,
            r#"WATCH "4""#
        ],
        "R-LIST-5, R-LIST-6: unavailable until a list succeeds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_too_large_in_any_encoding_is_given_up_at_once() {
    let head = r#""kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504"#;
    let details = [
        r#""details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}"#,
        r#""details":{"causes":[{"message":"Too large resource version"}]}"#,
        r#""message":"Too large resource version: 40, current: 1","details":{}"#,
    ];
    let mut lists = vec![list("20", &[])];
    for (version, details) in ["30", "40", "50"].into_iter().zip(details) {
        lists.push(Err(ApiError::Status(status_of(&format!("{{{head},{details}}}")))));
        lists.push(list(version, &[]));
    }
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let played = play(script(lists, vec![broken(), broken(), broken()])).await;
    let versions: Vec<&str> =
        played.requests().into_iter().filter(|request| request.starts_with("LIST")).collect();
    assert_eq!(
        versions,
        [
            r#"LIST "0" 500"#,
            r#"LIST "20" 0"#,
            r#"LIST "" 0"#,
            r#"LIST "30" 0"#,
            r#"LIST "" 0"#,
            r#"LIST "40" 0"#,
            r#"LIST "" 0"#
        ],
        "R-LIST-5; TestReflectorFullListIfTooLarge; section 7.12 no. 24"
    );
}

#[tokio::test(start_paused = true)]
async fn a_continuation_too_old_makes_one_full_list_at_the_first_version() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![
        list("10", &["a"]),
        page("10", &["a", "b"], "C1"),
        Err(ApiError::Status(expired())),
        list("11", &["a", "b", "c"]),
    ];
    let options = ReflectorOptions { page_size: Some(4), ..ReflectorOptions::default() };
    let played = play_with(script(lists, vec![broken]), options).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 4"#,
            r#"WATCH "10""#,
            r#"LIST "10" 4"#,
            r#"LIST "" 4 C1"#,
            r#"LIST "10" 0"#,
            r#"WATCH "11""#
        ],
        "R-LIST-4; TestReflectorFullListIfExpired"
    );
    assert_eq!(played.calls.last().map(String::as_str), Some("replace@11 [a@1 b@1 c@1]"));
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_next_page_again_and_not_for_the_whole_list() {
    let busy =
        ApiError::Status(Status::from_response(429, Some(Duration::from_secs(9)), b"Too many requests"));
    let lists = vec![page("10", &["a"], "C1"), Err(busy), Err(unreachable()), list("10", &["b"])];
    let played = play(script(lists, vec![])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"LIST "" 500 C1"#, r#"LIST "" 500 C1"#, r#"LIST "" 500 C1"#, r#"WATCH "10""#],
        "section 1.10 (D)"
    );
    assert!(played.gap(2) >= Duration::from_secs(9), "Retry-After is obeyed: {:?}", played.gap(2));
    assert_eq!(played.problems, [Some(ProblemKind::Throttled), Some(ProblemKind::Unreachable)]);
    assert_eq!(played.calls, ["replace@10 [a@1 b@1]"]);
}

#[tokio::test(start_paused = true)]
async fn pages_that_do_not_end_are_an_error() {
    let lists = vec![page("10", &["a"], "C1"), page("10", &["b"], "C1"), list("11", &["c"])];
    let played = play(script(lists, vec![])).await;
    assert_eq!(played.calls, ["replace@11 [c@1]"]);
    assert_eq!(played.problems, [Some(ProblemKind::Decode)]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_leaves_the_store_as_it_was() {
    for error in [
        refused(403),
        refused(404),
        refused(401),
        refused(500),
        refused(429),
        unreachable(),
        ApiError::Decode("item 3 (n/a): object has no metadata.name".into()),
        ApiError::Credentials("exec plugin".into()),
    ] {
        let broken = Ok(vec![second(), failing(status_of(""))]);
        let lists = vec![list("10", &["a"]), Err(error.clone()), list("20", &[])];
        let played = play(script(lists, vec![broken])).await;
        assert_eq!(played.calls, ["replace@10 [a@1]", "replace@20 []"], "design 4.6: {error}");
        assert_eq!(played.problems.iter().rev().find_map(|problem| *problem), Some(error.problem_kind()));
        assert_eq!(played.requests()[3], r#"LIST "10" 0"#);
    }
}
