//! What `describe` may say and do.

use std::time::Duration;

use hark_informer::filter::{Condition, FilterSpec, Operator};
use hark_informer::listener::{OnRestart, OnSwap};
use hark_informer::queue::Merge;
use hark_sandbox::{DescribeError, Limits, LogSource, Proposal};

use crate::support::{DESCRIBED, Guest, Want, context, describe, propose, short};

#[tokio::test]
async fn a_description_is_read_and_checked() {
    let wants = [
        Want { namespaces: &["a", "b"], resync_seconds: 3, ..Want::pods() },
        Want { name: "sets", api_version: "apps/v1", kind: "replicasets", ..Want::pods() },
    ];
    let plugin = Guest { description: describe(&wants), ..Guest::default() }.load();
    let description = plugin.describe(&context(Limits::default()).0).await.expect("a description");
    assert_eq!((description.name.as_str(), description.version.as_str()), ("test plugin", "1.2.3"));
    let [pods, sets] = description.subscriptions.as_slice() else { panic!("{description:?}") };
    assert_eq!((pods.name.as_str(), pods.api_version.as_str(), pods.kind.as_str()), ("pods", "v1", "Pod"));
    assert_eq!(pods.namespaces, ["a", "b"]);
    assert_eq!(pods.resync, Some(Duration::from_secs(10)));
    assert_eq!((sets.api_version.as_str(), sets.resync), ("apps/v1", None));
}

