//! Named indices: what they file, and that they always agree with the objects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn under(indexer: &Indexer, value: &str) -> Vec<String> {
    names(&indexer.by_index("uid", value).expect("an index"))
}

#[test]
fn an_object_with_many_values_is_filed_under_each_and_moves_with_them() {
    let indexer = indexer("");
    // Client-go's steps: what is done, then what foo, bar and baz have.
    let steps: [(&str, [&str; 3]); 9] = [
        ("1=foo", ["1", "", ""]),
        ("2=bar", ["1", "2", ""]),
        ("3=foo,bar", ["1 3", "2 3", ""]),
        ("3=foo,bar,baz", ["1 3", "2 3", "3"]),
        ("1=bar,foo", ["1 3", "1 2 3", "3"]),
        ("1=foo", ["1 3", "2 3", "3"]),
        ("-1", ["3", "2 3", "3"]),
        ("-3", ["", "2", ""]),
        ("2=", ["", "", ""]),
    ];
    for (step, want) in steps {
        match step.strip_prefix('-') {
            Some(key) => remove(&indexer, key),
            None => put(&indexer, step),
        }
        let have = ["foo", "bar", "baz"].map(|value| under(&indexer, value).join(" "));
        assert_eq!(have, want, "TestThreadSafeStoreIndexingFunctionsWithMultipleValues: {step}");
        let values: Vec<_> =
            ["bar", "baz", "foo"].into_iter().filter(|v| !under(&indexer, v).is_empty()).collect();
        assert_eq!(indexer.index_values("uid"), values, "empty sets are gone (#84959)");
    }
}

#[test]
fn a_value_goes_with_its_last_object() {
    let indexer = indexer("a=x b=x");
    remove(&indexer, "a");
    let keys = indexer.index_keys("uid", "x");
    assert_eq!(
        keys,
        Ok(vec![ObjectKey::new("", "b")]),
        "TestThreadSafeStoreAddKeepsNonEmptySetPostDeleteFromIndex"
    );
    remove(&indexer, "b");
    let values = indexer.index_values("uid");
    assert_eq!(values, [""; 0], "TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex");
}

#[test]
fn an_object_finds_those_that_share_a_value_with_it_each_once() {
    let indexer = indexer("a=b c=b e=f g=h both=b,f");
    let sharing = |uid| names(&indexer.index("uid", &object("any", uid, "1")).expect("an index"));
    assert_eq!(sharing("b"), ["a", "both", "c"], "TestIndex");
    assert_eq!(sharing("f,b,b"), ["a", "both", "c", "e"], "R-IX-5");
    assert_eq!(sharing("nothing"), [""; 0]);
}

#[test]
fn the_values_of_an_index_are_told_each_once_and_in_order() {
    assert_eq!(indexer("a=bar b=bar c=biz").index_values("uid"), ["bar", "biz"], "TestGetIndexFuncValues");
}

#[test]
fn users_of_many_objects_are_found_while_they_come_and_go() {
    let indexer = indexer("one=ernie,bert two=bert,oscar tre=ernie,elmo");
    let users = || ["ernie", "bert", "elmo", "oscar", "elmo1"].map(|user| under(&indexer, user).join(" "));
    assert_eq!(users(), ["one tre", "one two", "tre", "two", ""], "TestMultiIndexKeys");
    remove(&indexer, "tre");
    assert_eq!(users(), ["one", "one two", "", "two", ""]);
    put(&indexer, "two=oscar");
    assert_eq!(users(), ["one", "one", "", "two", ""]);
}

#[test]
fn indices_are_added_and_removed_at_any_time_all_or_none() {
    let indexer = indexer("a=x");
    let conflict = |name: &str| Err(IndexError::Conflict(name.into()));
    let add =
        |names: &[&str]| indexer.add_indexers(names.iter().map(|name| ((*name).into(), by_uid())).collect());
    assert_eq!(add(&["new", "uid"]), conflict("uid"), "R-IX-6");
    assert_eq!(add(&["new", "new"]), conflict("new"));
    assert_eq!(add(&["new", NAMESPACE_INDEX]), conflict(NAMESPACE_INDEX));
    assert_eq!(indexer.indexers(), ["uid"], "none of them was added");
    assert_eq!(add(&["new", "other"]), Ok(()));
    assert_eq!(indexer.index_values("new"), ["x"], "what is there is filed at once");
    assert_eq!([indexer.remove_indexer("new"), indexer.remove_indexer("new")], [true, false]);
    assert_eq!(indexer.indexers(), ["other", "uid"]);
    assert!(!indexer.remove_indexer(NAMESPACE_INDEX));
}

#[test]
fn an_unknown_index_is_an_error_but_has_no_values() {
    let (indexer, unknown) = (indexer("a=x"), IndexError::Unknown("none".into()));
    assert_eq!(unknown.to_string(), "Index with name none does not exist", "R-IX-5");
    assert_eq!(indexer.by_index("none", "x").as_ref(), Err(&unknown));
    assert_eq!(indexer.index_keys("none", "x").as_ref(), Err(&unknown));
    assert_eq!(indexer.index("none", &object("a", "x", "1")).as_ref(), Err(&unknown));
    assert_eq!(indexer.index_values("none"), [""; 0]);
}

