use super::*;
use crate::testing::object;

fn names(objects: &[Arc<Object>]) -> Vec<String> {
    objects.iter().map(|object| object.key().to_string()).collect()
}

#[test]
fn range_pages_in_key_order_and_by_namespace() {
    let indexer = Indexer::new();
    for key in ["b/1", "a/2", "a/1", "c/1", "a/3"] {
        indexer.upsert(object(key, "u", "1"));
    }
    assert_eq!(names(&indexer.range("", None, 2)), ["a/1", "a/2"]);
    let after = ObjectKey::new("a", "2");
    assert_eq!(names(&indexer.range("", Some(&after), 9)), ["a/3", "b/1", "c/1"]);
    assert_eq!(names(&indexer.range("a", Some(&after), 9)), ["a/3"]);
    assert_eq!(names(&indexer.range("b", Some(&after), 9)), ["b/1"]);
    assert_eq!(names(&indexer.range("a", Some(&ObjectKey::new("b", "0")), 9)), [""; 0]);
}

#[test]
fn indices_follow_every_write_and_drop_empty_values() {
    let indexer = Indexer::new();
    indexer.upsert(object("a/1", "u1", "1"));
    let by_version: IndexFn = Arc::new(|object| vec![object.resource_version().to_owned()]);
    indexer.add_indexers(vec![("rv".into(), by_version.clone())]).expect("no conflict");
    indexer.upsert(object("a/2", "u2", "1"));
    assert_eq!(names(&indexer.by_index("rv", "1").expect("an index")), ["a/1", "a/2"]);
    indexer.upsert(object("a/1", "u1", "2"));
    indexer.remove(&ObjectKey::new("a", "2"));
    assert_eq!(names(&indexer.by_index("rv", "1").expect("an index")), [""; 0]);
    assert_eq!(indexer.index_values("rv"), ["2"]);
    assert_eq!(indexer.add_indexers(vec![("rv".into(), by_version)]), Err(IndexError::Conflict("rv".into())));
    assert_eq!(indexer.by_index("x", "1"), Err(IndexError::Unknown("x".into())));
}

#[test]
fn the_store_keeps_the_version_of_its_last_write() {
    let indexer = Indexer::new();
    assert_eq!(indexer.resource_version(), "");
    indexer.upsert(object("a/1", "u", "7"));
    assert_eq!(indexer.resource_version(), "7");
    indexer.set_resource_version("9");
    assert_eq!(indexer.resource_version(), "9");
    assert_eq!(indexer.remove(&ObjectKey::new("a", "9")), None);
}
