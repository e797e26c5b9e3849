//! Compiling in two ways, remembering it, and having another process do it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hark_informer::handler::Outcome;
use hark_sandbox::{
    ArtefactCache, Compile, CompilerProcess, Engine, EngineOptions, HashedBytes, LARGE_PLUGIN_BYTES, Limits,
    Lineage, LoadError, LoadOptions, Plugin,
};

use crate::support::{Guest, Host, OK, Objects, context, short};

const WAT: LoadOptions = LoadOptions { allow_wat: true, compile: Compile::Optimized };
const FAST: LoadOptions = LoadOptions { allow_wat: true, compile: Compile::Fast };

fn with_cache(folder: &Path) -> Engine {
    let cache = ArtefactCache::open(&folder.join("artefacts"), 1 << 30).expect("a cache");
    Engine::with(EngineOptions { cache: Some(cache), ..EngineOptions::default() }).expect("an engine")
}

/// What was counted of a mode: compiled, cached, refused, failed.
fn counts(engine: &Engine, mode: Compile) -> [u64; 4] {
    let stats = *engine.stats().of(mode);
    [stats.compiled, stats.cached, stats.refused, stats.failed]
}

async fn works(plugin: &Plugin) {
    let described = plugin.describe(&context(Limits::default()).0).await.expect("a description");
    assert_eq!(described.name, "test plugin");
    assert_eq!(Host::new(plugin.clone()).add().await, Outcome::Ok);
}

/// The only entry.
fn entry(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder.join("artefacts")).expect("a folder");
    let entry = entries.next().expect("an entry").expect("readable").path();
    assert!(entries.next().is_none());
    entry
}

#[tokio::test]
async fn content_that_was_compiled_before_is_not_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Guest::default().text();
    for (mode, options) in [(Compile::Optimized, WAT), (Compile::Fast, FAST)] {
        let first = with_cache(folder.path());
        let plugin = first.load(text.as_bytes(), options).expect("a plugin");
        assert_eq!((plugin.how().mode, plugin.how().cached), (mode, false), "each mode has its own entry");
        works(&plugin).await;
        assert_eq!(counts(&first, mode), [1, 0, 0, 0]);
        for engine in [first, with_cache(folder.path())] {
            let before = counts(&engine, mode);
            let plugin = engine.load(text.as_bytes(), options).expect("a plugin");
            assert_eq!((plugin.how().mode, plugin.how().cached), (mode, true));
            works(&plugin).await;
            assert_eq!(counts(&engine, mode), [before[0], before[1] + 1, 0, 0]);
        }
    }
    let other = Guest { pages: 5, ..Guest::default() }.text();
    let engine = with_cache(folder.path());
    assert!(!engine.load(other.as_bytes(), WAT).expect("a plugin").how().cached, "another content");
    assert_eq!(engine.stats().cache.expect("a cache").entries, 3);
}

#[tokio::test]
async fn content_under_several_names_is_loaded_once_and_goes_with_the_last_of_them() {
    let text = Guest::default().text();
    let engine = Engine::new().expect("an engine");
    let [first, second] = [(); 2].map(|()| engine.load(text.as_bytes(), WAT).expect("a plugin"));
    assert_eq!((first.how().cached, second.how().cached), (false, true));
    assert_eq!(counts(&engine, Compile::Optimized), [1, 1, 0, 0]);
    drop(first);
    works(&second).await;
    let fast = engine.load(text.as_bytes(), FAST).expect("a plugin");
    assert_eq!((fast.how().mode, fast.how().cached), (Compile::Fast, false), "it is other code");
    drop(second);
    assert!(
        !engine.load(text.as_bytes(), WAT).expect("a plugin").how().cached,
        "there is no cache to keep it"
    );
    assert_eq!(counts(&engine, Compile::Optimized), [2, 1, 0, 0]);
}

#[test]
fn text_that_was_compiled_once_is_still_not_taken_where_text_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = with_cache(folder.path());
    let text = Guest::default().text();
    engine.load(text.as_bytes(), WAT).expect("a plugin");
    let refused = engine.load(text.as_bytes(), LoadOptions::default());
    assert_eq!(refused.err(), Some(LoadError::TextNotAllowed));
}

