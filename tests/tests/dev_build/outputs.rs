//! What a build writes among its sources, and what somebody saves there while it runs.

use std::fs;

use anyhow::Result;
use hark_tests::eventually;
use hark_tests::hark::Hark;

use crate::{COPY, begun, choose, counts, dev, setup, write};

#[tokio::test(flavor = "multi_thread")]
async fn output_among_the_sources_comes_to_rest() -> Result<()> {
    let command = format!(
        "{COPY} && cat src/which src/which > src/generated && mkdir -p src/out && cp src/which src/out/copy"
    );
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["(src/generated added, and 1 more while it ran)"]).await;
    counts(&hark, "build            done in ", 2).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&[
        "(src/which changed",
        "counter reloaded: ",
        "(src/generated changed, and 1 more while it ran)",
    ])
    .await;
    counts(&hark, "build            done in ", 4).await;
    write(&hark, "src/last", "x")?;
    hark.shows(&["(src/last added"]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    assert!(!hark.stdout().contains("outdated"), "its own outputs do not end it: {}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_differs_each_time_is_recognised_and_starts_nothing_any_more() -> Result<()> {
    let command = format!("{COPY} && date +%s.%N > src/stamp");
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["it writes src/stamp otherwise each time", "put it into `ignore` of [dev]"]).await;
    // The first one, one for what it wrote, and three more after rests.
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    hark.shows(&["(once more, to make sure)"]).await;
    counts(&hark, "build            done in ", 6).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    counts(&hark, "build            done in ", 7).await;
    write(&hark, "src/other", "x")?;
    hark.shows(&["(src/other added"]).await;
    counts(&hark, "build            done in ", 8).await;
    assert_eq!(
        (begun(&hark), hark.stdout().matches("otherwise each time").count()),
        (8, 1),
        "{}",
        hark.stdout()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn output_with_another_name_each_time_is_recognised_by_its_folder() -> Result<()> {
    let command = format!("{COPY} && mkdir -p src/out && cp src/which src/out/app-$$.js");
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["it makes other files in src/out each time, and would start itself for ever"]).await;
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    counts(&hark, "build            done in ", 6).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    counts(&hark, "build            done in ", 7).await;
    write(&hark, "src/out/own.js", "x")?;
    hark.shows(&["(src/out/own.js added)"]).await;
    counts(&hark, "build            done in ", 8).await;
    assert_eq!(begun(&hark), 8, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_does_not_write_any_more_is_a_source_again() -> Result<()> {
    let command = format!("{COPY} && if test -e src/stamping; then date +%s.%N > src/stamp; fi");
    let setup = setup("counter-v1")?.config(&dev(&command))?;
    fs::write(setup.folder().join("src/stamping"), "")?;
    let hark = setup.start(&["dev"])?;
    hark.shows(&["it writes src/stamp otherwise each time, and would start itself for ever"]).await;
    fs::remove_file(hark.folder().join("src/stamping"))?;
    hark.shows(&[
        "(src/stamping removed",
        "this time it has left src/stamp as it was: a change there starts it again",
    ])
    .await;
    Ok(())
}

/// Saves `src/text` in each build until so many have done well, and gives what was saved last. A build of
/// [`held`] waits for that; the save comes so late in it that it is not outdated, or, if this machine is busy, ends it.
async fn save_in_each(hark: &Hark, builds: usize, round: u32) -> Result<String> {
    let done = || hark.stdout().matches("build            done in ").count();
    let (before, mut seen, mut text) = (done(), 0, String::new());
    while done() < before + builds {
        let next = async || {
            let begun = fs::read_dir(hark.folder().join("began")).ok()?.count();
            (begun > seen || done() >= before + builds).then_some(begun)
        };
        seen = eventually("the next build", || hark.state(), next).await;
        if done() < before + builds {
            text = format!("{seen} of round {round}");
            write(hark, "src/text", &text)?;
            write(hark, "go", "")?;
        }
    }
    Ok(text)
}

/// A build that keeps, in `began`, the `src/text` that it begins with, and goes on when there is `go`.
fn held() -> String {
    format!("cp src/text began/$$; until test -e go; do sleep 0.01; done; {COPY}; rm go; cp began/$$ last")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_saved_in_each_of_many_builds_and_never_between_is_built_in_the_end() -> Result<()> {
    let setup = setup("counter-v1")?.config(&dev(&held()))?;
    fs::write(setup.folder().join("src/text"), "first")?;
    fs::create_dir(setup.folder().join("began"))?;
    let hark = setup.start(&["dev"])?;
    for round in 0..2 {
        // The build that somebody's change has started, and three for what was saved meanwhile.
        let text = save_in_each(&hark, 4, round).await?;
        let built = async || {
            // Nobody saves any more. A build that waits for it may go on.
            write(&hark, "go", "").ok()?;
            let is_last = fs::read_to_string(hark.folder().join("last")).ok()? == text;
            // It must be over: what is written before that is no change at rest.
            let done = hark.stdout().matches("build            done in ").count();
            (is_last && done == begun(&hark)).then_some(())
        };
        eventually(&format!("a build that begins with {text:?}"), || hark.state(), built).await;
        assert!(!hark.stdout().contains("each time"), "nobody is accused: {}", hark.stdout());
        fs::remove_dir_all(hark.folder().join("began"))?;
        fs::create_dir(hark.folder().join("began"))?;
        fs::remove_file(hark.folder().join("go")).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        write(&hark, "src/other", &text)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_saved_in_all_the_builds_of_a_proof_is_built_by_the_one_that_makes_sure()
-> Result<()> {
    let setup = setup("counter-v1")?.config(&dev(&held()))?;
    fs::write(setup.folder().join("src/text"), "first")?;
    fs::create_dir(setup.folder().join("began"))?;
    let hark = setup.start(&["dev"])?;
    let text = save_in_each(&hark, 5, 0).await?;
    hark.shows(&["it writes src/text otherwise each time", "(once more, to make sure)"]).await;
    write(&hark, "go", "")?;
    hark.shows(&["this time it has left src/text as it was: a change there starts it again"]).await;
    assert_eq!(fs::read_to_string(hark.folder().join("last"))?, text);
    Ok(())
}
