//! A table of answers of checks.

use super::*;

fn ran(stdout: &str) -> Ran {
    Ran { status: ExitStatus::Code(0), stdout: stdout.as_bytes().to_vec(), stderr: Vec::new() }
}

#[test]
fn findings_are_read() {
    let text = r#"{"findings": [
        {"ruleId": "r1", "severity": "error", "message": "m", "path": "a", "line": 3,
         "blocking": true},
        {"ruleId": "r2", "severity": "info", "message": "n", "blocking": false}
    ]}"#;
    let finding = |rule: &str, severity: &str, message: &str, blocking| Finding {
        rule_id: rule.to_owned(),
        severity: severity.to_owned(),
        message: message.to_owned(),
        path: None,
        line: None,
        blocking,
    };
    let first =
        Finding { path: Some("a".to_owned()), line: Some(3), ..finding("r1", "error", "m", true) };
    assert_eq!(findings(&ran(text)), Ok(vec![first, finding("r2", "info", "n", false)]));
    assert_eq!(findings(&ran("{\"findings\": []}\n")), Ok(Vec::new()));
}

#[test]
fn an_answer_in_another_form_is_a_failure() {
    let many = |count| {
        let one = r#"{"ruleId":"r","severity":"s","message":"m","blocking":false}"#;
        format!(r#"{{"findings":[{}]}}"#, vec![one; count].join(","))
    };
    let table = [
        (String::new(), "answered with nothing; expected {\"findings\": […]}"),
        (" \n".to_owned(), "answered with nothing"),
        ("all good".to_owned(), "answered in another form: expected value at line 1"),
        ("[]".to_owned(), "answered in another form: "),
        ("{}".to_owned(), "answered in another form: missing field `findings`"),
        (r#"{"findings": [], "x": 1}"#.to_owned(), "answered in another form: unknown field `x`"),
        (
            r#"{"findings": [{"ruleId":"r","severity":"s","message":"m"}]}"#.to_owned(),
            "answered in another form: missing field `blocking`",
        ),
        (
            r#"{"findings": [{"ruleId":"r","severity":"s","message":"m","bloking":true}]}"#
                .to_owned(),
            "answered in another form: unknown field `bloking`",
        ),
        (many(201), "answered with 201 findings, more than 200"),
    ];
    for (text, start) in table {
        let error = findings(&ran(&text)).unwrap_err();
        assert!(error.starts_with(start), "{text:.60}: expected '{start}', got '{error}'");
    }
    assert_eq!(findings(&ran(&many(200))).map(|list| list.len()), Ok(200));
    for (status, start) in [
        (ExitStatus::Code(2), "ended with exit code 2: x"),
        (ExitStatus::Signal(6), "was ended by signal 6: x"),
    ] {
        let ran = Ran { status, stderr: b"x".to_vec(), ..ran("{\"findings\": []}") };
        assert_eq!(findings(&ran), Err(start.to_owned()));
    }
}
