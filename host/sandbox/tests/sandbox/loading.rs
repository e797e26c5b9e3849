//! What is a plugin, and what is said of what is not.

use hark_sandbox::{ContentHash, Limits, LoadError, LoadOptions, StartReason};
use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::stateful::Lives;
use crate::support::{Guest, Host, context, engine, load};

fn binary(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("right text")
}

fn load_binary(bytes: &[u8]) -> Result<hark_sandbox::Plugin, LoadError> {
    engine().load(bytes, LoadOptions::default())
}

/// A module with a world of its own in it: ours, and more.
pub(crate) fn in_world(text: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_path("../../wit").expect("our contract");
    let package = resolve.push_str("test.wit", world).expect("a world");
    let world = resolve.select_world(&[package], Some("test:guest/test")).expect("the world");
    let mut module = binary(text);
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("embeds");
    module
}

fn component(module: &[u8]) -> Vec<u8> {
    let encoder = wit_component::ComponentEncoder::default().module(module).expect("a module");
    encoder.validate(true).encode().expect("a component")
}

const PLUGIN: &str = "package test:guest; world test { include hark:plugin/plugin@0.1.0; }";

#[tokio::test]
async fn a_plugin_may_be_a_bare_module_a_typed_module_or_a_component() {
    let text = Guest::default().text();
    let typed = in_world(&text, PLUGIN);
    for bytes in [binary(&text), typed.clone(), component(&typed)] {
        let plugin = load_binary(&bytes).expect("a plugin");
        assert_eq!(plugin.hash(), &ContentHash::of(&bytes));
        assert_eq!(plugin.size(), bytes.len());
        plugin.describe(&context(Limits::default()).0).await.expect("a description");
        assert_eq!(Host::new(plugin).add().await, hark_informer::handler::Outcome::Ok);
    }
}

#[test]
fn text_is_taken_where_it_is_allowed() {
    let text = Guest::default().text();
    assert!(load(&text).is_ok());
    assert_eq!(load_binary(text.as_bytes()).err(), Some(LoadError::TextNotAllowed));
    assert!(matches!(load("(module (nonsense))"), Err(LoadError::Wat(_))));
}

#[test]
fn files_that_are_no_wasm_are_named() {
    assert_eq!(load_binary(b"").err(), Some(LoadError::Empty));
    assert_eq!(load_binary(b"hello").err(), Some(LoadError::NotWasm("plain text")));
    assert_eq!(load_binary(b"\x7fELF\x02\x01\x01\0").err(), Some(LoadError::Precompiled));
}

#[test]
fn half_a_file_is_never_a_plugin_and_never_a_panic() {
    let module = binary(&Guest::default().text());
    let component = component(&in_world(&Guest::default().text(), PLUGIN));
    for whole in [module, component] {
        for end in (0..whole.len()).step_by(41) {
            assert!(load_binary(&whole[..end]).is_err(), "{end} of {}", whole.len());
        }
    }
}

#[test]
fn a_file_with_a_flipped_byte_is_never_a_panic() {
    let whole = binary(&Guest::default().text());
    for at in (8..whole.len()).step_by(17) {
        let mut broken = whole.clone();
        broken[at] ^= 0x55;
        // Some flips only change data, and load.
        assert_ne!(load_binary(&broken).err(), Some(LoadError::Panicked), "byte {at}");
    }
}

#[test]
fn an_invalid_module_is_refused() {
    let mut module = binary("(module (func (result i32) (i32.const 1)))");
    // A drop in place of the constant leaves nothing to return.
    let at = module.windows(2).position(|code| code == [0x41, 0x01]).expect("the constant");
    module[at] = 0x1a;
    assert!(matches!(load_binary(&module), Err(LoadError::Invalid(_))));
}

