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
