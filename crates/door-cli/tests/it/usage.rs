//! `narthex usage`.

use protocol::{SessionId, Timestamp, Usage};
use runtime_api::{SessionInfo, Spent};
use testkit::fake_handle::{FakeRuntime, session_info};

use crate::stand::*;

const NOW: Timestamp = Timestamp(1_796_000_600_000);
const DAY_MS: i64 = 24 * 3_600_000;

fn spent(session: &str, days_ago: i64, model: Option<&str>, cost_usd: Option<f64>) -> Spent {
    Spent {
        session: SessionId::new(session),
        at: NOW.plus_ms(-days_ago * DAY_MS),
        model: model.map(str::to_owned),
        usage: Usage {
            input_tokens: 1_200,
            output_tokens: 340,
            cache_read_tokens: 20_000,
            cache_write_tokens: 300,
            ..Usage::default()
        },
        cost_usd,
    }
}

fn runtime() -> FakeRuntime {
    let sonnet = Some("anthropic/claude-sonnet-4-6");
    let titled = |id: &str, cwd: &str, title: &str| SessionInfo {
        title: Some(title.to_owned()),
        ..session_info(id, cwd)
    };
    FakeRuntime::new()
        .session(titled("01a", "/src/app", "the parser"))
        .session(titled("01b", "/src/\u{1b}[2Jother", "the \u{1b}[2J docs"))
        .spent(vec![
            spent("01a", 20, sonnet, Some(9.0)),
            spent("01a", 3, sonnet, Some(0.25)),
            spent("01b", 3, Some("ollama/qwen"), None),
            spent("01gone", 0, sonnet, Some(1.5)),
            spent("01a", 0, None, None),
        ])
}

#[test]
fn usage_is_added_up_by_what_is_asked_for() {
    let mut shown = String::new();
    for args in [
        &["usage"][..],
        &["usage", "--by", "model"],
        &["usage", "--by", "session"],
        &["usage", "--by", "folder", "--since", "30d"],
        &["usage", "--since", "today", "--json"],
    ] {
        let Outcome { code, out, err, .. } = Stand::new(runtime()).run(args);
        shown.push_str(&format!("$ narthex {}\nexit {code}\n{err}{out}\n", args.join(" ")));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn nothing_used_is_said_and_a_wrong_date_is_wrong_usage() {
    let outcome = Stand::new(FakeRuntime::new()).run(&["usage"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.err.contains("nothing was used since 2026-11-24"), "{}", outcome.err);
    let outcome = Stand::new(runtime()).run(&["usage", "--since", "yesterday"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
}
