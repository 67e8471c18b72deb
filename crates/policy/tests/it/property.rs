//! Properties that hold for all rules, layers and commands.

use std::path::Path;

use policy::{Call, Decision, Layer, LayerName, Policy, Rule, risk};
use proptest::prelude::*;
use protocol::{Effect, Mode};

use crate::{CWD, HOME, PathUse};

/// Pieces from which commands are made: ordinary words and everything that has a meaning.
const PIECES: [&str; 44] = [
    "echo",
    "touch",
    "git",
    "push",
    "M",
    "a",
    " ",
    " ",
    " ",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    "'",
    "\"",
    "\\",
    "$",
    "$(",
    "`",
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    "<<",
    ">&1",
    "2>&1",
    ">/dev/null",
    "*",
    "?",
    "[",
    "]",
    "#",
    "!",
    "=",
    "X=1 ",
    "if ",
    "then ",
    "bash -c ",
    "env ",
    "\u{a0}",
];

fn command() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..16).prop_map(|it| it.concat())
}

/// Ways to join an allowed command, A, with one that is not.
const JOINS: [&str; 22] = [
    "A; touch M",
    "A && touch M",
    "A || touch M",
    "A | touch M",
    "A & touch M",
    "A\ntouch M",
    "A |& touch M",
    "touch M; A",
    "touch M && A",
    "touch M | A",
    "touch M & A",
    "touch M\nA",
    "(touch M); A",
    "{ touch M; }; A",
    "! touch M; A",
    "if touch M; then A\nfi",
    "while touch M; do A\ndone",
    "for i in $(touch M); do A\ndone",
    "f() { touch M; }; A",
    "echo $(touch M) | A",
    "echo <(touch M); A",
    "env touch M; A",
];

/// What may stand inside a word without changing it.
const SPLITS: [&str; 5] = ["''", "\"\"", "\\", "\\\n", "''\"\"''"];