#[tokio::test]
async fn a_damaged_artefact_is_dropped_and_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Guest::default().text();
    with_cache(folder.path()).load(text.as_bytes(), WAT).expect("a plugin");
    let path = entry(folder.path());
    let whole = fs::read(&path).expect("readable");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], b"\x7fELF", b""] {
        fs::write(&path, damaged).expect("written");
        let engine = with_cache(folder.path());
        let plugin = engine.load(text.as_bytes(), WAT).expect("a plugin");
        assert!(!plugin.how().cached);
        works(&plugin).await;
        assert_eq!(engine.stats().cache.expect("a cache").damaged, 1);
        assert_eq!(fs::read(&path).expect("there again").len(), whole.len());
    }
}

/// A plugin that Winch does not take.
fn tail_call() -> String {
    let extra = format!("(func $answer (result i32) {OK}) (func $jump (result i32) (return_call $answer))");
    Guest { extra, ..Guest::adding("(call $jump)") }.text()
}

#[tokio::test]
async fn what_winch_does_not_take_is_optimized_and_winch_is_not_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = tail_call();
    let engine = with_cache(folder.path());
    let plugin = engine.load(text.as_bytes(), FAST).expect("Cranelift takes it");
    assert_eq!(plugin.how().mode, Compile::Optimized);
    let reason = plugin.how().refusal.clone().expect("a reason");
    assert!(reason.contains("tail calls"), "{reason}");
    works(&plugin).await;
    assert_eq!(
        (counts(&engine, Compile::Fast), counts(&engine, Compile::Optimized)),
        ([0, 0, 1, 0], [1, 0, 0, 0])
    );
    // The same host, one that is started later, and one without a cache.
    let later = with_cache(folder.path());
    for (engine, refusals) in [(&engine, 1), (&later, 0)] {
        let again = engine.load(text.as_bytes(), FAST).expect("a plugin");
        assert_eq!(
            (again.how().mode, again.how().cached, &again.how().refusal),
            (Compile::Optimized, true, &None)
        );
        assert_eq!(counts(engine, Compile::Fast), [0, 0, refusals, 0]);
    }
    let alone = Engine::new().expect("an engine");
    for refusals in [true, false] {
        let plugin = alone.load(text.as_bytes(), FAST).expect("a plugin");
        assert_eq!((plugin.how().refusal.is_some(), plugin.how().cached), (refusals, false));
    }
    assert_eq!(
        (counts(&alone, Compile::Fast), counts(&alone, Compile::Optimized)),
        ([0, 0, 1, 0], [2, 0, 0, 0])
    );
}

#[test]
fn of_a_lineage_that_winch_does_not_take_only_what_it_may_take_is_given_to_it() {
    let engine = Engine::new().expect("an engine");
    let lineage = Some(Lineage::of("a.wasm"));
    let load = |text: String, lineage| {
        let wasm = wat::parse_str(text).expect("right text");
        engine.load_while(&HashedBytes::new(&wasm), FAST, lineage, &|| true).expect("a plugin")
    };
    let version = |number: usize| {
        format!("{} (@custom \"v\" \"{number}\"))", tail_call().trim_end().strip_suffix(')').expect("closed"))
    };
    let how = |plugin: &Plugin| (plugin.how().mode, plugin.how().refusal.is_some());
    assert_eq!(how(&load(version(1), lineage)), (Compile::Optimized, true), "Winch says so");
    assert_eq!(how(&load(version(2), lineage)), (Compile::Optimized, false), "it was not asked");
    assert_eq!(how(&load(version(3), Some(Lineage::of("b.wasm")))), (Compile::Optimized, true));
    assert_eq!(how(&load(Guest::default().text(), lineage)), (Compile::Fast, false));
    assert_eq!(counts(&engine, Compile::Fast), [1, 0, 3, 0]);
}

#[test]
fn what_nobody_takes_is_not_winchs_fault() {
    let engine = Engine::new().expect("an engine");
    let wrong = Guest::adding("(i64.const 1)").text();
    assert!(matches!(engine.load(wrong.as_bytes(), FAST), Err(LoadError::Invalid(_))));
    assert_eq!((counts(&engine, Compile::Fast), counts(&engine, Compile::Optimized)), ([0, 0, 0, 1], [0; 4]));
}

