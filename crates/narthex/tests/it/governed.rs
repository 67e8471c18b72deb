//! What governs the machine governs agents of a program that knows nothing of it.

use governance::bundle;
use narthex::protocol::event::{DeniedBy, Persist};
use narthex::protocol::{EventBody, Mode, RefusalCode};
use narthex::{Agent, AgentBuilder, Decision, Error, Layer, LayerName, Policy, Rule};
use serde_json::{Value, json};
use testkit::model_server::Answer;

use crate::stand::{Stand, soon};

/// A place where nobody answers.
const NOWHERE: &str = "http://127.0.0.1:9/policy.json";

fn touch(name: &str) -> Answer {
    Answer::call("run_shell", json!({"command": format!("touch {name}")}))
}

/// Describes an agent on a machine with these managed settings.
fn governed(stand: &Stand, settings: &Value) -> AgentBuilder {
    let file = stand.home().with_file_name("managed.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    stand.builder().managed_settings(file)
}

/// Lets the model touch a file, and returns who denied it.
async fn denials(stand: &Stand, agent: &Agent, name: &str) -> Vec<DeniedBy> {
    stand.server.push_all([touch(name), Answer::text("ok")]);
    let mut denied = Vec::new();
    let result = agent.prompt_with("Go", |event| {
        if let EventBody::ToolDenied(event) = &event.body {
            denied.push(event.by);
        }
    });
    soon("the end", result).await.unwrap();
    assert_eq!(stand.read(name).is_some(), denied.is_empty(), "{denied:?}");
    denied
}

/// Builds an agent, lets it touch a file, closes it, and returns who denied it.
async fn denied(stand: &Stand, builder: AgentBuilder, name: &str) -> Vec<DeniedBy> {
    let agent = soon("the start", builder.build()).await.unwrap();
    let denied = denials(stand, &agent, name).await;
    agent.close().await.unwrap();
    denied
}

async fn refused(builder: AgentBuilder) -> Error {
    soon("the refusal", builder.build()).await.unwrap_err()
}

async fn mode_of(builder: AgentBuilder) -> Mode {
    let agent = soon("the start", builder.build()).await.unwrap();
    let mode = agent.info().await.unwrap().mode;
    agent.close().await.unwrap();
    mode
}

#[tokio::test]
async fn a_deny_rule_of_managed_settings_holds_in_every_mode() {
    let stand = Stand::new().await;
    let managed = json!({"permissions": {"deny": ["run_shell(touch *)"]}});
    let builder = governed(&stand, &managed).mode(Mode::FullAuto).allow("run_shell(*)");
    assert_eq!(denied(&stand, builder, "a").await, [DeniedBy::Policy]);
    let free = stand.builder().mode(Mode::FullAuto);
    assert_eq!(denied(&stand, free, "b").await, [], "the rule alone was in the way");
}

#[tokio::test]
async fn layers_of_the_program_widen_nothing() {
    let stand = Stand::new().await;
    let mut own = Layer::new(LayerName::Managed);
    own.allow = Rule::parse_all(&["run_shell(*)".to_owned()]).unwrap();
    let grants = Layer { name: LayerName::System, ..own.clone() };
    let policy = Policy::default().tighten(own).tighten(grants);
    let managed = json!({"permissions": {"allow": []}});
    let builder = governed(&stand, &managed).policy(policy.clone());
    assert_eq!(denied(&stand, builder, "a").await, [DeniedBy::Nobody]);
    assert_eq!(denied(&stand, stand.builder().policy(policy), "b").await, []);
}

#[tokio::test]
async fn locked_modes_and_models_are_refused_before_anything_runs() {
    let stand = Stand::new().await;
    let no_auto = json!({"disableFullAuto": true});
    let error = refused(governed(&stand, &no_auto).mode(Mode::FullAuto)).await;
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    assert!(!stand.home().exists(), "nothing was begun");
    assert_eq!(mode_of(governed(&stand, &no_auto)).await, Mode::Ask);
    let plan = json!({"permissions": {"mode": "plan"}});
    assert_eq!(mode_of(governed(&stand, &plan)).await, Mode::Plan, "nobody asked for another");
    let error = refused(governed(&stand, &plan).mode(Mode::Ask)).await;
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    let models = json!({"models": {"allowed": ["openai/*"]}});
    let error = refused(governed(&stand, &models)).await;
    assert_eq!(error.code(), Some(RefusalCode::ModelNotAllowed), "{error}");
    let agent = governed(&stand, &no_auto).build().await.unwrap();
    let error = agent.set_mode(Mode::FullAuto).await.unwrap_err();
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_mode_that_nobody_asked_for_gives_way_in_other_sessions_too() {
    let stand = Stand::new().await;
    let plan = json!({"permissions": {"mode": "plan"}});
    let first = governed(&stand, &plan).build().await.unwrap();
    let shared = stand.builder().runtime(first.runtime().clone());
    assert_eq!(mode_of(shared.clone()).await, Mode::Plan);
    let error = refused(shared.mode(Mode::Ask)).await;
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    first.close().await.unwrap();
    // A session of freer times is resumed in what holds now.
    let free = stand.agent(Mode::FullAuto).await;
    let id = free.session_id().to_string();
    free.close().await.unwrap();
    assert_eq!(mode_of(governed(&stand, &plan).resume(id)).await, Mode::Plan);
}

#[tokio::test]
async fn managed_settings_that_cannot_be_read_stop_the_start() {
    let stand = Stand::new().await;
    let missing = stand.builder().managed_settings("/no/such/managed.json");
    let wrong = governed(&stand, &json!({"disableFulAuto": true}));
    let table = [(missing, "/no/such/managed.json"), (wrong, "did you mean 'disableFullAuto'")];
    for (builder, expected) in table {
        let error = refused(builder).await;
        assert!(matches!(error, Error::Governed(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let key = bundle::keygen(&[7; 32]).public().to_string();
    let remote = json!({"remotePolicyUrl": NOWHERE, "remotePolicyPublicKey": key});
    let second = stand.home().with_file_name("second.json");
    std::fs::write(&second, remote.to_string()).unwrap();
    let error = refused(governed(&stand, &remote).managed_settings(second)).await;
    assert!(error.to_string().contains("both name a remotePolicyUrl"), "{error}");
}

#[tokio::test]
async fn hooks_of_managed_settings_have_their_vote() {
    let stand = Stand::new().await;
    let hook = json!({"type": "command", "command": "echo not here >&2; exit 2"});
    let managed = json!({"hooks": {"PreToolUse": [{"matcher": "run_shell", "hooks": [hook]}]}});
    let builder = governed(&stand, &managed).mode(Mode::FullAuto);
    assert_eq!(denied(&stand, builder, "a").await, [DeniedBy::Hook]);
}

#[tokio::test]
async fn a_required_remote_policy_is_waited_for_and_then_missed() {
    let stand = Stand::new().await;
    let key = bundle::keygen(&[7; 32]).public().to_string();
    let mut managed = json!({
        "remotePolicyUrl": NOWHERE, "remotePolicyPublicKey": key, "remotePolicyRequired": true,
    });
    let error = refused(governed(&stand, &managed)).await;
    assert!(matches!(error, Error::Governed(_)), "{error:?}");
    assert!(error.to_string().contains("require the remote policy"), "{error}");
    assert!(!stand.home().exists(), "nothing was begun");
    managed["remotePolicyRequired"] = false.into();
    let agent = soon("the start", governed(&stand, &managed).build()).await.unwrap();
    let notices = agent.notices().join("\n");
    assert!(notices.contains("no remote policy is in force"), "{notices}");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_remote_policy_that_is_kept_holds_without_the_network() {
    let stand = Stand::new().await;
    let key = bundle::keygen(&[7; 32]);
    let managed = json!({
        "remotePolicyUrl": NOWHERE,
        "remotePolicyPublicKey": key.public().to_string(),
        "remotePolicyRequired": true,
    });
    let policy = json!({
        "version": 1, "id": "acme", "issuedAt": "2026-01-01T00:00:00Z",
        "settings": {
            "permissions": {"deny": ["run_shell(touch *)"]}, "disableFullAuto": true,
        },
    });
    let envelope = bundle::sign(&policy, &key).unwrap().to_value();
    let kept =
        json!({"url": NOWHERE, "fetchedAt": "2026-01-01T00:00:00.000Z", "envelope": envelope});
    std::fs::create_dir_all(stand.home().join("policy")).unwrap();
    std::fs::write(stand.home().join("policy/remote.json"), kept.to_string()).unwrap();
    let error = refused(governed(&stand, &managed).mode(Mode::FullAuto)).await;
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    assert!(error.to_string().contains("remote policy"), "{error}");
    let builder = governed(&stand, &managed).allow("run_shell(touch *)");
    assert_eq!(denied(&stand, builder, "a").await, [DeniedBy::Policy]);
}

#[cfg(feature = "client")]
#[tokio::test]
async fn a_remote_policy_is_fetched_and_a_newer_one_counts_for_later_sessions() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::scripted_http::{Reply, Server};

    let stand = Stand::new().await;
    let key = bundle::keygen(&[7; 32]);
    let public = key.public().to_string();
    let has_newer = Arc::new(AtomicBool::new(false));
    let newer = Arc::clone(&has_newer);
    let server = Server::start(move |_| {
        let is_newer = newer.load(Ordering::SeqCst);
        let settings = match is_newer {
            true => json!({"disableFullAuto": true}),
            false => json!({"permissions": {"deny": ["run_shell(touch *)"]}}),
        };
        let bundle = json!({
            "version": if is_newer { 2 } else { 1 }, "id": "acme",
            "issuedAt": "2026-01-01T00:00:00Z", "settings": settings,
        });
        Reply::json(200, &bundle::sign(&bundle, &key).unwrap().to_value())
    })
    .await;
    let managed = json!({
        "remotePolicyUrl": format!("{}/policy.json", server.url),
        "remotePolicyPublicKey": public,
        "remotePolicyRequired": true,
        "remotePolicyRefreshMs": 1000,
    });
    let first = governed(&stand, &managed).mode(Mode::FullAuto).build().await.unwrap();
    assert_eq!(denials(&stand, &first, "a").await, [DeniedBy::Policy]);
    assert!(stand.home().join("policy/remote.json").is_file());
    has_newer.store(true, Ordering::SeqCst);
    let shared = stand.builder().runtime(first.runtime().clone()).mode(Mode::FullAuto);
    let refused = async {
        let mut moments = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            moments.tick().await;
            match shared.clone().build().await {
                Ok(agent) => agent.close().await.unwrap(),
                Err(error) => return error,
            }
        }
    };
    let error = soon("the newer policy", refused).await;
    assert_eq!(error.code(), Some(RefusalCode::LockedByPolicy), "{error}");
    let mode = first.info().await.unwrap().mode;
    assert_eq!(mode, Mode::FullAuto, "a session keeps the policy that it began with");
    first.close().await.unwrap();
}

#[tokio::test]
async fn what_was_allowed_for_good_counts_for_later_agents_where_it_was_said() {
    let stand = Stand::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let always = |persist| {
        let builder = stand.builder();
        builder.on_permission(move |_| async move {
            let rule = Some("run_shell(touch *)".to_owned());
            Decision::AllowAlways { rule, persist }
        })
    };
    assert_eq!(denied(&stand, always(Persist::Project), "a").await, []);
    let first = stand.builder().build().await.unwrap();
    let id = first.session_id().to_string();
    assert_eq!(denials(&stand, &first, "b").await, [], "nobody is there to be asked");
    // Nor does it count for another agent that shares the runtime and works elsewhere.
    let shared = stand.builder().cwd(elsewhere.path()).runtime(first.runtime().clone());
    assert_eq!(denied(&stand, shared, "c").await, [DeniedBy::Nobody]);
    first.close().await.unwrap();
    let resumed = Agent::builder().home(stand.home()).resume(id);
    let resumed =
        resumed.provider(stand.provider()).agent_command(crate::embedded_agent::command());
    assert_eq!(denied(&stand, resumed, "d").await, [], "its folder is the stored one");
    let other = || stand.builder().cwd(elsewhere.path());
    assert_eq!(denied(&stand, other(), "e").await, [DeniedBy::Nobody]);
    // What is kept counts only where a policy lets it.
    let session_alone = json!({"permissions": {"allowPersist": false}});
    let builder = governed(&stand, &session_alone);
    assert_eq!(denied(&stand, builder, "f").await, [DeniedBy::Nobody]);
}

#[tokio::test]
async fn what_was_allowed_everywhere_counts_in_every_folder() {
    let stand = Stand::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let builder = stand.builder().on_permission(|_| async {
        let rule = Some("run_shell(touch *)".to_owned());
        Decision::AllowAlways { rule, persist: Persist::User }
    });
    assert_eq!(denied(&stand, builder, "a").await, []);
    let other = stand.builder().cwd(elsewhere.path()).build().await.unwrap();
    stand.server.push_all([touch("b"), Answer::text("ok")]);
    soon("the end", other.prompt("Go")).await.unwrap();
    assert!(elsewhere.path().join("b").exists());
    other.close().await.unwrap();
    let session_alone = json!({"permissions": {"allowPersist": false}});
    let builder = governed(&stand, &session_alone);
    assert_eq!(denied(&stand, builder, "c").await, [DeniedBy::Nobody]);
}