#[test]
fn a_module_that_is_no_plugin_is_told_what_it_lacks() {
    let error = load(r#"(module (func (export "_start")))"#).expect_err("a program");
    let LoadError::NoCoreHandler { missing } = &error else { panic!("{error}") };
    assert_eq!(missing.len(), 4);
    assert!(error.to_string().contains("`hark:plugin/handler@0.1.0#on-add`"), "{error}");

    let text = Guest::default().text().replace("#on-delete", "#on-remove");
    let error = load(&text).expect_err("lacks one");
    let missing = vec!["`hark:plugin/handler@0.1.0#on-delete`".to_owned()];
    assert_eq!(error, LoadError::NoCoreHandler { missing });
}

#[test]
fn a_module_with_other_types_is_refused() {
    let text = Guest::default().text().replace("(param $initial i32)", "(param $initial i64)");
    let error = load(&text).expect_err("another type");
    assert!(matches!(&error, LoadError::Componentize(why) if why.contains("on-add")), "{error}");
}

#[test]
fn all_foreign_imports_of_a_module_are_told() {
    let imports = r#"(import "env" "abort" (func)) (import "wasi_unstable" "fd_write" (func))"#;
    let guest = Guest { imports: imports.into(), ..Guest::default() };
    let want = vec!["env.abort".to_owned(), "wasi_unstable.fd_write".to_owned()];
    assert_eq!(load(&guest.text()).err(), Some(LoadError::UnmetImports(want)));
}

#[test]
fn all_unmet_imports_of_a_component_are_told() {
    let world = "package test:guest;
        interface a { f: func(); g: func(); }
        interface types { record only { types: u32 } }
        world test {
            include hark:plugin/plugin@0.1.0;
            import a;
            import types;
            import bare: func();
        }";
    let imports = r#"(import "test:guest/a" "f" (func)) (import "$root" "bare" (func))
        (import "hark:plugin/log@0.1.0" "log" (func (param i32 i32 i32)))"#;
    let text = Guest { imports: imports.into(), ..Guest::default() }.text();
    let error = load_binary(&component(&in_world(&text, world))).expect_err("unmet");
    let LoadError::UnmetImports(mut names) = error else { panic!("{error}") };
    names.sort();
    assert_eq!(names, ["bare", "test:guest/a"]);
}

#[test]
fn an_import_of_another_type_is_refused() {
    let world = "package test:guest;
        world test { include hark:plugin/plugin@0.1.0; }";
    let text = Guest {
        imports: r#"(import "hark:plugin/log@0.1.0" "log" (func (param i32 i32 i32)))"#.into(),
        ..Guest::default()
    }
    .text();
    // The same world but for a level that takes the place of another.
    let mut module = in_world(&text, world);
    let at = module.windows(5).position(|name| name == b"debug").expect("the level's name");
    module[at..at + 5].copy_from_slice(b"fatal");
    let error = load_binary(&component(&module)).expect_err("another type");
    assert!(matches!(&error, LoadError::ImportType(why) if why.contains("hark:plugin/log@0.1.0")), "{error}");
}

#[test]
fn a_component_that_is_no_plugin_is_told_what_it_exports() {
    let error = load(
        r#"(component (component $c) (instance $i (instantiate $c)) (export "a:b/c@1.0.0" (instance $i)))"#,
    )
    .expect_err("no plugin");
    assert_eq!(error, LoadError::NoHandler { exports: vec!["a:b/c@1.0.0".into()] });
    let wanted = "it must export `hark:plugin/handler@0.1.0`, and exports a:b/c@1.0.0";
    assert!(error.to_string().contains(wanted), "{error}");
    assert_eq!(load("(component)").err(), Some(LoadError::NoHandler { exports: vec![] }));
}

#[test]
fn a_handler_of_another_shape_is_told_what_differs() {
    let error = load(
        r#"(component
            (core module $m (func (export "f")))
            (core instance $m (instantiate $m))
            (func $f (canon lift (core func $m "f")))
            (component $c (import "f" (func $f)) (export "describe" (func $f)) (export "on-add" (func $f)))
            (instance $i (instantiate $c (with "f" (func $f))))
            (export "hark:plugin/handler@0.1.0" (instance $i)))"#,
    )
    .expect_err("another shape");
    let LoadError::ExportType(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems[1].starts_with("`on-add`: "), "{problems:?}");
    assert_eq!(problems[2], "`on-update` is missing");
}

const STATEFUL: &str = "package test:guest; world test { include hark:plugin/stateful-plugin@0.1.0; }";

#[tokio::test]
async fn a_plugin_with_a_lifecycle_may_be_a_bare_module_a_typed_module_or_a_component() {
    let text = Lives::default().guest().text();
    let typed = in_world(&text, STATEFUL);
    for bytes in [binary(&text), typed.clone(), component(&typed)] {
        let plugin = load_binary(&bytes).expect("a plugin");
        assert!(plugin.has_lifecycle());
        let host = Host::started(plugin, Limits::default(), StartReason::Reload).await.expect("it starts");
        assert_eq!(host.said().0, ["start 1"]);
    }
    let without = in_world(&text, PLUGIN);
    assert!(!load_binary(&without).expect("a plugin").has_lifecycle(), "its own world comes first");
}

