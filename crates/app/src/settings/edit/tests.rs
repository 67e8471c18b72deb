//! Edits of settings files.

use door_cli::Globals;

use super::super::{Settings, Want};
use super::*;
use crate::Environment;

fn edited(text: &str, key: &str, value: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    if !text.is_empty() {
        fs::write(&path, text).unwrap();
    }
    set(&path, key, value, |_| Ok(())).map_err(|failure| failure.message)?;
    Ok(fs::read_to_string(&path).unwrap())
}

#[test]
fn a_value_is_set_and_everything_else_stays() {
    let top = "# mine\nmodel = \"a/b\" # keep\n\n";
    let rules = "[permissions]\n# why\nallow = [\n  \"ls\",\n]\n";
    let file = &format!("{top}{rules}");
    let table = [
        ("", "mode", "plan", "mode = \"plan\"\n".to_owned()),
        ("", "max_turns", "7", "max_turns = 7\n".to_owned()),
        ("", "retry.budget_ms", "5", "[retry]\nbudget_ms = 5\n".to_owned()),
        (file, "model", "openai/gpt-5", file.replace("a/b", "openai/gpt-5")),
        (file, "permissions.allow", "[]", format!("{top}[permissions]\n# why\nallow = []\n")),
        (
            file,
            "permissions.deny",
            "[\"web_fetch\"]",
            file.replace("[permissions]\n", "[permissions]\ndeny = [\"web_fetch\"]\n"),
        ),
        (file, "mode", "ask", format!("{top}mode = \"ask\"\n{rules}")),
        (
            "model = \"x\"",
            "providers.box.wire",
            "openai-chat",
            "model = \"x\"\n\n[providers.box]\nwire = \"openai-chat\"\n".to_owned(),
        ),
    ];
    for (text, key, value, expected) in table {
        assert_eq!(edited(text, key, value), Ok(expected), "{key} = {value}");
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let table = [
        ("modle", "x", "did you mean 'model'"),
        ("mode", "reckless", "unknown variant `reckless`"),
        ("max_turns", "many", "max_turns"),
        ("permissions.alow", "[]", "did you mean 'allow'"),
        ("a..b", "1", "is no key"),
    ];
    for (key, value, part) in table {
        let problem = edited("model = \"a/b\"\n", key, value).unwrap_err();
        assert!(problem.contains(part), "{key}: {problem:?} should contain {part:?}");
    }
}

/// Sets a value in a house of its own as the program does, and returns what the file holds then.
fn set_in_a_house(text: &str, key: &str, value: &str) -> (Result<(), String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let path = home.join("config.toml");
    fs::write(&path, text).unwrap();
    let shown = home.display().to_string();
    let environment = Environment::new(folder.path(), &[("NARTHEX_HOME", &*shown)]);
    let globals = Globals::default();
    let want = Want { globals: &globals, environment: &environment };
    let done = set(&path, key, value, |text| Settings::check_user(want, text));
    let loads = Settings::load(want);
    assert!(loads.is_ok() || done.is_err() || !text.is_empty(), "{key} = {value} stops everything");
    (done.map_err(|failure| failure.message), fs::read_to_string(&path).unwrap())
}

#[test]
fn nothing_is_written_that_would_stop_every_command() {
    let table = [
        ("providers.other.base_url", "http://127.0.0.1:9/v1", "needs 'wire'"),
        ("permissions.deny", "[\"run_shell(\"]", "permissions.deny"),
        ("model", "", "model is empty"),
    ];
    for (key, value, part) in table {
        let (done, file) = set_in_a_house("", key, value);
        let problem = done.unwrap_err();
        assert!(problem.contains(part), "{key}: {problem:?} should contain {part:?}");
        assert_eq!(file, "", "{key}");
    }
}

#[test]
fn a_server_is_set_at_once_and_a_broken_file_can_be_mended() {
    let table = "{ wire = \"openai-chat\", base_url = \"http://127.0.0.1:9/v1\" }";
    let (done, file) = set_in_a_house("", "providers.other", table);
    assert_eq!(done, Ok(()), "{file}");
    let broken = "[providers.other]\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let (done, file) = set_in_a_house(broken, "providers.other.wire", "openai-chat");
    assert_eq!(done, Ok(()), "{file}");
    let (done, file) = set_in_a_house("model = \"\"\n", "model", "a/b");
    assert_eq!((done, file.as_str()), (Ok(()), "model = \"a/b\"\n"));
    let (done, file) = set_in_a_house(broken, "mode", "plan");
    assert_eq!(done, Ok(()), "what was wrong before is not this change's fault");
    assert!(file.contains("mode = \"plan\""), "{file}");
}
