//! Sessions of an application that embeds the program: what it lends, its policy, its denials.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{LendError, Lender, Lends, LentCommand, LentTerminal};
use policy::{Layer, LayerName};
use protocol::event::{Answer, DeniedBy};
use protocol::{Effect, EventBody, Mode, SessionId};
use runtime_api::{AgentSettings, Error, Prompt, SharedLender};

use crate::house::*;

#[derive(Debug)]
struct Editor;

#[async_trait]
impl Lender for Editor {
    fn lends(&self) -> Lends {
        Lends { reads_files: true, ..Lends::default() }
    }

    async fn read_text(&self, _: &SessionId, _: &Path) -> Result<String, LendError> {
        Err(LendError::Gone)
    }

    async fn write_text(&self, _: &SessionId, _: &Path, _: &str) -> Result<(), LendError> {
        Err(LendError::Gone)
    }

    async fn run(&self, _: &SessionId, _: LentCommand) -> Result<Arc<dyn LentTerminal>, LendError> {
        Err(LendError::Gone)
    }
}

fn lending() -> AgentSettings {
    AgentSettings { lender: Some(SharedLender::new(Arc::new(Editor))), ..AgentSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_lends_goes_with_the_session() {
    let world = World::default();
    let handle = world.process();
    let lent = || world.around.lent.lock().unwrap().len();
    let id = handle.create(new_session(lending())).await.unwrap().id;
    assert_eq!(lent(), 1);
    // Another client takes the open session over, and then one that lends nothing.
    handle.open(&id, lending()).await.unwrap();
    assert_eq!(lent(), 2);
    handle.open(&id, AgentSettings::default()).await.unwrap();
    assert_eq!(lent(), 2);
    let agent = lending();
    handle.open(&id, agent.clone()).await.unwrap();
    handle.open(&id, agent.clone()).await.unwrap();
    assert_eq!(lent(), 3, "the same client is no other one");
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, agent).await.unwrap();
    assert_eq!(lent(), 4);
    let lent = world.around.lent.lock().unwrap();
    assert!(lent.iter().all(|(session, lends)| *session == id && lends.reads_files));
}

#[tokio::test(start_paused = true)]
async fn a_tagged_policy_binds_its_sessions_and_no_others() {
    let world = World::default();
    let (handle, policies) = world.process_with_policies();
    let layer = Layer { disable_full_auto: true, ..Layer::new(LayerName::Pushed) };
    let bound =
        AgentSettings { policy: Some(policies.bind(vec![layer])), ..AgentSettings::default() };
    let wanted = |agent: &AgentSettings, mode: Mode| {
        let mut session = new_session(agent.clone());
        session.mode = Some(mode);
        session
    };
    let refused = handle.create(wanted(&bound, Mode::FullAuto)).await;
    assert!(matches!(refused, Err(Error::Refusal(_))), "{refused:?}");
    let id = handle.create(wanted(&bound, Mode::Ask)).await.unwrap().id;
    assert!(handle.set_mode(&id, Mode::FullAuto).await.is_err());
    let free = AgentSettings::default();
    let other = handle.create(wanted(&free, Mode::FullAuto)).await.unwrap().id;
    handle.set_mode(&other, Mode::FullAuto).await.unwrap();
    // What is replaced for all keeps what binds some.
    policies.replace(policy::Policy::default());
    assert!(handle.set_mode(&id, Mode::FullAuto).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_review_is_told_apart_and_a_denial_is_the_applications() {
    for (mode, is_review) in [(Mode::FullAuto, true), (Mode::Ask, false)] {
        let world = World::default();
        let handle = world.process_in(mode);
        let agent = AgentSettings {
            is_attended: true,
            is_hosted: true,
            asks_for: vec![Effect::Execute, Effect::Write, Effect::Destructive],
            ..AgentSettings::default()
        };
        let id = handle.create(new_session(agent)).await.unwrap().id;
        world.model.push(Script::Call(vec![("touch", "x")]));
        world.model.push(Script::Say("done"));
        let mut viewer = watch(&handle, &id).await;
        handle.prompt(&id, Prompt::text("go")).await.unwrap();
        let mut denied = Vec::new();
        loop {
            match viewer.next_event().await.expect("the stream goes on").body.clone() {
                EventBody::PermissionRequest(request) => {
                    assert_eq!(request.review, is_review, "{mode}");
                    let no = Answer::Deny { feedback: None };
                    handle.answer(&id, &request.request_id, no).await.unwrap();
                }
                EventBody::ToolDenied(call) => denied.push(call.by),
                EventBody::Done(_) => break,
                _ => {}
            }
        }
        assert_eq!(denied, [DeniedBy::Host], "{mode}");
        assert_eq!(world.effect_count("x"), 0);
    }
}
