//! Plugins of different sizes, and contents that are new each time.
//!
//! Invariant: no two contents of a lineage are the same, and all do the same: they handle ConfigMaps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::guests::{fixture, plugin};
use crate::large::grown;
use crate::measure::stamp::stamped;

/// See the file's head.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// For people.
    pub name: String,
    /// What is aimed at for new contents; for those seen before see [`SEEN_BEFORE`].
    pub goal: Duration,
    source: Source,
}

/// What is aimed at for contents that were compiled before, whatever their size.
pub const SEEN_BEFORE: Duration = Duration::from_millis(50);

/// Where the contents come from.
#[derive(Debug, Clone)]
enum Source {
    /// Builds, taken in turn, each time with another number in a section that nobody reads.
    Builds(Vec<PathBuf>),
    /// A module with so many bytes of functions more, which are others each time.
    Grown(PathBuf, usize),
}

const SMALL: Duration = Duration::from_millis(100);
const MEDIUM: Duration = Duration::from_millis(400);
const LARGE: Duration = Duration::from_secs(4);

impl Lineage {
    /// Those that are built here, from small to large.
    pub fn usual() -> Vec<Self> {
        let counters = (1..=5).map(|number| fixture(&format!("counter-v{number}"))).collect();
        let new = |name: &str, goal, source| Self { name: name.to_owned(), goal, source };
        let grown = |bytes| Source::Grown(fixture("counter-v1"), bytes);
        vec![
            new("C, 8 KB", SMALL, Source::Builds(counters)),
            new("C and 80 KB of functions", SMALL, grown(80 << 10)),
            new("Rust, 121 KB", SMALL, Source::Builds(vec![plugin("event-log")])),
            new("C and 1.5 MB of functions", MEDIUM, grown(3 << 19)),
            new("C and 12 MB of functions", LARGE, grown(12 << 20)),
        ]
    }

    /// Those that are reloaded beside a plugin that events flow to: they watch Pods, of which there are none.
    pub fn beside() -> Vec<Self> {
        let file = plugin("crash-watch");
        let new = |name: &str, goal, source| Self { name: name.to_owned(), goal, source };
        vec![
            new("a small one", SMALL, Source::Builds(vec![file.clone()])),
            new("one of 1.5 MB", MEDIUM, Source::Grown(file.clone(), 3 << 19)),
            new("one of 12 MB", LARGE, Source::Grown(file, 12 << 20)),
        ]
    }

    /// Builds of one plugin, each `FILE` of `FILE,FILE,…`.
    ///
    /// # Errors
    /// If one is not there.
    pub fn of_files(files: &str) -> Result<Self> {
        let builds: Vec<PathBuf> = files.split(',').map(PathBuf::from).collect();
        let mut bytes = 0;
        for build in &builds {
            bytes = std::fs::metadata(build).with_context(|| build.display().to_string())?.len();
        }
        let goal = match bytes {
            0..0x4_0000 => SMALL,
            0x4_0000..0x40_0000 => MEDIUM,
            _ => LARGE,
        };
        let stem = builds.first().and_then(|build| build.file_stem()).unwrap_or_default();
        let name = format!("{}, {:.1} MB", stem.to_string_lossy(), bytes as f64 / 1e6);
        Ok(Self { name, goal, source: Source::Builds(builds) })
    }

    /// Its content with this number.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn content(&self, number: u64) -> Result<Vec<u8>> {
        match &self.source {
            Source::Builds(builds) => {
                let build = &builds[number as usize % builds.len()];
                Ok(stamped(&std::fs::read(build)?, number))
            }
            Source::Grown(module, bytes) => grown(module, *bytes, number << 32),
        }
    }
}
