//! Ranges, filtered ranges, and that each answer is of one state.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn range_pages_in_key_order_and_by_namespace() {
    let indexer = indexer("b/1=u a/2=u a/1=u c/1=u a/3=u");
    let after = ObjectKey::new("a", "2");
    assert_eq!(names(&indexer.range("", None, 2)), ["a/1", "a/2"]);
    assert_eq!(names(&indexer.range("", Some(&after), 9)), ["a/3", "b/1", "c/1"]);
    assert_eq!(names(&indexer.range("a", Some(&after), 9)), ["a/3"]);
    assert_eq!(names(&indexer.range("b", Some(&after), 9)), ["b/1"]);
    assert_eq!(names(&indexer.range("a", Some(&ObjectKey::new("b", "0")), 9)), [""; 0]);
    assert_eq!(names(&indexer.range("", None, 0)), [""; 0]);
}

#[test]
fn a_filtered_range_says_where_it_got_to() {
    let indexer = indexer("a=x b=y c=x d=y e=x");
    type Case = (usize, usize, &'static str, &'static [&'static str], Option<&'static str>, usize);
    // limit, scan limit, after, found, reached, scanned
    let cases: [Case; 9] = [
        (9, 9, "", &["a", "c", "e"], None, 5),
        (9, 5, "", &["a", "c", "e"], None, 5),
        (9, 4, "", &["a", "c"], Some("d"), 4),
        (1, 9, "", &["a"], Some("a"), 1),
        (2, 9, "a", &["c", "e"], None, 4),
        (1, 9, "c", &["e"], None, 2),
        (9, 9, "e", &[], None, 0),
        (0, 0, "a", &[], Some("b"), 1),
        (usize::MAX, usize::MAX, "", &["a", "c", "e"], None, 5),
    ];
    for (limit, scan_limit, after, found, reached, scanned) in cases {
        let after = (!after.is_empty()).then(|| ObjectKey::new("", after));
        let scan = indexer.range_where("", after.as_ref(), limit, scan_limit, |object| object.uid() == "x");
        let reached = reached.map(|name| ObjectKey::new("", name));
        let case = format!("{limit}, {scan_limit}, after {after:?}");
        assert_eq!(
            (names(&scan.objects), scan.reached, scan.scanned),
            (found.iter().map(|name| (*name).to_owned()).collect(), reached, scanned),
            "{case}"
        );
    }
}

#[test]
fn a_filtered_range_keeps_to_its_namespace() {
    let indexer = indexer("a/1=x a/2=y b/1=x");
    let scan = indexer.range_where("a", None, 9, 9, |_| true);
    assert_eq!((names(&scan.objects), scan.reached), (vec!["a/1".to_owned(), "a/2".to_owned()], None));
}

#[test]
fn a_predicate_may_ask_the_cache() {
    let indexer = indexer("a=x b=y");
    let scan = indexer.range_where("", None, 9, 9, |object| indexer.remove(object.key()).is_some());
    assert_eq!((names(&scan.objects), indexer.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
}

#[test]
fn each_answer_is_of_one_state() {
    // The store flips between two contents; a reader must see one or the other, whole.
    let flip = |uid: &str| (0..50).map(|at| object(&format!("{uid}{at:02}"), uid, uid)).collect::<Vec<_>>();
    let (x, y) = (flip("x"), flip("y"));
    let bytes = x.iter().map(|object| object.json().len()).sum::<usize>();
    let indexer = indexer("");
    indexer.replace(x.clone(), "x");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                indexer.replace(y.clone(), "y");
                indexer.replace(x.clone(), "x");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let (all, filed) = (indexer.list(), indexer.by_index("uid", "x").expect("an index"));
            assert!(all == x || all == y, "R-IX-1: {all:?}");
            assert!(filed == x || filed.is_empty(), "R-IX-1: {filed:?}");
            assert_eq!((indexer.len(), indexer.index_values("uid").len()), (50, 1), "R-IX-7");
            assert_eq!(indexer.bytes(), bytes);
        }
    });
}

#[test]
fn a_hundred_thousand_objects_are_paged_through_without_missing_one() {
    let indexer = Indexer::new();
    let objects = (0..100_000)
        .map(|at| object(&format!("n{}/o{at}", at % 7), if at % 10 == 0 { "x" } else { "y" }, "1"));
    indexer.replace(objects.collect(), "1");
    let (mut after, mut found, mut pages) = (None, 0, 0);
    loop {
        let scan = indexer.range_where("", after.as_ref(), 500, 2000, |object| object.uid() == "x");
        assert!(scan.scanned <= 2000 && scan.objects.len() <= 500);
        (found, pages) = (found + scan.objects.len(), pages + 1);
        let Some(reached) = scan.reached else { break };
        after = Some(reached);
    }
    assert_eq!((found, pages), (10_000, 50), "TestListAll: those that match, however few they are");
    assert_eq!(indexer.list().len(), 100_000);
    assert_eq!(indexer.by_index(NAMESPACE_INDEX, "n0").expect("built in").len(), 14_286);
}
