//! The life of a slot, step by step, with made-up time.

use super::super::tries::{AGAIN, AGAIN_MOST, SOON};
use super::*;
use crate::config::Config;
use crate::folder::Stamp;

/// A file that was noticed long before `now`: nothing is racy.
fn file(folder: &tempfile::TempDir, content: &str, now: Instant) -> PluginFile {
    let path = folder.path().join("a.wasm");
    std::fs::write(&path, content).expect("written");
    let noticed = now.checked_sub(Duration::from_secs(60)).expect("the machine has been up for longer");
    PluginFile { stamp: Stamp::read(&path).expect("there"), changed: None, path, noticed }
}

fn is_begun(slot: &mut Slot, config: &PluginConfig, now: Instant) -> bool {
    matches!(slot.begin(config, now), Begin::Version(..))
}

#[test]
fn a_version_is_tried_once_and_again_when_file_or_settings_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let mut slot = Slot::default();
    assert!(!is_begun(&mut slot, &config, now), "there is no file yet");
    slot.file_is(Some(&file(&folder, "1", now)));
    assert!(is_begun(&mut slot, &config, now));
    assert!(!is_begun(&mut slot, &config, now), "it is being prepared");
    slot.settled();
    assert!(!is_begun(&mut slot, &config, now), "nothing changed");
    slot.file_is(Some(&file(&folder, "two", now)));
    assert!(is_begun(&mut slot, &config, now));
    slot.settled();
    let other = PluginConfig { queue: 5, ..config.clone() };
    assert!(is_begun(&mut slot, &other, now));
    slot.try_again(now);
    assert!(!is_begun(&mut slot, &other, now), "a look will say so");
    assert_eq!(slot.due(), Some(now + SOON));
    assert!(is_begun(&mut slot, &other, now + SOON), "unless none does");
}

#[test]
fn a_version_is_counted_from_what_it_is_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let (mut slot, changed) = (Slot::default(), Some(SystemTime::now()));
    let file = PluginFile { changed, ..file(&folder, "1", now) };
    slot.file_is(Some(&file));
    let since = |begin: Begin| match begin {
        Begin::Version(file, noticed) => Some((file.changed, noticed)),
        _ => None,
    };
    let later = now + Duration::from_secs(8);
    assert_eq!(since(slot.begin(&config, later)), Some((changed, file.noticed)));
    slot.refuse(None, config.clone(), "no".into());
    let other = PluginConfig { queue: 5, ..config };
    slot.noticed = later;
    assert_eq!(since(slot.begin(&other, later)), Some((None, later)), "the settings, not the file's change");
}

#[test]
fn what_the_machine_lacked_something_for_is_tried_again_ever_more_seldom() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, mut now) = (Config::default().plugin("a"), Instant::now());
    let mut slot = Slot::default();
    slot.file_is(Some(&file(&folder, "1", now)));
    assert!(is_begun(&mut slot, &config, now));
    for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
        let wait = slot.hindered("no thread".into(), now);
        assert_eq!(wait, Duration::from_secs(seconds));
        let before = now + wait - Duration::from_millis(1);
        assert!(!is_begun(&mut slot, &config, before));
        now += wait;
        assert!(is_begun(&mut slot, &config, now));
    }
    assert!(!is_begun(&mut slot, &config, now + AGAIN_MOST), "it is being prepared");
    slot.settled();
    assert!(!is_begun(&mut slot, &config, now + AGAIN_MOST), "it runs");
    assert_eq!(slot.hindered("no thread".into(), now), AGAIN, "counted anew");
    slot.file_is(Some(&file(&folder, "two", now)));
    assert!(is_begun(&mut slot, &config, now), "another file is tried at once");
}

#[test]
fn how_far_a_new_version_is_shows_until_it_is_in_place_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let mut slot = Slot::default();
    assert_eq!(slot.view("a").coming, Coming::Nothing);
    slot.file_is(Some(&file(&folder, "1", now)));
    assert!(is_begun(&mut slot, &config, now));
    assert_eq!(slot.view("a").coming, Coming::Preparing);
    slot.takes_over();
    assert_eq!(slot.view("a").coming, Coming::TakingOver);
    slot.file_is(Some(&file(&folder, "two", now)));
    assert!(!is_begun(&mut slot, &config, now), "one after the other");
    slot.settled();
    assert_eq!(slot.view("a").coming, Coming::Nothing);
    assert!(is_begun(&mut slot, &config, now));
    slot.refuse(None, config, "no good".into());
    assert_eq!(slot.view("a").coming, Coming::Nothing);
}

#[test]
fn a_refusal_is_shown_until_the_file_is_another_one() {
    let config = Config::default().plugin("a");
    let (bad, good) = (ContentHash::of(b"bad"), ContentHash::of(b"good"));
    let mut slot = Slot::default();
    let message = |slot: &Slot| slot.view("a").refusal.map(|refusal| refusal.message);
    let said = |good_again| Same { once_more: false, good_again, refused_again: false };
    slot.refuse(Some(bad), config.clone(), "no good".into());
    assert_eq!(slot.same(bad, &config), said(false));
    assert_eq!(message(&slot).as_deref(), Some("no good"), "it was only touched");
    assert_eq!(slot.same(good, &config), said(true));
    assert_eq!(message(&slot), None, "what runs was put back");
    assert_eq!(slot.same(good, &config), said(false), "once");
    let other = PluginConfig { queue: 5, ..config.clone() };
    slot.refuse(Some(good), other.clone(), "wrong settings".into());
    assert_eq!(slot.same(good, &other), said(false));
    assert_eq!(slot.same(good, &config), said(true), "its settings were put back");
    assert_eq!(message(&slot), None);
    slot.refuse(Some(bad), config, "no good".into());
    slot.settled();
    assert_eq!(message(&slot), None, "another version has taken over");
    slot.not_started("no thread".into());
    assert_eq!(message(&slot).as_deref(), Some("no thread"));
}

