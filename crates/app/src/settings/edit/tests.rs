//! Edits of settings files.

use super::*;

fn edited(text: &str, key: &str, value: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    if !text.is_empty() {
        fs::write(&path, text).unwrap();
    }
    set(&path, key, value).map_err(|failure| failure.message)?;
    Ok(fs::read_to_string(&path).unwrap())
}

#[test]
fn a_value_is_set_and_everything_else_stays() {
    let file = "# mine\nmodel = \"a/b\" # keep\n\n[permissions]\n# why\nallow = [\n  \"ls\",\n]\n";
    let table = [
        ("", "mode", "plan", "mode = \"plan\"\n"),
        ("", "max_turns", "7", "max_turns = 7\n"),
        ("", "retry.budget_ms", "5", "[retry]\nbudget_ms = 5\n"),
        (
            file,
            "model",
            "openai/gpt-5",
            "# mine\nmodel = \"openai/gpt-5\" # keep\n\n[permissions]\n# why\nallow = [\n  \"ls\",\n]\n",
        ),
        (
            file,
            "permissions.allow",
            "[]",
            "# mine\nmodel = \"a/b\" # keep\n\n[permissions]\n# why\nallow = []\n",
        ),
        (
            file,
            "permissions.deny",
            "[\"web_fetch\"]",
            "# mine\nmodel = \"a/b\" # keep\n\n[permissions]\ndeny = [\"web_fetch\"]\n# why\nallow = [\n  \"ls\",\n]\n",
        ),
        (
            file,
            "mode",
            "ask",
            "# mine\nmodel = \"a/b\" # keep\n\nmode = \"ask\"\n[permissions]\n# why\nallow = [\n  \"ls\",\n]\n",
        ),
        (
            "model = \"x\"",
            "providers.box.wire",
            "openai-chat",
            "model = \"x\"\n\n[providers.box]\nwire = \"openai-chat\"\n",
        ),
    ];
    for (text, key, value, expected) in table {
        assert_eq!(edited(text, key, value).as_deref(), Ok(expected), "{key} = {value}");
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