#[test]
fn a_module_with_a_part_of_the_lifecycle_is_told_what_it_lacks() {
    let text = Lives::default().guest().text();
    let lacks = |renamed: &str, missing: &[&str]| {
        let missing = missing.iter().map(|name| format!("`hark:plugin/lifecycle@0.1.0#{name}`")).collect();
        assert_eq!(load(renamed).err(), Some(LoadError::PartialLifecycle { missing }));
    };
    lacks(&text.replace("lifecycle@0.1.0#save", "lifecycle@0.1.0#store"), &["save"]);
    let two = text.replace("lifecycle@0.1.0#stop", "stop").replace("lifecycle@0.1.0#synced", "synced");
    lacks(&two, &["stop", "synced"]);
    let says = "exports some functions of `hark:plugin/lifecycle@0.1.0`, but not `hark:plugin/lifecycle@0.1.0#stop`, ";
    let error = load(&two).expect_err("a part").to_string();
    assert!(error.contains(says), "{error}");
    assert!(!load(&text.replace("lifecycle@0.1.0#", "other@0.1.0#")).expect("a plugin").has_lifecycle());
}

#[test]
fn a_module_whose_lifecycle_has_other_types_is_refused() {
    let synced = "lifecycle@0.1.0#synced\") (param $n i32)";
    let text = Lives::default().guest().text();
    assert!(text.contains(synced));
    let other = text.replace(synced, "lifecycle@0.1.0#synced\") (param $n i32) (param i64)");
    let error = load(&other).expect_err("another type");
    assert!(matches!(&error, LoadError::Componentize(why) if why.contains("synced")), "{error}");
}

/// A component for the contract with this text in place of `lifecycle.wit`.
fn in_another_contract(text: &str, lifecycle: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir("../../wit").expect("our contract") {
        let file = file.expect("an entry");
        std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
    }
    std::fs::write(folder.path().join("lifecycle.wit"), lifecycle).expect("another text");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(folder.path()).expect("another contract");
    let world = resolve.select_world(&[package], Some("stateful-plugin")).expect("the world");
    let mut module = binary(text);
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("embeds");
    component(&module)
}

#[test]
fn a_component_whose_lifecycle_has_another_shape_is_told_what_differs() {
    let lifecycle = "interface lifecycle {
        start: func(reason: u32) -> result<_, string>;
        stop: func();
        save: func() -> result<option<list<u8>>, string>;
        synced: func(subscription: u32);
    }";
    let text = Lives::default().guest().text();
    let text = text.replace("#stop\") (param $n i32)", "#stop\") (local $n i32)");
    let text = text.replace("hark:plugin/lifecycle@0.1.0#restore", "restore");
    let error = load_binary(&in_another_contract(&text, lifecycle)).expect_err("another shape");
    let LoadError::LifecycleType(problems) = &error else { panic!("{error}") };
    let begins = ["`start`: ", "`stop`: ", "`save`: ", "`restore` is missing"];
    assert_eq!(problems.len(), begins.len(), "{problems:?}");
    for (problem, begin) in problems.iter().zip(begins) {
        assert!(problem.starts_with(begin), "{problems:?}");
    }
    assert!(
        error.to_string().starts_with("it exports `hark:plugin/lifecycle@0.1.0` with other types"),
        "{error}"
    );
}

#[test]
fn a_component_that_exports_something_else_by_that_name_is_refused() {
    let lifecycle = "interface lifecycle { type count = u32; }";
    let text = Lives::default().guest().text().replace("hark:plugin/lifecycle@0.1.0#", "");
    let error = load_binary(&in_another_contract(&text, lifecycle)).expect_err("no functions");
    let LoadError::LifecycleType(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 5, "{problems:?}");
}

