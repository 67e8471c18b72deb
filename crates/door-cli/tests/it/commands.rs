//! Commands without a turn.

use protocol::event::PromptStarted;
use protocol::{Block, EventKind, FrameId, MessageId, PromptId, Seq, Timestamp};
use runtime_api::LogRow;
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::stand::*;

fn stored() -> FakeRuntime {
    FakeRuntime::new()
        .session(session_info("01kc3v9yq8", "/src/app"))
        .session(session_info("01kc4other", "/elsewhere"))
        .rows(vec![LogRow {
            seq: Seq(1),
            frame: FrameId(1),
            at: Timestamp(1_796_000_000_000),
            kind: EventKind::Notice,
            body: "{\"level\":\"info\",\"message\":\"hi\"}".to_owned(),
        }])
}

#[test]
fn lists_are_for_people_and_for_programs() {
    let mut shown = String::new();
    for args in [
        &["sessions", "list"][..],
        &["sessions", "list", "--all"],
        &["sessions", "list", "--output-format", "json"],
        &["sessions", "show", "01kc3v9yq8"],
        &["sessions", "show", "01kc3v9yq8", "--output-format", "json"],
        &["sessions", "export", "01kc3v9yq8"],
        &["sessions", "export", "01kc3v9yq8", "--format", "json"],
        &["sessions", "fork", "01kc3v9yq8", "--until", "3"],
        &["config", "show"],
        &["config", "show", "--output-format", "json"],
        &["config", "path"],
        &["config", "set", "model", "a/b"],
        &["doctor"],
        &["doctor", "--json"],
        &["doctor", "--trust-project"],
    ] {
        let outcome = Stand::new(stored()).run(args);
        shown.push_str(&format!(
            "$ narthex {}\nexit {}\n{}{}\n",
            args.join(" "),
            outcome.code,
            outcome.out,
            outcome.err
        ));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_long_session_is_shown_whole() {
    let row = |seq: u64| {
        let started = PromptStarted {
            prompt_id: PromptId::new(format!("p{seq}")),
            message_id: MessageId::new(format!("m{seq}")),
            content: vec![Block::text(format!("prompt number {seq}."))],
            max_turns: None,
            command: None,
            options: Default::default(),
        };
        LogRow {
            seq: Seq(seq),
            frame: FrameId(seq),
            at: Timestamp(1_796_000_000_000),
            kind: EventKind::PromptStarted,
            body: serde_json::to_string(&started).unwrap(),
        }
    };
    let stored = || {
        FakeRuntime::new()
            .session(session_info("01kc3v9yq8", "/src/app"))
            .rows((1..=1_500).map(row).collect())
    };
    for args in [
        &["sessions", "show", "01kc3v9yq8"][..],
        &["sessions", "show", "01kc3v9yq8", "--output-format", "json"],
        &["sessions", "export", "01kc3v9yq8", "--format", "md"],
    ] {
        let outcome = Stand::new(stored()).run(args);
        assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.err);
        for part in ["prompt number 1.", "prompt number 1500."] {
            assert!(outcome.out.contains(part), "{args:?} lacks {part:?}");
        }
    }
}

#[test]
fn an_export_tells_the_usage_of_its_rows() {
    let row = |seq: u64| LogRow {
        seq: Seq(seq),
        frame: FrameId(seq),
        at: Timestamp(1_796_000_000_000),
        kind: EventKind::Usage,
        body: "{\"inputTokens\":100,\"outputTokens\":7,\"cacheReadTokens\":0,\
               \"cacheWriteTokens\":3}"
            .to_owned(),
    };
    for args in [
        &["sessions", "export", "01kc3v9yq8"][..],
        &["sessions", "export", "01kc3v9yq8", "--format", "json"],
        &["sessions", "show", "01kc3v9yq8", "--output-format", "json"],
    ] {
        let runtime = FakeRuntime::new().session(session_info("01kc3v9yq8", "/src/app"));
        let outcome = Stand::new(runtime.rows(vec![row(1), row(2)])).run(args);
        let header = outcome.out.lines().next().unwrap();
        let header: serde_json::Value = serde_json::from_str(header).unwrap();
        let facts = header.get("session").unwrap_or(&header);
        assert_eq!(facts["usage"]["inputTokens"], 200, "{args:?}: {}", outcome.out);
        assert_eq!(facts["usage"]["cacheWriteTokens"], 6, "{args:?}: {}", outcome.out);
    }
}

#[test]
fn a_transcript_shows_the_numbers_to_fork_at() {
    let started = PromptStarted {
        prompt_id: PromptId::new("p1"),
        message_id: MessageId::new("m1"),
        content: vec![Block::text("hello")],
        max_turns: None,
        command: None,
        options: Default::default(),
    };
    let row = LogRow {
        seq: Seq(42),
        frame: FrameId(42),
        at: Timestamp(1_796_000_000_000),
        kind: EventKind::PromptStarted,
        body: serde_json::to_string(&started).unwrap(),
    };
    let runtime = FakeRuntime::new().session(session_info("01kc3v9yq8", "/src/app"));
    let outcome = Stand::new(runtime.rows(vec![row])).run(&["sessions", "show", "01kc3v9yq8"]);
    assert!(outcome.out.contains("## User (event 42)"), "{}", outcome.out);
}

#[test]
fn a_damaged_row_is_named() {
    let row = LogRow {
        seq: Seq(7),
        frame: FrameId(7),
        at: Timestamp(1_796_000_000_000),
        kind: EventKind::AssistantMessage,
        body: "{}".to_owned(),
    };
    let runtime = FakeRuntime::new().session(session_info("01kc3v9yq8", "/src/app"));
    let outcome = Stand::new(runtime.rows(vec![row])).run(&["sessions", "show", "01kc3v9yq8"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(outcome.err.contains("damaged at event 7"), "{}", outcome.err);
}

#[test]
fn what_was_rewound_is_marked() {
    let row = |seq: u64, kind, body: String| LogRow {
        seq: Seq(seq),
        frame: FrameId(seq),
        at: Timestamp(1_796_000_000_000),
        kind,
        body,
    };
    let prompt = |seq: u64| {
        let started = PromptStarted {
            prompt_id: PromptId::new(format!("p{seq}")),
            message_id: MessageId::new(format!("m{seq}")),
            content: vec![Block::text(format!("prompt {seq}"))],
            max_turns: None,
            command: None,
            options: Default::default(),
        };
        row(seq, EventKind::PromptStarted, serde_json::to_string(&started).unwrap())
    };
    let rewound = row(
        3,
        EventKind::Rewound,
        r#"{"checkpointId":"c1","scope":"both","from":2,"filesChanged":[],"messagesRemoved":1}"#
            .to_owned(),
    );
    let runtime = || {
        let info = session_info("01kc3v9yq8", "/src/app");
        FakeRuntime::new().session(info).rows(vec![
            prompt(1),
            prompt(2),
            rewound.clone(),
            prompt(4),
        ])
    };
    let outcome = Stand::new(runtime()).run(&["sessions", "show", "01kc3v9yq8"]);
    for head in ["## User (event 1)\n", "## User (event 2) (rewound)\n", "## User (event 4)\n"] {
        assert!(outcome.out.contains(head), "{head}: {outcome:?}");
    }
    let args = ["sessions", "show", "01kc3v9yq8", "--output-format", "json"];
    let shown: serde_json::Value =
        serde_json::from_str(&Stand::new(runtime()).run(&args).out).unwrap();
    assert_eq!(shown["messages"][1]["isRewound"], true, "{shown}");
    assert!(shown["messages"][0]["isRewound"].is_null(), "{shown}");
}

#[test]
fn a_session_of_another_folder_is_shown_from_anywhere() {
    for args in [
        &["sessions", "show", "01kc4other"][..],
        &["sessions", "export", "01kc4other"],
        &["sessions", "fork", "01kc4other"],
    ] {
        let outcome = Stand::new(stored()).run(args);
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
    }
}

#[test]
fn an_export_can_be_imported() {
    let exported = Stand::new(stored()).run(&["sessions", "export", "01kc4other"]).out;
    let outcome = Stand::new(FakeRuntime::new()).input(&exported).run(&["sessions", "import", "-"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "imported\n"));
    let imported = outcome.runtime.calls().into_iter().find_map(|call| match call {
        Call::Import(session) => {
            let info = session.info;
            Some((info.id.to_string(), info.cwd, session.rows.len()))
        }
        _ => None,
    });
    let here = "/src/app".to_owned();
    assert_eq!(imported, Some(("01kc4other".to_owned(), here, 1)), "it works in this folder");
    assert!(outcome.err.contains("imported into /src/app · mode ask"), "{}", outcome.err);
}

#[test]
fn a_file_that_is_no_session_is_wrong_usage() {
    let outcome = Stand::new(FakeRuntime::new()).input("hello").run(&["sessions", "import", "-"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
    assert!(outcome.err.contains("no header of an exported session"), "{}", outcome.err);
}

#[test]
fn only_whole_ids_are_erased() {
    let outcome = Stand::new(stored()).run(&["sessions", "rm", "01kc3v"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("rm needs the whole id"), "{}", outcome.err);
    let outcome = Stand::new(stored()).run(&["sessions", "rm", "01kc3v9yq8"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn a_key_comes_from_standard_input_and_is_never_shown() {
    let outcome =
        Stand::new(FakeRuntime::new()).input("sk-very-secret\n").run(&["login", "anthropic"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{outcome:?}");
    assert!(!outcome.err.contains("sk-very-secret"), "{}", outcome.err);
    for input in ["", "two words\n"] {
        let outcome = Stand::new(FakeRuntime::new()).input(input).run(&["login", "anthropic"]);
        assert_eq!(outcome.code, 2, "{outcome:?}");
    }
}

#[test]
fn scripts_and_pages_come_from_the_grammar() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = Stand::new(FakeRuntime::new()).run(&["completions", shell]);
        assert!(outcome.out.contains("narthex"), "{shell}");
        assert!(outcome.out.contains("sessions"), "{shell}");
    }
    let page = Stand::new(FakeRuntime::new()).run(&["man"]).out;
    assert!(page.starts_with(".ie") && page.contains("EXAMPLES") || page.contains("Examples"));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let outcome = Stand::new(FakeRuntime::new()).run(&["man", "--out", &out]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for page in ["narthex.1", "narthex-run.1", "narthex-sessions-export.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
    assert!(!folder.path().join("narthex-internal-schema.1").exists());
}