/// Commands of plain words.
fn plain() -> impl Strategy<Value = String> {
    let words = vec![
        "echo", "touch", "git", "push", "status", "alpha", "env", "bash", "nice", "sudo", "beta",
    ];
    let joins = vec![" ", " ", " ", "; ", " && ", " | "];
    let piece = (prop::sample::select(words), prop::sample::select(joins));
    prop::collection::vec(piece, 1..8).prop_map(|pieces| {
        pieces.into_iter().map(|(word, join)| format!("{word}{join}")).collect::<String>() + "end"
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let texts = [
        "*",
        "run_shell",
        "run_shell(*)",
        "run_shell(echo *)",
        "run_shell(touch *)",
        "run_shell(git push *)",
        "run_shell(*a*)",
        "write_file",
        "write_file(src/**)",
        "write_file(**)",
        "edit_file(src/x)",
        "read_file(/etc/**)",
        "read_file(~/x)",
        "read_file",
        "web_fetch(domain:a.b)",
        "mcp__s",
        "mcp__s__t",
        "todos",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| text.parse().unwrap())
}

fn name() -> impl Strategy<Value = LayerName> {
    prop::sample::select(vec![
        LayerName::Managed,
        LayerName::System,
        LayerName::User,
        LayerName::Project,
        LayerName::Session,
        LayerName::Flags,
    ])
}

fn layer() -> impl Strategy<Value = Layer> {
    let rules = || prop::collection::vec(rule(), 0..3);
    let mode = prop::option::weighted(0.1, mode());
    (name(), rules(), rules(), rules(), any::<bool>(), mode).prop_map(
        |(name, allow, ask, deny, disable_full_auto, locked_mode)| Layer {
            allow,
            ask,
            deny,
            disable_full_auto,
            locked_mode,
            ..Layer::new(name)
        },
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::collection::vec(layer(), 0..4).prop_map(crate::policy)
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(Mode::ALL.to_vec())
}

fn effect() -> impl Strategy<Value = Effect> {
    prop::sample::select(vec![
        Effect::Read,
        Effect::Interact,
        Effect::Write,
        Effect::Execute,
        Effect::Network,
        Effect::Destructive,
    ])
}

/// A call that owns what it is about.
#[derive(Clone, Debug)]
struct Owned {
    tool: &'static str,
    effect: Effect,
    command: Option<String>,
    path: Option<(&'static str, bool)>,
}

impl Owned {
    fn with<T>(&self, use_it: impl FnOnce(&Call<'_>) -> T) -> T {
        let paths: Vec<PathUse<'_>> =
            self.path.iter().map(|(real, is_write)| crate::path(real, *is_write)).collect();
        use_it(&Call {
            tool: self.tool,
            effect: self.effect,
            command: self.command.as_deref(),
            host: None,
            paths: &paths,
            cwd: Path::new(CWD),
            homes: Some(Path::new(HOME)).into(),
        })
    }
}

fn calls() -> impl Strategy<Value = Owned> {
    let paths =
        prop::sample::select(vec!["/srv/app/src/x", "/srv/app/y", "/etc/hosts", "/home/me/x"]);
    let file = (
        prop::sample::select(vec!["write_file", "edit_file", "apply_patch", "read_file", "grep"]),
        paths,
    )
        .prop_map(|(tool, real)| {
            let is_write = !matches!(tool, "read_file" | "grep");
            let effect = if is_write { Effect::Write } else { Effect::Read };
            Owned { tool, effect, command: None, path: Some((real, is_write)) }
        });
    let shell = command().prop_map(|command| Owned {
        tool: "run_shell",
        effect: Effect::Execute,
        command: Some(command),
        path: None,
    });
    let plain = prop::sample::select(vec![
        ("web_fetch", Effect::Network),
        ("mcp__s__t", Effect::Write),
        ("mcp__s__u", Effect::Destructive),
        ("todos", Effect::Read),
        ("exit_plan", Effect::Interact),
    ])
    .prop_map(|(tool, effect)| Owned { tool, effect, command: None, path: None });
    prop_oneof![file, shell, plain]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_layer_that_grants_nothing_never_widens(
        policy in policies(), layer in layer(), mode in mode(), call in calls()
    ) {
        let is_granting = !layer.name.is_governing();
        let layer = if is_granting { Layer { allow: Vec::new(), ..layer } } else { layer };
        call.with(|call| {
            let before = policy.judge(mode, call).decision;
            let after = policy.tighten(layer).judge(mode, call).decision;
            prop_assert!(after >= before, "{before:?} became {after:?}");
            Ok(())
        })?;
    }

    #[test]
    fn a_granting_layer_lifts_no_denial_and_no_question_of_a_governing_layer(
        policy in policies(), layer in layer(), mode in mode(), call in calls()
    ) {
        call.with(|call| {
            let before = policy.judge(mode, call);
            let after = policy.tighten(layer).judge(mode, call);
            if before.decision == Decision::Deny {
                prop_assert_eq!(after.decision, Decision::Deny);
            }
            if before.decision == Decision::Ask && before.by == protocol::event::DeniedBy::Policy {
                prop_assert!(after.decision >= Decision::Ask);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_deny_rule_for_the_tool_wins_wherever_it_stands(
        policy in policies(), name in name(), mode in mode(), call in calls()
    ) {
        let layer = Layer { deny: vec![call.tool.parse().unwrap()], ..Layer::new(name) };
        call.with(|call| {
            prop_assert_eq!(policy.tighten(layer).judge(mode, call).decision, Decision::Deny);
            Ok(())
        })?;
    }

    #[test]
    fn the_order_of_layers_makes_no_difference(
        a in layer(), b in layer(), mode in mode(), call in calls()
    ) {
        let one = Policy::default().tighten(a.clone()).tighten(b.clone());
        let other = Policy::default().tighten(b).tighten(a);
        call.with(|call| {
            let decisions = (one.judge(mode, call).decision, other.judge(mode, call).decision);
            prop_assert_eq!(decisions.0, decisions.1);
            Ok(())
        })?;
    }

    #[test]
    fn an_effect_that_is_asked_for_never_runs_and_lifts_nothing(
        policy in policies(), mode in mode(), call in calls(),
        effects in prop::collection::vec(effect(), 0..4)
    ) {
        let asking = policy.clone().asking_for(&effects);
        call.with(|call| {
            let before = policy.judge(mode, call).decision;
            let after = asking.judge(mode, call).decision;
            let is_asked = effects.contains(&call.effect) && call.effect != Effect::Interact;
            match before {
                Decision::Allow if is_asked => prop_assert_eq!(after, Decision::Ask),
                Decision::Allow => prop_assert!(after <= Decision::Ask),
                other => prop_assert_eq!(after, other),
            }
            prop_assert_eq!(asking.explain(mode, call).decision, after);
            Ok(())
        })?;
    }

    #[test]
    fn a_wider_mode_is_never_stricter(policy in policies(), call in calls()) {
        call.with(|call| {
            let verdicts = Mode::ALL.map(|mode| policy.judge(mode, call).decision);
            prop_assert!(verdicts.is_sorted_by(|a, b| a >= b), "{verdicts:?}");
            Ok(())
        })?;
    }

    #[test]
    fn what_is_allowed_stops_being_so_when_another_command_follows(text in command()) {
        let policy = crate::policy([crate::allow(LayerName::Flags, &["run_shell(echo *)"])]);
        let judge = |text: &str| policy.judge(Mode::Ask, &crate::shell(text)).decision;
        if judge(&text) == Decision::Allow {
            let longer = format!("{text}\ntouch M");
            prop_assert_eq!(judge(&longer), Decision::Ask, "{:?}", longer);
        }
    }

    #[test]
    fn what_is_allowed_stops_being_so_when_it_is_joined_with_another_command(
        text in command(), join in prop::sample::select(&JOINS[..])
    ) {
        let policy = crate::policy([crate::allow(LayerName::Flags, &["run_shell(echo *)"])]);
        let judge = |text: &str| policy.judge(Mode::Ask, &crate::shell(text)).decision;
        // In a comment or a here-document it would be no command.
        let swallows = text.contains(['#', '\\']) || text.contains("<<");
        if !swallows && judge(&text) == Decision::Allow {
            let joined = join.replace("A", &text);
            prop_assert!(judge(&joined) >= Decision::Ask, "{:?}", joined);
        }
    }

    #[test]
    fn splitting_a_word_by_quotes_lifts_no_question_and_no_denial(
        text in plain(),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(&SPLITS[..])
    ) {
        let places: Vec<usize> = text
            .char_indices()
            .filter(|(at, c)| *at > 0 && c.is_ascii_alphabetic())
            .filter(|(at, _)| text[..*at].ends_with(|c: char| c.is_ascii_alphabetic()))
            .map(|(at, _)| at)
            .collect();
        prop_assume!(!places.is_empty());
        let at = places[at.index(places.len())];
        let split = format!("{}{with}{}", &text[..at], &text[at..]);
        for layer in [
            crate::allow(LayerName::Flags, &["run_shell(echo *)", "run_shell(git status *)"]),
            crate::deny(LayerName::Flags, &["run_shell(touch *)", "run_shell(git push *)"]),
        ] {
            for mode in [Mode::Ask, Mode::FullAuto] {
                let judge = |text: &str| {
                    crate::policy([layer.clone()]).judge(mode, &crate::shell(text)).decision
                };
                let (before, after) = (judge(&text), judge(&split));
                prop_assert!(
                    before == Decision::Allow || after != Decision::Allow,
                    "{:?} {:?}, {:?} {:?}", text, before, split, after
                );
                if before == Decision::Deny {
                    prop_assert_eq!(after, Decision::Deny, "{:?}", split);
                }
            }
        }
    }

    #[test]
    fn what_stands_in_single_quotes_has_no_meaning(text in command()) {
        let policy = crate::policy([crate::allow(LayerName::Flags, &["run_shell(echo *)"])]);
        let quoted = format!("echo '{}'", text.replace(['\'', '\u{a0}'], ""));
        let verdict = policy.judge(Mode::Ask, &crate::shell(&quoted));
        prop_assert_eq!(verdict.decision, Decision::Allow, "{:?} {}", quoted, verdict.reason);
    }

    #[test]
    fn suggestions_allow_what_they_are_made_for(call in calls()) {
        call.with(|call| {
            let rules = Policy::default().suggest(call);
            let decide = |rules: &[&str]| {
                let policy = crate::policy([crate::allow(LayerName::Session, rules)]);
                policy.judge(Mode::Ask, call).decision
            };
            let all: Vec<&str> = rules.iter().map(String::as_str).collect();
            let alone = all.iter().filter(|rule| decide(&[rule]) == Decision::Allow).count();
            // Each by itself, or one for each command of a line and all together.
            prop_assert!(alone == all.len() || alone == 0, "{:?}", rules);
            prop_assert!(all.is_empty() || decide(&all) == Decision::Allow, "{:?}", rules);
            Ok(())
        })?;
    }

    #[test]
    fn a_rule_that_is_shown_is_read_back_the_same(text in rule_text()) {
        if let Ok(rule) = text.parse::<Rule>() {
            let shown = rule.to_string();
            prop_assert_eq!(shown.parse::<Rule>(), Ok(rule), "{}", shown);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), made in command()) {
        for text in [text, made] {
            let call = crate::shell(&text);
            let deny = crate::deny(LayerName::User, &["run_shell(touch *)"]);
            let verdict = crate::policy([deny]).judge(Mode::FullAuto, &call);
            prop_assert!(!verdict.reason.is_empty());
            drop((text.parse::<Rule>(), risk(&call)));
        }
    }
}

fn rule_text() -> impl Strategy<Value = String> {
    let tools = prop::sample::select(vec![
        "run_shell",
        "bash",
        "write_file",
        "read_file",
        "web_fetch",
        "mcp__a__b",
        "*",
        "todos",
        "x-y",
    ]);
    let pattern = prop::string::string_regex(r"[a-z*\\/~. ():\[\]'-]{0,24}").unwrap();
    (tools, prop::option::of(pattern)).prop_map(|(tool, pattern)| match pattern {
        Some(pattern) => format!("{tool}({pattern})"),
        None => tool.to_owned(),
    })
}
