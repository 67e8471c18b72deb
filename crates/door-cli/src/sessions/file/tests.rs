//! Files of sessions: there and back without a changed byte.

use super::*;

fn session() -> ExportedSession {
    let info = testkit::fake_handle::session_info("01kc3v9yq8f2m0x4c7b1n5tzwe", "/src/app");
    // What a file holds is open nowhere.
    let info = SessionInfo { is_open: false, ..info };
    let row = |seq: u64, kind, body: &str| LogRow {
        seq: Seq(seq),
        frame: FrameId(seq * 3),
        at: Timestamp(1_796_000_000_000),
        kind,
        body: body.to_owned(),
    };
    let rows = vec![
        row(
            1,
            EventKind::SessionStart,
            r#"{"cwd":"/src/app","model":"m","mode":"ask","tools":[]}"#,
        ),
        // Order, spaces and escapes of a body are the log's own and must come back as they were.
        row(2, EventKind::Notice, r#"{ "message":"a\u00e9","level":"info" }"#),
    ];
    ExportedSession { info, rows }
}

#[test]
fn both_forms_come_back_as_they_were() {
    let session = session();
    for text in [to_lines(&session).unwrap(), to_object(&session).unwrap()] {
        let back = from_text(&text).unwrap();
        assert_eq!(back.info, session.info);
        assert_eq!(back.rows, session.rows);
    }
}

#[test]
fn the_lines_are_a_stored_form() {
    insta::assert_snapshot!(to_lines(&session()).unwrap());
}

#[test]
fn a_wrong_file_says_what_is_wrong() {
    let lines = to_lines(&session()).unwrap();
    let header = lines.lines().next().unwrap();
    let table = [
        (String::new(), "empty"),
        ("hello".to_owned(), "line 1 is no header"),
        (header.replace("narthex_session", "other"), "type is 'other'"),
        (header.replace("\"version\":1", "\"version\":9"), "version 9 is unknown"),
        (format!("{header}\n{{}}\n"), "line 2: missing field"),
        (lines.replace("\"kind\":\"notice\"", "\"kind\":\"rocket\""), "line 3: unknown kind"),
    ];
    for (text, part) in table {
        let problem = from_text(&text).unwrap_err();
        assert!(problem.contains(part), "{problem:?} should contain {part:?}");
    }
}
