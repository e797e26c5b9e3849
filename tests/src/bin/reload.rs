//! What a reload takes: the built binary, from the save of a plugin's file to the first event that the new code
//! handles, for plugins of different sizes, new contents and contents seen before; and what reloads cost the deliveries of
//! another plugin. Started by `cargo xtask reload`, which passes its arguments on.
//!
//! Invariant: nothing is asserted of a time; a reload that does not come about is an error.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hark_tests::measure::binary::Binary;
use hark_tests::measure::table::Table;
use hark_tests::reload::beside::{Beside, Stretch};
use hark_tests::reload::lineage::{Lineage, SEEN_BEFORE};
use hark_tests::reload::stage::{Mode, Round, Stage, Way};

const USAGE: &str = "arguments: [--rounds 10] [--seconds 10] [--mode dev|run] [--way renamed|in-place] [--only WORD|beside] [--plugin FILE,FILE…] [--hark FILE]";

/// The columns after the times.
const PARTS: [&str; 6] = ["detect", "read", "compile", "link", "start", "swap"];

/// Contents of this size and above have a quarter of the rounds.
const LARGE: usize = 4 << 20;

/// What was asked for.
struct Asked {
    rounds: usize,
    /// Of each stretch beside a stream of changes; none: it is left out.
    seconds: u64,
    mode: Mode,
    /// How files are saved; none: each way has its turn.
    way: Option<Way>,
    only: Option<String>,
    lineages: Vec<Lineage>,
    hark: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let asked = parse(std::env::args().skip(1))?;
    let binary = Binary::choose(asked.hark.as_deref())?;
    eprintln!("measuring {} ({binary})", binary.path.display());
    let mut head = vec!["saved", "content", "rounds", "median", "p99", "goal", "save"];
    head.extend(PARTS);
    head.push("total");
    let mut table = Table::new(&head);
    for lineage in asked.lineages.iter().filter(|lineage| asked.wants(&lineage.name)) {
        let (new, seen) = measure(&asked, &binary.path, lineage).await?;
        for (content, goal, rounds) in [("new", lineage.goal, new), ("seen before", SEEN_BEFORE, seen)] {
            let row = row(&lineage.name, content, goal, &rounds);
            eprintln!("  {}", row.join(", "));
            table.row(row);
        }
    }
    let mut text = format!(
        "{binary}, hark {}, milliseconds from the save to the first event of the new code; `save` is what renaming or \
         closing the file itself took; the parts are medians of what the host says, which counts from the file's time (a \
         few milliseconds coarse)\n\n{table}",
        asked.mode.as_str()
    );
    if asked.seconds > 0 && asked.wants("beside") {
        text.push_str(&beside(&asked, &binary.path).await?);
    }
    std::io::stdout().write_all(text.as_bytes())?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/reload-latency.txt");
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

impl Asked {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word))
    }

    fn way(&self, number: usize) -> Way {
        self.way.unwrap_or(if number % 4 < 2 { Way::Renamed } else { Way::InPlace })
    }
}

/// Rounds with new contents, and with two that were seen before, in turn.
async fn measure(asked: &Asked, program: &Path, lineage: &Lineage) -> Result<(Vec<Round>, Vec<Round>)> {
    let (first, second) = (lineage.content(0)?, lineage.content(1)?);
    let count = if first.len() < LARGE { asked.rounds } else { asked.rounds.div_ceil(4) };
    eprintln!("{} ({} KiB), {count} rounds", lineage.name, first.len() >> 10);
    let mut stage = Stage::start(program, asked.mode, &first).await?;
    // It compiles for the first time, which starts threads.
    stage.reload(&second, Way::Renamed).await?;
    let mut new = Vec::new();
    for number in 0..count {
        let content = lineage.content(number as u64 + 2)?;
        new.push(stage.reload(&content, asked.way(number)).await?);
    }
    let mut seen = Vec::new();
    for number in 0..asked.rounds {
        let content = if number % 2 == 0 { &first } else { &second };
        seen.push(stage.reload(content, asked.way(number)).await?);
    }
    Ok((new, seen))
}

