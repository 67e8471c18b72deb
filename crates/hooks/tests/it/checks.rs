//! Checks as real programs.

use std::time::Duration;

use driver_api::{Checks, PendingChange};
use hooks::CommandChecks;
use protocol::Finding;
use serde_json::{Value, json};

use crate::place::{PATIENCE, Place, alive, mark, wait_for};

fn change() -> PendingChange {
    PendingChange {
        tool: "write_file".to_owned(),
        input: json!({"path": "a.rs", "content": "x"}).as_object().cloned().unwrap(),
        paths: vec!["/w/a.rs".to_owned()],
        diff: Some("+x\n".to_owned()),
    }
}

fn check(script: &str, timeout: Duration) -> CommandChecks {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    CommandChecks { timeout, ..CommandChecks::new(command) }
}

async fn examine(place: &Place, check: &CommandChecks) -> Result<Vec<Finding>, String> {
    let change = change();
    let examined = check.examine(&change, &*place.workspace);
    let examined = tokio::time::timeout(PATIENCE, examined).await.unwrap();
    examined.map_err(|fault| fault.to_string())
}

#[tokio::test]
async fn a_check_is_told_of_the_change_and_answers_with_findings() {
    let place = Place::new();
    let script = r#"cat > told.json; echo '{"findings": [{"ruleId": "no-x", "severity": "error",
        "message": "x is not allowed", "path": "a.rs", "line": 1, "blocking": true}]}'"#;
    let found = examine(&place, &check(script, PATIENCE)).await.unwrap();
    let expected = Finding {
        rule_id: "no-x".to_owned(),
        severity: "error".to_owned(),
        message: "x is not allowed".to_owned(),
        path: Some("a.rs".to_owned()),
        line: Some(1),
        blocking: true,
    };
    assert_eq!(found, [expected]);
    let told: Value = serde_json::from_str(&place.read("told.json")).unwrap();
    let expected = json!({
        "toolName": "write_file", "input": {"path": "a.rs", "content": "x"},
        "paths": ["/w/a.rs"], "diff": "+x\n",
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_check_that_fails_is_a_fault_that_names_it() {
    let place = Place::new();
    let table = [
        ("echo 'no config' >&2; exit 3", "ended with exit code 3: no config"),
        ("kill -KILL $$", "was ended by signal 9"),
        ("exit 0", "answered with nothing"),
        ("echo fine", "answered in another form: "),
        ("yes", "wrote more than 1.0 MiB"),
    ];
    for (script, why) in table {
        let error = examine(&place, &check(script, PATIENCE)).await.unwrap_err();
        let start = format!("check `sh -c {script}` ");
        assert!(error.starts_with(&start) && error.contains(why), "{script}: {error}");
    }
    let missing = CommandChecks::new(vec!["no-such-check".to_owned()]);
    let error = examine(&place, &missing).await.unwrap_err();
    assert!(error.contains("`no-such-check` could not be started"), "{error}");
    let nameless = examine(&place, &CommandChecks::new(Vec::new())).await.unwrap_err();
    assert!(nameless.contains("names no program"), "{nameless}");
    let large = PendingChange { diff: Some("x".repeat(5 << 20)), ..change() };
    let refused = check("cat", PATIENCE).examine(&large, &*place.workspace).await;
    assert!(refused.unwrap_err().to_string().contains("cannot be told"));
}

#[tokio::test]
async fn a_check_that_takes_too_long_or_is_given_up_leaves_nothing() {
    let place = Place::new();
    let mark = mark(4);
    let script = format!("setsid sleep {mark}1 & sleep {mark}2");
    let slow = check(&script, Duration::from_millis(500));
    let error = examine(&place, &slow).await.unwrap_err();
    assert!(error.contains("took longer than"), "{error}");
    assert_eq!(alive(&mark), 0, "expected no survivor when the fault is reported");
    {
        let patient = check(&script, PATIENCE);
        let change = change();
        let mut examined = patient.examine(&change, &*place.workspace);
        tokio::select! {
            found = &mut examined => panic!("expected no answer, got {found:?}"),
            () = wait_for("a tree", || alive(&mark) == 2) => {}
        }
    }
    wait_for("no survivor", || alive(&mark) == 0).await;
}

#[tokio::test]
async fn a_check_of_a_project_runs_in_its_folder() {
    let place = Place::within("sub");
    place.script("which", "#!/bin/sh\necho '{\"findings\": []}'; echo top > ran\n");
    let command = CommandChecks::new(vec!["./which".to_owned()]);
    let error = examine(&place, &command).await.unwrap_err();
    assert!(error.contains("could not be started"), "{error}");
    let folder = Some(place.folder().to_owned());
    assert_eq!(examine(&place, &CommandChecks { folder, ..command }).await, Ok(Vec::new()));
    assert_eq!(place.read("ran"), "top\n");
}