#[test]
fn a_list_rebuilds_every_index() {
    let indexer = indexer("a=x b=y");
    indexer.replace(vec![object("b", "x", "1"), object("c", "z", "1")], "2");
    assert_eq!(["x", "y", "z"].map(|value| under(&indexer, value).join(" ")), ["b", "", "c"], "R-IX-7");
    assert_eq!(indexer.index_values("uid"), ["x", "z"]);
}

#[test]
fn the_namespace_index_is_built_in() {
    let indexer = indexer("b/1=u a/2=u a/1=u node=u ab/1=u");
    assert_eq!(indexer.index_values(NAMESPACE_INDEX), ["", "a", "ab", "b"], "R-IX-12");
    let of = |namespace| names(&indexer.by_index(NAMESPACE_INDEX, namespace).expect("built in"));
    assert_eq!([of("a"), of("b"), of("c")].map(|names| names.join(" ")), ["a/1 a/2", "b/1", ""]);
    assert_eq!(of(""), ["node"], "cluster-scoped objects, not all");
    assert_eq!(
        names(&indexer.index(NAMESPACE_INDEX, &object("a/9", "u", "1")).expect("built in")),
        ["a/1", "a/2"]
    );
    assert_eq!(indexer.index_keys(NAMESPACE_INDEX, "ab"), Ok(vec![ObjectKey::new("ab", "1")]));
    assert_eq!(indexer.index_values_after(NAMESPACE_INDEX, Some("a"), 1), ["ab"]);
    assert_eq!(indexer.index_values_after(NAMESPACE_INDEX, Some("b"), 9), [""; 0]);
    let after = ObjectKey::new("a", "1");
    let behind = |namespace| indexer.by_index_where(NAMESPACE_INDEX, namespace, Some(&after), 9, 9, |_| true);
    assert_eq!(
        ["a", "", "b"].map(|namespace| names(&behind(namespace).expect("built in").objects).join(" ")),
        ["a/2", "", "b/1"]
    );
}

#[test]
fn an_index_function_is_asked_once_for_each_state() {
    let indexer = Indexer::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let counting: IndexFn = {
        let asked = asked.clone();
        Arc::new(move |object| {
            asked.fetch_add(1, Ordering::Relaxed);
            vec![object.uid().to_owned()]
        })
    };
    indexer.add_indexers(vec![("counting".into(), counting)]).expect("no conflict");
    for uid in ["x", "x", "y"] {
        put(&indexer, &format!("a={uid}"));
    }
    remove(&indexer, "a");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn a_function_that_changes_its_mind_leaves_nothing_behind() {
    let indexer = Indexer::new();
    let times = AtomicUsize::new(0);
    let fickle: IndexFn = Arc::new(move |_| vec![times.fetch_add(1, Ordering::Relaxed).to_string()]);
    indexer.add_indexers(vec![("fickle".into(), fickle)]).expect("no conflict");
    put(&indexer, "a=x");
    put(&indexer, "a=x");
    assert_eq!(indexer.index_values("fickle"), ["1"]);
    remove(&indexer, "a");
    assert_eq!(indexer.index_values("fickle"), [""; 0]);
}

#[test]
fn a_function_that_panics_leaves_the_cache_as_it_was() {
    let indexer = indexer("a=x b=y");
    let picky: IndexFn = Arc::new(|object| {
        assert!(object.uid() != "bad", "on purpose");
        vec![]
    });
    indexer.add_indexers(vec![("picky".into(), picky)]).expect("no conflict");
    let before = (indexer.list(), indexer.bytes(), indexer.resource_version());
    let bad = object("a", "bad", "7");
    let attempts: [&dyn Fn(); 2] =
        [&|| drop(indexer.upsert(bad.clone())), &|| indexer.replace(vec![bad.clone()], "7")];
    for attempt in attempts {
        assert!(catch_unwind(AssertUnwindSafe(attempt)).is_err());
        assert_eq!((indexer.list(), indexer.bytes(), indexer.resource_version()), before, "R-IX-3 (D)");
        assert_eq!(indexer.index_values("uid"), ["x", "y"]);
    }
    put(&indexer, "c=z");
    assert_eq!(indexer.len(), 3, "and it goes on");
}

#[test]
fn an_index_is_read_page_by_page_in_key_order() {
    let indexer = indexer("a=x b=y c=x d=x e=x,y");
    let from = |after: &str, limit, scan_limit| {
        let after = (!after.is_empty()).then(|| ObjectKey::new("", after));
        let even = |object: &Object| object.key().name() != "d";
        let scan =
            indexer.by_index_where("uid", "x", after.as_ref(), limit, scan_limit, even).expect("an index");
        (names(&scan.objects).join(" "), scan.reached.map(|key| key.to_string()), scan.scanned)
    };
    assert_eq!(from("", 2, 9), ("a c".into(), Some("c".into()), 2));
    assert_eq!(from("c", 2, 9), ("e".into(), None, 2));
    assert_eq!(from("a", 9, 2), ("c".into(), Some("d".into()), 2));
    assert_eq!(from("e", 9, 9), (String::new(), None, 0));
    assert_eq!(indexer.index_values_after("uid", None, 1), ["x"]);
    assert_eq!(indexer.index_values_after("uid", Some("x"), 9), ["y"]);
}