#[test]
fn what_was_refused_is_known_until_the_file_has_been_good() {
    let config = Config::default().plugin("a");
    let (bad, good) = (ContentHash::of(b"bad"), ContentHash::of(b"good"));
    let mut slot = Slot::default();
    let knows = |slot: &Slot| slot.known(&|_| Err(String::new())).refused.is_some();
    slot.refuse(Some(bad), config.clone(), "no good".into());
    slot.same(bad, &config);
    assert!(knows(&slot), "it was only touched");
    slot.same(good, &config);
    assert!(!knows(&slot), "what runs was put back");
    slot.refuse(Some(bad), config.clone(), "no good".into());
    slot.settled();
    assert!(!knows(&slot), "another version has taken over");
    slot.refuse(None, config, "it cannot be read".into());
    assert!(!knows(&slot), "its content is not to blame");
}

#[test]
fn what_was_read_soon_after_its_change_is_read_once_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let fresh = |content| PluginFile { noticed: now, ..file(&folder, content, now) };
    let mut slot = Slot::default();
    let first = fresh("1");
    slot.file_is(Some(&first));
    assert!(is_begun(&mut slot, &config, now));
    let sure = now + first.stamp.resolution();
    assert_eq!(slot.due(), None, "not while it is being prepared");
    slot.settled();
    assert_eq!(slot.due(), Some(sure));
    assert!(!is_begun(&mut slot, &config, now));
    assert!(is_begun(&mut slot, &config, sure));
    assert_eq!(slot.view("a").coming, Coming::Nothing, "nobody need know");
    assert!(!is_begun(&mut slot, &config, sure), "one after the other");
    assert!(slot.same(ContentHash::of(b"1"), &config).once_more, "nor that it was");
    assert!(!is_begun(&mut slot, &config, sure + SOON), "once");
    assert_eq!(slot.due(), None);

    slot.file_is(Some(&fresh("two")));
    assert!(is_begun(&mut slot, &config, now));
    slot.refuse(None, config.clone(), "it cannot be read".into());
    assert_eq!(slot.due(), None, "its content is not known");
    slot.file_is(Some(&fresh("three")));
    assert!(is_begun(&mut slot, &config, sure), "read late enough");
    slot.settled();
    assert_eq!(slot.due(), None);
}

#[test]
fn a_file_that_changes_all_the_time_has_its_turn_once_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let mut slot = Slot::default();
    let mut content = String::new();
    let mut change = |slot: &mut Slot| {
        content.push('x');
        slot.file_is(Some(&file(&folder, &content, now)));
    };
    for _ in 0..5 {
        change(&mut slot);
        assert!(is_begun(&mut slot, &config, now));
        slot.settled();
    }
    change(&mut slot);
    assert!(matches!(slot.begin(&config, now), Begin::Nothing), "it is not said at once");
    let turn = slot.due().expect("its turn comes");
    assert_eq!(turn, now + Duration::from_secs(1));
    change(&mut slot);
    let other = PluginConfig { queue: 5, ..config.clone() };
    assert!(!is_begun(&mut slot, &other, now), "nor with another configuration");
    assert!(is_begun(&mut slot, &config, turn), "the last one");
    slot.settled();
    assert_eq!(slot.due(), None);
    assert!(is_begun(&mut slot, &other, turn), "a configuration alone has no pace");
    slot.settled();
    let mut said = 0;
    let mut now = turn;
    for _ in 0..5 {
        change(&mut slot);
        said += usize::from(matches!(slot.begin(&other, now), Begin::Paced));
        now = slot.due().expect("its turn comes");
        assert!(is_begun(&mut slot, &other, now));
        slot.settled();
    }
    assert_eq!(said, 1, "it is said when it lasts, and once");
}

#[test]
fn a_file_that_is_not_there_or_half_written_is_not_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, now) = (Config::default().plugin("a"), Instant::now());
    let mut slot = Slot::default();
    let whole = file(&folder, "1", now);
    slot.file_is(Some(&whole));
    assert!(is_begun(&mut slot, &config, now));
    slot.try_again(now);
    slot.file_is(None);
    assert!(!is_begun(&mut slot, &config, now + SOON));
    assert_eq!(slot.due(), None);
    slot.file_is(Some(&whole));
    assert!(is_begun(&mut slot, &config, now + SOON));
    let life = slot.life();
    slot.died(now);
    assert!(slot.life() != life, "what was begun before is nothing to it");
    assert!(!is_begun(&mut slot, &config, now), "not at once: it may die again");
    let soon = slot.due().expect("soon");
    assert!(is_begun(&mut slot, &config, soon));
}
