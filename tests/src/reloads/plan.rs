//! Builds of one plugin: the fixture `planned`, with another plan in its data.
//!
//! Invariant: two builds with different numbers have different contents, and a build does what its plan says.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::history::{Kind, Namespace};

/// Where the fixture keeps its plan, and how much room there is after that: empty lines; as in `planned.c`.
const MARK: &[u8] = b"HARK PLAN\n";
const ROOM: usize = 2048;

/// What an object carries that subscriptions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An annotation that most changes change.
    Text,
    /// Another one.
    More,
}

impl Part {
    /// Where it is.
    pub fn pointer(self) -> &'static str {
        match self {
            Self::Text => "/metadata/annotations/text",
            Self::More => "/metadata/annotations/more",
        }
    }
}

/// One subscription of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// By which a reload finds it again.
    pub name: String,
    /// Of what.
    pub kind: Kind,
    /// Where; none: everywhere.
    pub namespaces: Vec<Namespace>,
    /// Objects with the label `watch=yes` only.
    pub labelled: bool,
    /// Not those whose label `phase` is `off`.
    pub unless_off: bool,
    /// Updates of these only; none: of the fields.
    pub changed: Vec<Part>,
    /// What is handed over; none: everything.
    pub fields: Vec<Part>,
    /// In seconds; 0: never.
    pub resync: u32,
}

impl Watch {
    /// Of everything of a kind, everywhere, whole, and never told again.
    pub fn of(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            namespaces: vec![],
            labelled: false,
            unless_off: false,
            changed: vec![],
            fields: vec![],
            resync: 0,
        }
    }

    /// Whether a reload keeps the subscription: it is told of the same objects under the same name.
    pub fn is_kept_as(&self, other: &Self) -> bool {
        let objects = |watch: &Self| {
            let mut namespaces = watch.namespaces.clone();
            namespaces.sort();
            (watch.name.clone(), watch.kind, namespaces, watch.labelled, watch.unless_off)
        };
        objects(self) == objects(other)
    }

    /// What an update must change to be told; none: anything.
    pub fn listens_for(&self) -> &[Part] {
        if self.changed.is_empty() { &self.fields } else { &self.changed }
    }
}

/// What a build does beside handling its events well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Nothing.
    Good,
    /// Traps on every so-manieth event; 1: on all.
    Traps(u32),
    /// Answers `retry` to every so-manieth event.
    Retries(u32),
    /// `describe` refuses.
    Refuses,
    /// `describe` traps.
    Breaks,
}

/// How a build with a memory carries it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// It saves, and restores.
    Keeps,
    /// It does not save.
    SaveFails,
    /// It has nothing to save.
    SavesNothing,
    /// It does not restore.
    RestoreFails,
}

/// What a build is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// No other build has it.
    pub number: u32,
    /// What it wants to be told.
    pub watches: Vec<Watch>,
    /// What it does.
    pub mood: Mood,
    /// How long it takes to describe itself; see `planned.c`.
    pub lingers: u32,
    /// Whether it proposes a replay at its reload, or none; if it proposes anything.
    pub replays: Option<bool>,
    /// Instances that it proposes.
    pub concurrency: Option<u32>,
    /// What it does with its memory, if it exports `lifecycle`.
    pub memory: Option<Memory>,
}

/// What builds are made of.
#[derive(Debug, Clone)]
pub struct Fixtures {
    /// Without a memory.
    pub plain: Vec<u8>,
    /// With one.
    pub stateful: Vec<u8>,
}

impl Plan {
    /// Whether it answers nothing.
    pub fn is_bad(&self) -> bool {
        self.mood == Mood::Traps(1)
    }

    /// The module: the fixture with this plan in it.
    ///
    /// # Errors
    /// If the fixture has no room for it.
    pub fn build(&self, fixtures: &Fixtures) -> Result<Vec<u8>> {
        self.write_into(if self.memory.is_some() { &fixtures.stateful } else { &fixtures.plain })
    }

    /// The same, of this fixture.
    ///
    /// # Errors
    /// If it has no room for the plan.
    pub fn write_into(&self, fixture: &[u8]) -> Result<Vec<u8>> {
        let at = fixture.windows(MARK.len()).position(|bytes| bytes == MARK);
        let at = at.context("the fixture has no plan")? + MARK.len();
        let text = self.text();
        // An empty line must follow it.
        ensure!(text.len() < ROOM, "the plan is too long: {text}");
        let mut module = fixture.to_vec();
        let place = module.get_mut(at..at + text.len()).context("the fixture ends within its plan")?;
        ensure!(place.iter().all(|byte| *byte == b'\n'), "the fixture has no room for a plan");
        place.copy_from_slice(text.as_bytes());
        Ok(module)
    }

