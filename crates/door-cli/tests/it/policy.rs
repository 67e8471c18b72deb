//! `narthex policy` in front of a machine that says what a test wrote.

use std::path::{Path, PathBuf};

use door_cli::{
    ExplainedCall, ExplainedPart, ExplainedRule, Failure, Globals, NewKey, PolicyInForce,
    PolicyLayer, PolicyMachine, PolicyWord, SignedBundle, VerifiedBundle,
};
use serde_json::json;
use testkit::fake_handle::FakeRuntime;

use crate::stand::{FakeMachine, Outcome, Stand};

impl PolicyMachine for FakeMachine {
    async fn explain(&self, globals: &Globals, call: &str) -> Result<ExplainedCall, Failure> {
        if call == "wrong(" {
            return Err(Failure::usage("the call has no bracket at its end"));
        }
        let rule = |layer: &str, word, decides, note: &str| ExplainedRule {
            layer: layer.to_owned(),
            word,
            rule: format!("run_shell({layer} *)"),
            decides,
            note: note.to_owned(),
        };
        let part = |text: &str, word, rules| ExplainedPart {
            kind: "command".to_owned(),
            text: text.to_owned(),
            word,
            reason: "for a reason".to_owned(),
            rules,
        };
        let layer = |name: &str, has_say, says: &str, source: &str| PolicyLayer {
            name: name.to_owned(),
            has_say,
            says: says.to_owned(),
            source: source.to_owned(),
        };
        let denying = vec![
            rule("managed", PolicyWord::Deny, true, ""),
            rule("remote", PolicyWord::Ask, false, "perhaps: an argument is not known"),
            rule("user", PolicyWord::Allow, false, ""),
        ];
        Ok(ExplainedCall {
            call: call.to_owned(),
            word: PolicyWord::Deny,
            reason: "denied by a rule".to_owned(),
            mode: format!("{} mode", globals.mode.unwrap_or_default()),
            mode_word: PolicyWord::Ask,
            mode_reason: "ask mode asks before commands".to_owned(),
            parts: vec![
                part("git status", PolicyWord::Ask, Vec::new()),
                part("git push \u{1b}[2J", PolicyWord::Deny, denying),
            ],
            layers: vec![
                layer("managed", true, "2 rules, 1 speaks of it", "/etc/managed.json"),
                layer("remote", false, "none", ""),
            ],
            voters: vec!["hooks at PreToolUse also vote".to_owned()],
            notices: vec!["something odd".to_owned()],
            json: json!({"decision": "deny"}),
        })
    }

    async fn policy(&self, _: &Globals) -> Result<PolicyInForce, Failure> {
        let layers = vec![
            PolicyLayer {
                name: "managed".to_owned(),
                has_say: true,
                says: "2 deny, disables full-auto".to_owned(),
                source: "/etc/managed.json".to_owned(),
            },
            PolicyLayer {
                name: "remote".to_owned(),
                has_say: false,
                says: "none".to_owned(),
                source: "no remotePolicyUrl".to_owned(),
            },
        ];
        let facts = vec![("mode".to_owned(), "ask (built in)".to_owned())];
        Ok(PolicyInForce { layers, facts, notices: Vec::new(), json: json!({"layers": []}) })
    }

    fn make_key(&self, _: &Globals, out: &Path) -> Result<NewKey, Failure> {
        Ok(NewKey { public: "MCow".to_owned(), id: "0123".to_owned(), path: out.to_owned() })
    }

    fn sign(
        &self,
        _: &Globals,
        _: &Path,
        _: &Path,
        out: Option<&Path>,
    ) -> Result<SignedBundle, Failure> {
        let (text, written) = ("{\"signed\": true}\n".to_owned(), out.map(PathBuf::from));
        Ok(SignedBundle { text, written, notices: Vec::new() })
    }

    fn verify(&self, _: &Globals, file: &Path, _: &[String]) -> Result<VerifiedBundle, Failure> {
        let refusal = file.ends_with("bad.json").then(|| ("stale".to_owned(), "old".to_owned()));
        let facts = vec![("bundle".to_owned(), "acme version 3".to_owned())];
        let json = json!({ "valid": refusal.is_none() });
        Ok(VerifiedBundle { refusal, facts, json })
    }
}

fn run(args: &[&str]) -> Outcome {
    Stand::new(FakeRuntime::default()).run(&[&["policy"], args].concat())
}

#[test]
fn explanations_and_layers_are_for_people_and_for_programs() {
    let explained = run(&["explain", "run_shell(git status && git push)"]);
    assert_eq!((explained.code, explained.err.trim()), (0, "warning: something odd"));
    let shown = run(&["show"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let texts = format!("{}\n---\n{}", explained.out, shown.out);
    insta::assert_snapshot!(texts);
    let json = run(&["explain", "x(y)", "--json"]);
    assert_eq!((json.code, json.out.as_str()), (0, "{\"decision\":\"deny\"}\n"));
    assert_eq!(run(&["show", "--json"]).out, "{\"layers\":[]}\n");
    assert_eq!(run(&["explain", "wrong("]).code, 2);
}

#[test]
fn a_refused_bundle_is_no_success() {
    let good = run(&["verify", "good.json"]);
    assert_eq!((good.code, good.out.as_str()), (0, "valid\n  bundle  acme version 3\n"));
    let bad = run(&["verify", "bad.json"]);
    assert_eq!(
        (bad.code, bad.out.as_str()),
        (1, "refused  stale: old\n  bundle  acme version 3\n")
    );
    let json = run(&["verify", "bad.json", "--json"]);
    assert_eq!((json.code, json.out.as_str()), (1, "{\"valid\":false}\n"));
}

#[test]
fn data_and_words_have_their_own_streams() {
    let made = run(&["keygen", "--out", "acme.pem"]);
    assert_eq!((made.code, made.out.as_str()), (0, "MCow\n"));
    assert!(made.err.contains("wrote the private key to acme.pem"), "{}", made.err);
    let signed = run(&["sign", "bundle.json", "--key", "acme.pem"]);
    assert_eq!((signed.out.as_str(), signed.err.as_str()), ("{\"signed\": true}\n", ""));
    let written = run(&["sign", "bundle.json", "--key", "acme.pem", "--out", "policy.json"]);
    assert_eq!((written.out.as_str(), written.err.trim()), ("", "wrote policy.json"));
}