#[test]
fn more_exports_than_the_world_has_are_ignored() {
    let world = "package test:guest;
        world test { include hark:plugin/plugin@0.1.0; export init: func(); }";
    let text = Guest { extra: r#"(func (export "init"))"#.into(), ..Guest::default() }.text();
    assert!(load_binary(&in_world(&text, world)).is_ok());
}

/// A module with our own world in it, as wit-bindgen leaves it.
fn in_our_world(text: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path("../../wit").expect("our contract");
    let world = resolve.select_world(&[package], Some("plugin")).expect("the world");
    let mut module = binary(text);
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("embeds");
    module
}

/// The encoder would go round for ever, and take the host with it.
#[test]
fn a_world_whose_packages_need_each_other_is_refused() {
    let mut module = in_our_world(&Guest::default().text());
    assert!(load_binary(&module).is_ok());
    // One letter: the handler is another package's now, which uses types of ours, as our world uses the handler.
    let name = b"hark:plugin/handler@0.1.0";
    let at = module.windows(name.len()).rposition(|found| found == name).expect("the export's name");
    module[at + 8] = b'w';
    let why =
        "the packages of its world need each other in a circle: `hark:plugin@0.1.0`, `hark:pluwin@0.1.0`";
    assert_eq!(load_binary(&module).err(), Some(LoadError::Componentize(why.into())));
}

/// The decoder goes round in this circle before the encoder does.
#[test]
fn packages_whose_types_need_each_other_are_refused() {
    let world = "package test:guest;
        package a:x { interface one { record t { n: u8 } } }
        package b:y { interface two { use a:x/one.{t}; type u = t; } }
        package c:z { interface three { use b:y/two.{u}; f: func(a: u); } }
        world test { include hark:plugin/plugin@0.1.0; import c:z/three; }";
    let imports = r#"(import "c:z/three" "f" (func (param i32)))"#;
    let right = in_world(&Guest { imports: imports.into(), ..Guest::default() }.text(), world);
    let unmet = vec!["c:z/three".to_owned()];
    assert_eq!(load_binary(&right).err(), Some(LoadError::UnmetImports(unmet)));
    // The third is the first's package now.
    let mut module = right;
    for at in 0..module.len() {
        if module[at..].starts_with(b"c:z/three") {
            module[at..at + 3].copy_from_slice(b"a:x");
        }
    }
    let why = "the packages of its world need each other in a circle: `a:x`, `b:y`, `test:guest`";
    assert_eq!(load_binary(&module).err(), Some(LoadError::Componentize(why.into())));
}

/// wit-parser panics at such a world.
#[test]
fn a_world_that_the_encoder_breaks_at_is_the_files_trouble() {
    let world = "package test:guest;
        interface lists { record holder { held: list<u8> } type named = list<u8>; }
        world test { include hark:plugin/plugin@0.1.0; import lists; }";
    let mut module = in_world(&Guest::default().text(), world);
    assert!(load_binary(&module).is_ok());
    // `named` is the record's own list now, which has no name.
    let export = b"\x04\0\x05named\x03\0";
    let at = module.windows(export.len()).position(|found| found == export).expect("the export");
    module[at + export.len()] = 0;
    let error = load_binary(&module).expect_err("broken");
    assert!(
        matches!(&error, LoadError::Componentize(why) if why.starts_with("the world in it is broken: ")),
        "{error}"
    );
}

/// So many that the encoder would run out of stack, and take the host with it.
#[test]
fn a_world_with_endless_names_for_a_type_is_refused() {
    let with = |names: usize| {
        let names: String = (1..names).map(|n| format!("type t{n} = t{};", n - 1)).collect();
        let world = format!(
            "package test:guest;
            interface named {{ record t0 {{ a: u8 }} {names} }}
            world test {{ include hark:plugin/plugin@0.1.0; import named; }}"
        );
        load_binary(&in_world(&Guest::default().text(), &world))
    };
    assert!(with(900).is_ok());
    let why = "the types of its world are more than 1000 levels deep";
    assert_eq!(with(20_000).err(), Some(LoadError::Componentize(why.into())));
}

/// The encoder looks at each as often as there are others.
#[test]
fn a_module_with_thousands_of_imports_from_wasip1_is_refused() {
    let import = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#;
    let guest = Guest { imports: import.repeat(1001), ..Guest::default() };
    let why = "it imports 1001 functions of wasip1, more than 1000";
    assert_eq!(load(&guest.text()).err(), Some(LoadError::Componentize(why.into())));
}

/// So many that the encoder would be at it for minutes.
#[test]
fn a_world_with_thousands_of_exports_is_refused() {
    let functions: String = (0..2000).map(|n| format!("call{n}: func();")).collect();
    let world = format!(
        "package test:guest;
        interface calls {{ {functions} }}
        world test {{ include hark:plugin/plugin@0.1.0; export calls; }}"
    );
    let error = load_binary(&in_world(&Guest::default().text(), &world)).err();
    let why = "its world exports 2004 functions, more than 2000";
    assert_eq!(error, Some(LoadError::Componentize(why.into())));
}

#[test]
fn what_is_not_supported_is_told_from_what_is_not_valid() {
    let throws = "(tag $t) (func throw $t)";
    let gc = "(type $s (struct (field i32))) (func (result (ref $s)) (struct.new $s (i32.const 1)))";
    for module in [throws, gc] {
        for text in [format!("(module {module})"), format!("(component (core module {module}))")] {
            let error = load(&text).expect_err("not supported");
            assert!(matches!(error, LoadError::Unsupported(_)), "{text}: {error:?}");
            let message = error.to_string();
            assert!(
                message.starts_with("it uses a WebAssembly proposal that this host does not support ("),
                "{message}"
            );
        }
    }
    let wrong = "(func (result i32) i64.const 1)";
    let error = load(&format!("(module {wrong})")).expect_err("not valid");
    assert!(matches!(error, LoadError::Invalid(_)), "{error:?}");
    let error = load(&format!("(component (core module {wrong}))")).expect_err("not valid");
    assert!(matches!(error, LoadError::Compile(_)), "{error:?}");
}