fn row(name: &str, content: &str, goal: Duration, rounds: &[Round]) -> Vec<String> {
    let millis = |time: fn(&Round) -> Duration| -> Vec<f64> {
        rounds.iter().map(|round| time(round).as_secs_f64() * 1000.0).collect()
    };
    let (took, saving) = (millis(|round| round.took), millis(|round| round.saving));
    let mut row = vec![name.to_owned(), content.to_owned(), rounds.len().to_string()];
    row.extend([shown(at(&took, 50)), shown(at(&took, 99)), goal.as_millis().to_string()]);
    row.push(shown(at(&saving, 50)));
    for part in PARTS {
        let times: Vec<f64> = rounds.iter().filter_map(|round| round.parts.part(part)).collect();
        row.push(if times.is_empty() { String::new() } else { shown(at(&times, 50)) });
    }
    row.push(shown(at(&rounds.iter().map(|round| round.parts.total).collect::<Vec<_>>(), 50)));
    row
}

/// The value that so many of a hundred do not exceed.
fn at(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or_default()
}

fn shown(millis: f64) -> String {
    if millis < 10.0 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

/// What reloads cost others: stretches with them, each beside one without.
async fn beside(asked: &Asked, program: &Path) -> Result<String> {
    let mut table = Table::new(&["reloaded meanwhile", "reloads", "events", "p50", "p99", "most"]);
    let lineages = Lineage::beside();
    let compile = if asked.mode == Mode::Dev { "fast" } else { "optimized" };
    let time = Duration::from_secs(asked.seconds);
    let first = lineages.first().context("a lineage")?;
    let mut stage = Beside::start(program, compile, first).await?;
    stage.stretch(Duration::from_secs(1), None).await?;
    for lineage in &lineages {
        let (mut without, mut with) = (Stretch::default(), Stretch::default());
        for _ in 0..2 {
            without.join(stage.stretch(time / 2, None).await?);
            with.join(stage.stretch(time / 2, Some(lineage)).await?);
        }
        for (name, stretch) in [("nothing", without), (&*lineage.name, with)] {
            let mut row = vec![name.to_owned(), stretch.reloads.to_string(), stretch.took.len().to_string()];
            row.extend(
                [50, 99, 100]
                    .map(|percent| format!("{:.2}", stretch.percentile(percent).as_secs_f64() * 1000.0)),
            );
            eprintln!("  beside {}", row.join(", "));
            table.row(row);
        }
    }
    Ok(format!(
        "\n1,000 changes a second, milliseconds from the write at the API server to the end of the good plugin's attempt; \
         compile = {compile:?}\n\n{table}"
    ))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked {
        rounds: 10,
        seconds: 10,
        mode: Mode::Dev,
        way: None,
        only: None,
        lineages: Lineage::usual(),
        hark: None,
    };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"))?;
        let number = || value.parse().with_context(|| format!("{argument} {value}: a number is wanted"));
        match argument.as_str() {
            "--rounds" => asked.rounds = usize::try_from(number()?)?.max(1),
            "--seconds" => asked.seconds = number()?,
            "--mode" if value == "dev" => asked.mode = Mode::Dev,
            "--mode" if value == "run" => asked.mode = Mode::Run,
            "--way" if value == "renamed" => asked.way = Some(Way::Renamed),
            "--way" if value == "in-place" => asked.way = Some(Way::InPlace),
            "--only" => asked.only = Some(value),
            "--plugin" => asked.lineages.push(Lineage::of_files(&value)?),
            "--hark" => asked.hark = Some(PathBuf::from(value)),
            _ => bail!("unknown argument {argument} {value}; {USAGE}"),
        }
    }
    Ok(asked)
}
