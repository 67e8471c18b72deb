//! The strictest vote wins, whoever speaks first.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;

fn said(vote: Option<HookVote>, reason: &str) -> Said {
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    Said { vote, reason, ..Said::default() }
}

fn heard(origin: Origin, said: Result<Said, String>) -> Heard {
    // Each is another hook.
    static HOOKS: AtomicUsize = AtomicUsize::new(0);
    let hook = HOOKS.fetch_add(1, Ordering::Relaxed);
    Heard { origin, hook, name: format!("{origin:?}"), said }
}

fn before(list: Vec<Heard>) -> HookAnswer {
    tally(Moment::PreToolUse, list)
}

#[test]
fn the_strictest_vote_wins_in_any_order() {
    use HookVote::{Allow, Ask, Deny};
    let votes = [None, Some(Allow), Some(Ask), Some(Deny)];
    for a in votes {
        for b in votes {
            for c in votes {
                let list = [a, b, c].map(|vote| heard(Origin::User, Ok(said(vote, "r"))));
                assert_eq!(before(list.into()).vote, a.max(b).max(c), "{a:?} {b:?} {c:?}");
            }
        }
    }
    let answer = before(vec![
        heard(Origin::User, Ok(said(Some(Allow), "fine"))),
        heard(Origin::User, Ok(said(Some(Deny), "no"))),
        heard(Origin::User, Ok(said(Some(Ask), "hm"))),
        heard(Origin::User, Ok(said(Some(Deny), "never"))),
        heard(Origin::User, Ok(said(Some(Deny), "no"))),
    ]);
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(Deny), Some("no\nnever")));
    assert_eq!(before(Vec::new()), HookAnswer::default());
}

#[test]
fn an_allowance_counts_where_its_hook_gave_it_each_time() {
    use HookVote::{Allow, Ask, Deny};
    let votes = [None, Some(Allow), Some(Ask), Some(Deny)];
    for a in votes {
        for b in votes {
            let list = |hooks: [usize; 2]| {
                let list = [(hooks[0], a), (hooks[1], b)]
                    .map(|(hook, vote)| Heard { hook, ..heard(Origin::User, Ok(said(vote, "r"))) });
                before(list.into())
            };
            let strictest = a.max(b);
            let is_partial = strictest == Some(Allow) && a != b;
            let (same, two) = (list([7, 7]), list([7, 8]));
            assert_eq!(two.vote, strictest, "two hooks: {a:?} {b:?}");
            assert_eq!(same.vote, strictest.filter(|_| !is_partial), "one hook: {a:?} {b:?}");
            assert_eq!(same.reason.is_some(), same.vote.is_some(), "{a:?} {b:?}");
        }
    }
}

#[test]
fn a_failure_asks_before_a_call_and_is_told_elsewhere() {
    let failed = || heard(Origin::Managed, Err("took longer than 1 s".to_owned()));
    let text = "hook `Managed` took longer than 1 s".to_owned();
    for moment in Moment::ALL {
        let allow = heard(Origin::User, Ok(said(Some(HookVote::Allow), "")));
        let answer = tally(moment, vec![allow, failed()]);
        assert_eq!(answer.failures, [text.as_str()], "{moment:?}");
        if is_before_call(moment) {
            assert_eq!(answer.vote, Some(HookVote::Ask), "{moment:?}");
            assert_eq!(answer.reason.as_ref(), Some(&text), "{moment:?}");
        }
    }
    let deny = heard(Origin::User, Ok(said(Some(HookVote::Deny), "no")));
    let answer = before(vec![failed(), deny]);
    assert_eq!((answer.vote, answer.reason.as_deref()), (Some(HookVote::Deny), Some("no")));
    assert_eq!(tally(Moment::Stop, vec![failed()]).vote, None);
}

#[test]
fn a_project_tightens_and_never_loosens() {
    use HookVote::{Allow, Ask, Deny};
    for (origin, vote, expected) in [
        (Origin::Project, Allow, None),
        (Origin::Project, Ask, Some(Ask)),
        (Origin::Project, Deny, Some(Deny)),
        (Origin::User, Allow, Some(Allow)),
        (Origin::System, Allow, Some(Allow)),
        (Origin::Managed, Allow, Some(Allow)),
    ] {
        let answer = before(vec![heard(origin, Ok(said(Some(vote), "r")))]);
        assert_eq!(answer.vote, expected, "{origin:?} {vote:?}");
        assert_eq!(answer.reason.is_some(), expected.is_some(), "{origin:?} {vote:?}");
    }
    let input = json!({"command": "rm"}).as_object().cloned();
    let with_input = |origin| heard(origin, Ok(Said { input: input.clone(), ..Said::default() }));
    let answer = before(vec![with_input(Origin::Project)]);
    assert_eq!(answer.input, None);
    assert!(answer.notices[0].contains("may not"), "{answer:?}");
    assert_eq!(before(vec![with_input(Origin::User)]).input, input);
}

#[test]
fn arguments_are_changed_once() {
    let with = |value: Value| {
        let input = value.as_object().cloned();
        heard(Origin::User, Ok(Said { input, ..said(Some(HookVote::Allow), "") }))
    };
    let (a, b) = (json!({"command": "a"}), json!({"command": "b"}));
    let same = before(vec![with(a.clone()), with(a.clone())]);
    assert_eq!((same.vote, same.input), (Some(HookVote::Allow), a.as_object().cloned()));
    let torn = before(vec![with(a.clone()), with(b)]);
    assert_eq!((torn.vote, torn.input), (Some(HookVote::Ask), a.as_object().cloned()));
    assert_eq!(torn.failures.len(), 1);
    let denied = before(vec![with(a), heard(Origin::User, Ok(said(Some(HookVote::Deny), "no")))]);
    assert_eq!((denied.vote, denied.input), (Some(HookVote::Deny), None));
}

#[test]
fn words_have_an_order_and_a_limit() {
    let text = |letter: &str| letter.repeat(CONTEXT_CHARS_MAX);
    let list = ["a", "b", "c", "d", "e"].map(|letter| {
        let context = vec![text(letter)];
        heard(Origin::User, Ok(Said { context, stop: Some(letter.into()), ..Said::default() }))
    });
    let answer = tally(Moment::UserPromptSubmit, list.into());
    assert_eq!(answer.context, ["a", "b", "c", "d"].map(text));
    assert_eq!(answer.notices.len(), 1);
    assert_eq!(answer.stop.as_deref(), Some("a"));
}
