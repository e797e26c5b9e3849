//! `[dev]`: the builds that `hark dev` runs when their sources change.
//!
//! Used by the configuration; what it says is acted upon in `crate::dev`. Invariant: whatever a build does not say
//! itself (`in`, `sources`, `ignore`), `[dev]` says for all of them.

use std::path::{Path, PathBuf};

use super::reader::{Reader, TextOrTables};
use crate::dev::Pattern;

/// `[dev]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DevConfig {
    /// `build`: one command line, or one `[[dev.build]]` for each.
    builds: Vec<BuildTable>,
    common: Wishes,
}

/// One of `[[dev.build]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BuildTable {
    run: String,
    own: Wishes,
}

/// What may be said for one build, or for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wishes {
    folder: Option<PathBuf>,
    sources: Option<Vec<PathBuf>>,
    ignore: Option<Vec<Pattern>>,
}

/// One build, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    /// A command line, for `sh -c`.
    pub(crate) run: String,
    /// Where it runs; what `ignore` says is relative to it.
    pub(crate) folder: PathBuf,
    /// Folders and files whose changes start it.
    pub(crate) sources: Vec<PathBuf>,
    /// What of them does not.
    pub(crate) ignore: Vec<Pattern>,
}

impl DevConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let common = Wishes::read(reader);
        let builds = match reader.text_or_tables("build", "a command line", BuildTable::read) {
            None => Vec::new(),
            Some(TextOrTables::Text(run)) => vec![BuildTable { run, own: Wishes::default() }],
            Some(TextOrTables::Tables(builds)) => builds,
        };
        Self { builds, common }
    }

    /// The builds, with all paths relative to `base`, the folder that the file lies in. A `command` of the command line
    /// comes before those of the file; it runs in the present folder, unless the file says where.
    pub(crate) fn builds(&self, base: &Path, command: Option<&str>) -> Vec<Build> {
        match command {
            Some(run) => {
                let build = BuildTable { run: run.to_owned(), own: Wishes::default() };
                let here = if self.common.folder.is_some() { base } else { Path::new("") };
                vec![self.complete(&build, base, here)]
            }
            None => self.builds.iter().map(|build| self.complete(build, base, base)).collect(),
        }
    }

    /// `base` is what paths of the file are relative to, `here` where a build runs that does not say.
    fn complete(&self, build: &BuildTable, base: &Path, here: &Path) -> Build {
        let folder = build.own.folder.as_ref().or(self.common.folder.as_ref());
        let folder = folder.map_or_else(|| here.to_owned(), |folder| base.join(folder));
        let sources = build.own.sources.as_ref().or(self.common.sources.as_ref());
        let sources = match sources {
            Some(sources) => sources.iter().map(|source| base.join(source)).collect(),
            None => vec![folder.clone()],
        };
        let ignore = build.own.ignore.as_ref().or(self.common.ignore.as_ref());
        Build { run: build.run.clone(), folder, sources, ignore: ignore.cloned().unwrap_or_default() }
    }
}

impl BuildTable {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            own: Wishes::read(reader),
            run: reader.required_text("run", "a command line").unwrap_or_default(),
        }
    }
}

impl Wishes {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self { folder: reader.path("in"), sources: reader.paths("sources"), ignore: reader.list_of("ignore") }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn dev(text: &str) -> Result<DevConfig, String> {
        Config::parse(text, Path::new("hark.toml"))
            .map(|config| config.dev)
            .map_err(|error| error.to_string())
    }

    fn build(run: &str, folder: &str, sources: &[&str], ignore: &[&str]) -> Build {
        Build {
            run: run.to_owned(),
            folder: folder.into(),
            sources: sources.iter().map(PathBuf::from).collect(),
            ignore: ignore.iter().map(|text| text.parse().expect("a pattern")).collect(),
        }
    }

    #[test]
    fn one_build_is_a_line_and_several_are_tables_that_share_what_they_do_not_say() {
        assert_eq!(dev("").expect("valid").builds(Path::new("x"), None), []);
        let one = dev("[dev]\nbuild = \"make\"").expect("valid");
        assert_eq!(one.builds(Path::new("x"), None), [build("make", "x", &["x"], &[])]);
        let several = dev("dev.ignore = [\"*.log\"]\n[[dev.build]]\nrun = \"make\"\n\
             [[dev.build]]\nrun = \"npm run build\"\nin = \"web\"\nignore = []\n\
             [[dev.build]]\nrun = \"go build\"\nin = \"go\"\nsources = [\"go\", \"proto\"]");
        let want = [
            build("make", "x", &["x"], &["*.log"]),
            build("npm run build", "x/web", &["x/web"], &[]),
            build("go build", "x/go", &["x/go", "x/proto"], &["*.log"]),
        ];
        assert_eq!(several.expect("valid").builds(Path::new("x"), None), want);
    }

    #[test]
    fn the_command_lines_build_comes_before_and_runs_in_the_present_folder() {
        let dev = dev("[dev]\nbuild = \"make\"\nsources = [\"src\"]\nignore = [\"*.log\"]").expect("valid");
        assert_eq!(
            dev.builds(Path::new("x"), Some("just build")),
            [build("just build", "", &["x/src"], &["*.log"])]
        );
        assert_eq!(
            DevConfig::default().builds(Path::new("x"), Some("make")),
            [build("make", "", &[""], &[])]
        );
    }

    #[test]
    fn each_error_has_its_key() {
        let error = dev("[dev]\nsources = []\nignore = [\"a\", 7, \"[z-a]\"]\nin = \"\"\ncolour = 1\n\
             [[dev.build]]\nsources = [\"\", 1]\n[[dev.build]]\nrun = \" \"\nspeed = 1")
        .expect_err("invalid");
        for want in [
            "hark.toml has 10 errors",
            "dev.sources: expected at least one",
            "dev.ignore[1]: expected a string, found an integer",
            "dev.ignore[2]: \"[z-a]\" is no pattern as .gitignore has them: ",
            "dev.in: expected a path, found \"\"",
            "dev.colour: unknown key (known here: in, sources, ignore, build)",
            "dev.build[0].run: expected a command line, found nothing",
            "dev.build[0].sources[0]: expected a path, found \"\"",
            "dev.build[0].sources[1]: expected a string, found an integer",
            "dev.build[1].run: expected a command line, found \" \"",
            "dev.build[1].speed: unknown key (known here: in, sources, ignore, run)",
        ] {
            assert!(error.contains(want), "{want:?} is not in:\n{error}");
        }
        for (wrong, want) in [
            ("build = \"\"", "dev.build: expected a command line, found \"\""),
            ("build = 1", "dev.build: expected a command line or an array of tables, found an integer"),
            ("build = []", "dev.build: expected at least one table, found an empty array"),
            ("build = [1]", "dev.build[0]: expected a table, found an integer"),
        ] {
            let error = dev(&format!("[dev]\n{wrong}")).expect_err("invalid");
            assert!(error.contains(want), "{want:?} is not in:\n{error}");
        }
    }
}