#[tokio::test]
async fn the_limits_hold_in_code_that_was_compiled_fast() {
    let small = Limits { memory: 5 << 16, ..Limits::default() };
    let cases = [
        ("(loop $l (br $l)) unreachable", short(), "timeout: used its deadline of 50ms (limits.deadline)"),
        ("unreachable", Limits::default(), "trap: wasm trap: wasm `unreachable` instruction executed"),
        (
            "(call $deeper) unreachable",
            Limits::default(),
            "trap: its stack of 512 KiB is used up (host.wasm_stack)",
        ),
        ("(drop (memory.grow (i32.const 2))) unreachable", small, "(limits.memory)"),
    ];
    let engine = Engine::new().expect("an engine");
    for (add, limits, want) in cases {
        let guest =
            Guest { extra: "(func $deeper (call $deeper) (call $deeper))".into(), ..Guest::adding(add) };
        let plugin = engine.load(guest.text().as_bytes(), FAST).expect("a plugin");
        assert_eq!(plugin.how().mode, Compile::Fast);
        let mut host = Host::with(plugin, limits, Objects::default());
        let outcome = host.add().await;
        let said = format!("{}: {}", outcome.as_str(), outcome.message().unwrap_or_default());
        assert!(said.contains(want), "{said:?} lacks {want:?}");
        host.recovers().await;
    }
}

// === in another process ===

/// A plugin that is large enough for a process of its own, if only by what is written beside the code.
fn large() -> String {
    format!("{}\n;; {}", Guest::default().text(), "x".repeat(LARGE_PLUGIN_BYTES))
}

/// An engine whose compiler is a shell script.
fn scripted(folder: &Path, script: &str, timeout: Duration) -> Engine {
    let program = folder.join("compiler");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("ours");
    let process = CompilerProcess {
        program: "/bin/sh".into(),
        arguments: vec![program.into()],
        smallest: LARGE_PLUGIN_BYTES,
        timeout,
    };
    Engine::with(EngineOptions { process: Some(process), ..EngineOptions::default() }).expect("an engine")
}

#[test]
fn what_a_compiler_process_does_is_that_files_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let killed = "it was killed (signal 9), which is what the system does when memory runs out";
    let broke = |how: &str| LoadError::CompilerBroke(how.to_owned());
    let refused = r#"echo noise >&2; echo '{"Compile":"too odd"}' >&2; exit 3"#;
    let cases = [
        ("kill -9 $$", broke(killed)),
        ("kill -11 $$", broke("it was ended by signal 11")),
        ("echo dying >&2; exit 7", broke("it ended with exit code 7")),
        (refused, LoadError::Compile("too odd".into())),
        ("exit 3", broke("it ended with exit code 3")),
        ("kill -6 $$", broke("it was ended by signal 6")),
        (
            "echo 'memory allocation of 96 bytes failed' >&2; kill -6 $$",
            LoadError::CompileMemory((1 << 30) + 80 * large().len() as u64),
        ),
        ("exit 0", broke("its artefact cannot be used: it is cut short or has grown")),
        ("cat", broke("its artefact cannot be used: it is not sealed")),
    ];
    let limit = Duration::from_secs(60);
    for (script, want) in cases {
        let engine = scripted(folder.path(), script, limit);
        assert_eq!(engine.load(large().as_bytes(), WAT).err(), Some(want), "{script}");
        assert_eq!(counts(&engine, Compile::Optimized), [0, 0, 0, 1]);
        engine.load(Guest::default().text().as_bytes(), WAT).expect("small files need no process");
    }
}

/// Sixty loops around the uses of a thousand variables: 10 KB that take Cranelift seconds.
#[test]
fn a_small_file_with_much_work_in_it_is_compiled_in_a_process_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = scripted(folder.path(), "exit 7", Duration::from_secs(60));
    let uses: String = (0..1000).map(|n| format!("local.get {n} drop ")).collect();
    let loops = |count: usize| {
        let extra = format!(
            "(func (local {}) {} {uses} {})",
            "i32 ".repeat(1000),
            "loop ".repeat(count),
            "end ".repeat(count)
        );
        engine.load(Guest { extra, ..Guest::default() }.text().as_bytes(), WAT).err()
    };
    assert_eq!(loops(20), None);
    assert_eq!(loops(60), Some(LoadError::CompilerBroke("it ended with exit code 7".into())));
}

#[test]
fn a_compiler_process_that_takes_too_long_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", pid.display());
    let limit = Duration::from_millis(300);
    let engine = scripted(folder.path(), &script, limit);
    let error = engine.load(large().as_bytes(), WAT).expect_err("too long");
    assert_eq!(error, LoadError::CompileTimeout(limit));
    let said = "compiling it took more than 0.3 s (host.compile_timeout) and was ended; save the file again, or touch it, \
                to have it tried again";
    assert_eq!(error.to_string(), said);
    let pid = fs::read_to_string(pid).expect("it ran");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it is gone, and was waited for");
}

