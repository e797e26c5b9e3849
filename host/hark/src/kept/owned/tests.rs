//! Real files with real modes, links, pipes, and other owners where the machine lets us give files away.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// A user that nobody runs tests as.
const SOMEBODY: u32 = 54_321;

/// A folder of 0700 with a file `a` of 0600 in it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    std::fs::write(&path, "ours").expect("written");
    set_mode(&path, 0o600);
    set_mode(folder.path(), 0o700);
    (folder, path)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
}

fn said(path: &Path) -> String {
    match file(path) {
        Ok(mut file) => {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("readable");
            text
        }
        Err(error) => error.to_string(),
    }
}

/// Whether files can be given away here; says so if not.
fn gives_away(path: &Path) -> bool {
    let given = chown(path, Some(SOMEBODY), None);
    if let Err(error) = &given {
        use std::io::Write;
        // Output that cannot be written is nobody's loss.
        let _ = writeln!(io::stdout(), "NOT PLAYED: files of another user: {error}");
    }
    given.is_ok()
}

#[test]
fn only_what_nobody_else_may_write_to_is_read() {
    let (folder, path) = folder();
    for (of_folder, of_file, ours) in [
        (0o700, 0o600, true),
        (0o755, 0o644, true),
        (0o700, 0o620, false),
        (0o700, 0o602, false),
        (0o700, 0o666, false),
        (0o770, 0o600, false),
        (0o1777, 0o600, false),
    ] {
        set_mode(folder.path(), of_folder);
        set_mode(&path, of_file);
        let (bad, mode) =
            if of_folder & OTHERS_WRITE != 0 { (folder.path(), of_folder) } else { (&*path, of_file) };
        let want = if ours {
            "ours".to_owned()
        } else {
            let bad = bad.display();
            format!(
                "others than its owner may write to {bad} (mode {mode:04o}): remove it, or chmod go-w it if what it has is yours"
            )
        };
        assert_eq!(said(&path), want, "{of_folder:o} {of_file:o}");
    }
}

#[test]
fn what_is_another_users_is_named_with_its_owner() {
    let (folder, path) = folder();
    if !gives_away(&path) {
        return;
    }
    let foreign = |path: &Path| {
        format!(
            "{} belongs to user {SOMEBODY}, not to the user that Hark runs as: remove it, or chown it if what it has is yours",
            path.display()
        )
    };
    assert_eq!(said(&path), foreign(&path));
    let us = rustix::process::geteuid().as_raw();
    chown(&path, Some(us), None).expect("ours again");
    assert_eq!(said(&path), "ours");
    chown(folder.path(), Some(SOMEBODY), None).expect("given away");
    set_mode(folder.path(), 0o777);
    assert_eq!(said(&path), foreign(folder.path()));
    assert_eq!(close(folder.path()).expect_err("not ours").to_string(), foreign(folder.path()));
    assert_eq!(folder.path().metadata().expect("there").permissions().mode() & 0o7777, 0o777, "left alone");
}

#[test]
fn no_link_is_followed_and_nothing_but_a_file_is_read() {
    let (folder, path) = folder();
    let at = |name: &str| folder.path().join(name);
    symlink(&path, at("link")).expect("a link");
    std::fs::create_dir(at("folder")).expect("a folder");
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    let elsewhere = tempfile::tempdir().expect("a folder");
    symlink(folder.path(), elsewhere.path().join("kept")).expect("a link");
    let through = elsewhere.path().join("kept");
    for (path, bad, ends) in [
        (
            at("link"),
            at("link"),
            " is a symbolic link, which is refused: remove it, or put what it points to in its place",
        ),
        (at("folder"), at("folder"), " is no regular file: remove it"),
        (at("pipe"), at("pipe"), " is no regular file: remove it"),
        (
            through.join("a"),
            through.clone(),
            " is a symbolic link, which is refused: remove it, or put what it points to in its place",
        ),
    ] {
        assert_eq!(said(&path), format!("{}{ends}", bad.display()));
    }
    assert!(file(&at("absent")).expect_err("nothing").is_absent());
    assert!(file(&at("absent").join("a")).expect_err("nothing").is_absent());
    assert!(matches!(close(&through), Err(Untrusted::Link { .. })));
}

#[test]
fn a_folder_of_ours_that_is_open_is_closed() {
    let (folder, path) = folder();
    let mode = || folder.path().metadata().expect("there").permissions().mode() & 0o7777;
    for (before, after) in [(0o777, 0o700), (0o720, 0o700), (0o755, 0o755), (0o700, 0o700)] {
        set_mode(folder.path(), before);
        close(folder.path()).expect("ours");
        assert_eq!(mode(), after, "{before:o}");
        assert_eq!(said(&path), "ours");
    }
    assert!(close(&folder.path().join("absent")).expect_err("nothing").is_absent());
}