#[tokio::test]
async fn what_the_host_evaluates_is_ready_for_its_filter() {
    let want = Want {
        namespace_selector: "team=a",
        conditions: &[("/status/phase", 3, &["Failed", "Unknown"]), ("/spec/nodeName", 0, &[])],
        changed: &["/status"],
        fields: &["/status/phase", "/spec/containers/*/image"],
        indexes: &[("node", "/spec/nodeName")],
        ..Want::pods()
    };
    let plugin =
        Guest { description: describe(&[want, Want { name: "all", ..Want::pods() }]), ..Guest::default() };
    let description = plugin.load().describe(&context(Limits::default()).0).await.expect("a description");
    let [pods, all] = description.subscriptions.as_slice() else { panic!("{description:?}") };
    let condition = |pointer: &str, operator, values: &[&str]| Condition {
        pointer: pointer.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let filter = FilterSpec {
        conditions: vec![
            condition("/status/phase", Operator::NotIn, &["Failed", "Unknown"]),
            condition("/spec/nodeName", Operator::Exists, &[]),
        ],
        changed: vec!["/status".to_owned()],
        fields: vec!["/status/phase".to_owned(), "/spec/containers/*/image".to_owned()],
        ..FilterSpec::default()
    };
    assert_eq!((pods.namespace_selector.as_str(), &pods.filter), ("team=a", &filter));
    assert_eq!(pods.indexes, [("node".to_owned(), "/spec/nodeName".to_owned())]);
    assert_eq!((&all.filter, all.indexes.len()), (&FilterSpec::default(), 0));
    assert_eq!(description.proposal, Proposal::default());
}

#[tokio::test]
async fn a_proposal_is_read() {
    // on-reload keep, on-restart replay, delivery latest, concurrency 4.
    let proposal = [u32::from_le_bytes([1, 1, 1, 0]), u32::from_le_bytes([1, 1, 0, 0]), 1, 4];
    let plugin = Guest { description: propose(&[Want::pods()], proposal), ..Guest::default() }.load();
    let description = plugin.describe(&context(Limits::default()).0).await.expect("a description");
    let want = Proposal {
        on_reload: Some(OnSwap::Continue),
        on_restart: Some(OnRestart::Replay),
        delivery: Some(Merge::Latest),
        concurrency: Some(4),
    };
    assert_eq!(description.proposal, want);
}

#[tokio::test]
async fn a_pointer_that_is_none_refuses_the_version_with_its_subscription_and_text() {
    let want = Want { fields: &["/a/0"], conditions: &[("b", 0, &[])], ..Want::pods() };
    let plugin = Guest { description: describe(&[want]), ..Guest::default() }.load();
    let error = plugin.describe(&context(Limits::default()).0).await.expect_err("wrong");
    let DescribeError::Invalid(problems) = error else { panic!("{error}") };
    let said = [
        r#"subscription 0 (`pods`): `conditions` has exists on `b`: it does not begin with "/""#,
        r#"subscription 0 (`pods`): `fields` has `/a/0`: a place in an array cannot be named: use "*" for all of them"#,
    ];
    assert_eq!(problems, said);
}

#[tokio::test]
async fn all_mistakes_of_a_description_are_told() {
    let wants = [Want { kind: "", ..Want::pods() }, Want { api_version: "", ..Want::pods() }];
    let plugin = Guest { description: describe(&wants), ..Guest::default() }.load();
    let error = plugin.describe(&context(Limits::default()).0).await.expect_err("wrong");
    let DescribeError::Invalid(problems) = error else { panic!("{error}") };
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[tokio::test]
async fn a_plugin_may_refuse_to_run() {
    // The error's text is at 256, "try later".
    let refuse = "(i32.store (i32.const 2048) (i32.const 1)) (i32.store (i32.const 2052) (i32.const 256))
                  (i32.store (i32.const 2056) (i32.const 9)) (i32.const 2048)";
    let plugin = Guest { describe: refuse.into(), ..Guest::default() }.load();
    let error = plugin.describe(&context(Limits::default()).0).await.expect_err("refused");
    assert_eq!(error, DescribeError::Refused("try later".into()));
}

#[tokio::test]
async fn describe_may_break_or_spin() {
    let plugin = Guest { describe: "unreachable".into(), ..Guest::default() }.load();
    let error = plugin.describe(&context(Limits::default()).0).await.expect_err("broken");
    assert!(matches!(&error, DescribeError::Trap(message) if message.contains("unreachable")), "{error}");

    let plugin = Guest { describe: format!("(loop $l (br $l)) {DESCRIBED}"), ..Guest::default() }.load();
    let error = plugin.describe(&context(short()).0).await.expect_err("spinning");
    assert!(
        matches!(&error, DescribeError::Timeout(message) if message.contains("(limits.deadline)")),
        "{error}"
    );
}

#[tokio::test]
async fn nonsense_from_describe_is_a_trap() {
    let nonsense = [
        // A pointer beyond memory, one that is not aligned, a case that does not exist.
        "(i32.const 0x7ffffff0)",
        "(i32.const 1025)",
        "(i32.store (i32.const 2048) (i32.const 7)) (i32.const 2048)",
        // More subscriptions than there is memory, and texts longer than a call may hand over.
        "(i32.store (i32.const 1048) (i32.const 0x7fffffff)) (i32.const 1024)",
        "(i32.store (i32.const 1032) (i32.const 0x7fffffff)) (i32.const 1024)",
    ];
    // An operator and a policy that do not exist.
    let operator = Want { conditions: &[("/a", 6, &[])], ..Want::pods() };
    for description in [describe(&[operator]), propose(&[Want::pods()], [0x0000_0201, 0, 0, 0])] {
        let plugin = Guest { description, ..Guest::default() }.load();
        let error = plugin.describe(&context(Limits::default()).0).await.expect_err("nonsense");
        assert!(matches!(error, DescribeError::Trap(_)), "{error}");
    }
    for describe in nonsense {
        let plugin = Guest { describe: describe.into(), ..Guest::default() }.load();
        let error = plugin.describe(&context(Limits::default()).0).await.expect_err("nonsense");
        assert!(matches!(error, DescribeError::Trap(_)), "{describe}: {error}");
    }
}

#[tokio::test]
async fn describe_reads_settings_and_logs_but_has_no_cache() {
    let guest = Guest {
        imports: r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
            (import "hark:plugin/settings@0.1.0" "all" (func $all (param i32)))
            (import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))
            (import "hark:plugin/cache@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32 i32)))"#
            .into(),
        describe: format!(
            "(call $all (i32.const 2048))
             (call $log (i32.const 0) (i32.load (i32.const 2048)) (i32.load (i32.const 2052)))
             (call $get (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                 (i32.const 0) (i32.const 0) (i32.const 2048))
             ;; An error (1), and it is the first one, not-synced (0).
             (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
             (if (i32.load8_u (i32.const 2052)) (then unreachable))
             (if (call $attempt) (then unreachable))
             {DESCRIBED}"
        ),
        ..Guest::default()
    };
    let (context, lines) = context(Limits::default());
    guest.load().describe(&context).await.expect("a description");
    assert_eq!(lines.of(LogSource::Log), [r##"{"channel":"#ops","n":3}"##]);
    assert_eq!(lines.all()[0].key, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn describe_may_run_on_a_shared_runtime() {
    // The call moves between threads at its breaks: CPU time is counted all the same.
    let plugin = Guest { describe: "(loop $l (br $l)) unreachable".into(), ..Guest::default() }.load();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let plugin = plugin.clone();
            tokio::spawn(async move { plugin.describe(&context(short()).0).await })
        })
        .collect();
    for call in calls {
        assert!(matches!(call.await.expect("no panic"), Err(DescribeError::Timeout(_))));
    }
}