    /// In the words of `planned.c`.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("version {}", self.number)];
        lines.extend(self.replays.map(|replays| if replays { "replay" } else { "keep" }.to_owned()));
        lines.extend(self.concurrency.map(|count| format!("concurrency {count}")));
        lines.extend(match self.mood {
            Mood::Good => None,
            Mood::Traps(every) => Some(format!("trap {every}")),
            Mood::Retries(every) => Some(format!("retry {every}")),
            Mood::Refuses => Some("refuse".into()),
            Mood::Breaks => Some("break".into()),
        });
        lines.extend((self.lingers > 0).then(|| format!("linger {}", self.lingers)));
        lines.extend(match self.memory {
            None | Some(Memory::Keeps) => None,
            Some(Memory::SaveFails) => Some("save refuse".into()),
            Some(Memory::SavesNothing) => Some("save nothing".into()),
            Some(Memory::RestoreFails) => Some("restore refuse".into()),
        });
        let mut text = lines.join("\n");
        text.push('\n');
        self.watches.iter().for_each(|watch| watch.describe(&mut text));
        text
    }
}

impl Watch {
    fn describe(&self, text: &mut String) {
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            // Writing to a text cannot fail.
            let _ = text.write_fmt(arguments);
            text.push('\n');
        };
        line(format_args!("watch {} {}", self.name, self.kind.name()));
        for namespace in &self.namespaces {
            line(format_args!("namespace {}", namespace.name()));
        }
        if self.labelled {
            line(format_args!("labels watch=yes"));
        }
        if self.unless_off {
            line(format_args!("unless /metadata/labels/phase off"));
        }
        for part in &self.changed {
            line(format_args!("changed {}", part.pointer()));
        }
        for part in &self.fields {
            line(format_args!("field {}", part.pointer()));
        }
        if self.resync > 0 {
            line(format_args!("resync {}", self.resync));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let watch = Watch {
            name: "one".into(),
            kind: Kind::ConfigMap,
            namespaces: vec![Namespace::A],
            labelled: true,
            unless_off: true,
            changed: vec![Part::Text],
            fields: vec![Part::More],
            resync: 10,
        };
        let (mood, replays) = (Mood::Traps(5), Some(false));
        let memory = Some(Memory::SaveFails);
        Plan { number: 7, watches: vec![watch], mood, lingers: 3, replays, concurrency: Some(2), memory }
    }

    #[test]
    fn a_plan_is_written_into_the_fixture_and_nowhere_else() {
        let text = "version 7\nkeep\nconcurrency 2\ntrap 5\nlinger 3\nsave refuse\nwatch one ConfigMap\nnamespace reloads-a\n\
            labels watch=yes\nunless /metadata/labels/phase off\nchanged /metadata/annotations/text\n\
            field /metadata/annotations/more\nresync 10\n";
        assert_eq!(plan().text(), text);
        let fixture = [b"before".as_slice(), MARK, &[b'\n'; ROOM], b"after"].concat();
        let of = |stateful: &[u8]| Fixtures { plain: b"no plan".to_vec(), stateful: stateful.to_vec() };
        let built = plan().build(&of(&fixture)).expect("a build");
        assert_eq!(built.len(), fixture.len());
        let left = vec![b'\n'; ROOM - text.len()];
        assert_eq!(built, [b"before".as_slice(), MARK, text.as_bytes(), &left, b"after"].concat());
        assert!(plan().build(&of(&built)).is_err(), "it has a plan already");
        assert!(Plan { memory: None, ..plan() }.build(&of(&fixture)).is_err());
    }

    #[test]
    fn what_a_subscription_sees_decides_whether_it_is_kept() {
        let one = plan().watches.remove(0);
        assert!(one.is_kept_as(&Watch { changed: vec![], fields: vec![], resync: 0, ..one.clone() }));
        for other in [
            Watch { name: "two".into(), ..one.clone() },
            Watch { kind: Kind::ServiceAccount, ..one.clone() },
            Watch { namespaces: vec![], ..one.clone() },
            Watch { labelled: false, ..one.clone() },
            Watch { unless_off: false, ..one.clone() },
        ] {
            assert!(!one.is_kept_as(&other), "{other:?}");
        }
    }
}