#[test]
fn a_result_that_is_no_longer_wanted_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = scripted(folder.path(), "exec sleep 600", Duration::from_secs(600));
    let asked = AtomicU32::new(0);
    let wanted = || asked.fetch_add(1, Ordering::Relaxed) < 3;
    let text = large();
    let error =
        engine.load_while(&HashedBytes::new(text.as_bytes()), WAT, None, &wanted).expect_err("abandoned");
    assert_eq!((error, asked.into_inner()), (LoadError::Abandoned, 4));
    assert_eq!(counts(&engine, Compile::Optimized), [0; 4], "that is no failure");
}

/// Descriptors of this process that every child of it gets, since whoever started it left them so.
fn passed_on() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fdinfo").expect("proc");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a number"));
    names
        .filter(|name| {
            let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(name)).unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            flags.is_some_and(|flags| {
                i64::from_str_radix(flags.trim(), 8).unwrap_or_default() & 0o2_000_000 == 0
            })
        })
        .collect()
}

/// What is known of a process: its environment, its folder, and its descriptors with what they lead to.
fn look_at(process: &Path) -> (String, PathBuf, Vec<(String, PathBuf)>) {
    let descriptors = fs::read_dir(process.join("fd")).expect("ours");
    let descriptors = descriptors.map(|one| one.expect("an entry")).map(|one| {
        (one.file_name().into_string().expect("a number"), fs::read_link(one.path()).expect("a link"))
    });
    let mut descriptors: Vec<_> = descriptors.collect();
    descriptors.sort();
    let environment = fs::read_to_string(process.join("environ")).expect("ours");
    let by_the_shell =
        |line: &&str| ["PWD=", "OLDPWD=", "_=", "SHLVL="].iter().any(|own| line.starts_with(own));
    let environment = environment.split_terminator('\0').filter(|line| !by_the_shell(line)).collect();
    (environment, fs::read_link(process.join("cwd")).expect("a link"), descriptors)
}

#[test]
fn a_compiler_process_inherits_nothing_of_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = folder.path().join("started");
    let script = format!("echo $$ $* > {}; exec sleep 600", started.display());
    let ours = fs::File::create(folder.path().join("not-for-the-child")).expect("a descriptor");
    let engine = scripted(folder.path(), &script, Duration::from_secs(60));
    let seen = Mutex::new(None);
    let wanted = || {
        let said = fs::read_to_string(&started).unwrap_or_default();
        let Some((pid, arguments)) = said.trim_end().split_once(' ') else { return true };
        let process = Path::new("/proc").join(pid);
        // The shell has descriptors of its own until it is something else, and so has that until it is loaded and sleeps.
        if fs::read_to_string(process.join("stat")).is_ok_and(|stat| stat.contains(" (sleep) S ")) {
            *seen.lock().expect("one thread") = Some((arguments.to_owned(), look_at(&process)));
        }
        seen.lock().expect("one thread").is_none()
    };
    let text = large();
    let ended =
        engine.load_while(&HashedBytes::new(text.as_bytes()), WAT, None, &wanted).expect_err("abandoned");
    drop(ours);
    assert_eq!(ended, LoadError::Abandoned);
    let (arguments, (environment, at, mut descriptors)) =
        seen.into_inner().expect("one thread").expect("it ran");
    assert_eq!(arguments, format!("optimized {}", std::process::id()));
    assert_eq!((environment.as_str(), at.as_path()), ("", Path::new("/")));
    let passed_on = passed_on();
    descriptors.retain(|(number, _)| matches!(&**number, "0" | "1" | "2") || !passed_on.contains(number));
    let want = [("0", "hark-wasm"), ("1", "hark-artefact"), ("2", "hark-messages")];
    let want = want.map(|(number, name)| (number.to_owned(), format!("/memfd:{name} (deleted)").into()));
    assert_eq!(descriptors, want);
}

#[tokio::test]
async fn without_a_process_to_start_large_files_are_compiled_here() {
    let process = CompilerProcess {
        program: "/nonexistent/compiler".into(),
        arguments: Vec::new(),
        smallest: 0,
        timeout: Duration::from_secs(60),
    };
    let engine = Engine::with(EngineOptions { process: Some(process), ..EngineOptions::default() })
        .expect("an engine");
    works(&engine.load(large().as_bytes(), WAT).expect("a plugin")).await;
}
