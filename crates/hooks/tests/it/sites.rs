//! Where hooks run, and what they know of their project.

use driver_api::{Happening, HookVote};
use hooks::{CommandHooks, HookLayer, Origin};
use serde_json::json;

use crate::place::{Place, group, set, shell};

const WHERE: &str = "printf '%s|%s|%s' \"$PWD\" \"$CLAUDE_PROJECT_DIR\" \"$NARTHEX_PROJECT_DIR\"";

fn layer(place: &Place, origin: Origin, moment: &str, commands: &[&str]) -> HookLayer {
    let folder = (origin == Origin::Project).then(|| place.folder().to_owned());
    HookLayer { origin, set: set(&json!({moment: [group("", commands)]})), folder }
}

async fn heard(place: &Place, origin: Origin) -> Vec<String> {
    let hooks =
        CommandHooks::new(vec![layer(place, origin, "UserPromptSubmit", &[WHERE])]).unwrap();
    place.tell(&hooks, &Happening::UserPromptSubmit { prompt: "p".into() }).await.context
}

#[tokio::test]
async fn hooks_of_a_project_run_in_its_folder_wherever_the_session_works() {
    let place = Place::within("sub/deep");
    let top = place.folder().display();
    assert_eq!(heard(&place, Origin::Project).await, [format!("{top}|{top}|{top}")]);
}

#[tokio::test]
async fn other_hooks_run_in_the_working_folder_and_know_the_top() {
    let place = Place::within("sub/deep");
    let (top, cwd) = (place.folder().display(), place.cwd().display());
    // Outside of a repository there is no other top.
    assert_eq!(heard(&place, Origin::User).await, [format!("{cwd}|{cwd}|{cwd}")]);
    std::fs::create_dir(place.folder().join(".git")).unwrap();
    for origin in [Origin::Managed, Origin::System, Origin::User] {
        assert_eq!(heard(&place, origin).await, [format!("{cwd}|{top}|{top}")], "{origin:?}");
    }
    // A linked working tree has a file there, and the nearest top counts.
    std::fs::write(place.folder().join("sub/.git"), "gitdir: elsewhere\n").unwrap();
    assert_eq!(heard(&place, Origin::User).await, [format!("{cwd}|{top}/sub|{top}/sub")]);
}

#[tokio::test]
async fn the_guard_that_was_trusted_runs_and_no_other_of_its_name() {
    let place = Place::within("sub");
    place.script("guard.sh", "#!/bin/sh\necho 'not this one' >&2; exit 2\n");
    place.script("sub/guard.sh", "#!/bin/sh\ntouch ../wrong; exit 0\n");
    for command in ["./guard.sh", "\"$NARTHEX_PROJECT_DIR\"/guard.sh"] {
        let layers = vec![layer(&place, Origin::Project, "PreToolUse", &[command])];
        let answer = place.tell(&CommandHooks::new(layers).unwrap(), &shell("git push")).await;
        assert_eq!(answer.vote, Some(HookVote::Deny), "{command}: {answer:?}");
        assert_eq!(answer.reason.as_deref(), Some("not this one"));
    }
    assert!(!place.folder().join("wrong").exists());
}

#[tokio::test]
async fn the_same_command_runs_once_at_each_place() {
    let place = Place::within("sub");
    let commands = ["echo x >> \"$PWD\"/ran"];
    let layers = || {
        [Origin::User, Origin::Project, Origin::User]
            .map(|origin| layer(&place, origin, "PreToolUse", &commands))
    };
    place.tell(&CommandHooks::new(layers().to_vec()).unwrap(), &shell("x")).await;
    assert_eq!((place.read("ran").as_str(), place.read("sub/ran").as_str()), ("x\n", "x\n"));
}
