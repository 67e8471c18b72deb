//! How agents end, and what is left of them.

use std::time::Duration;

use narthex::Error;
use narthex::protocol::{EventBody, Mode};
use serde_json::json;
use testkit::model_server::{Answer, At, Gate};

use crate::stand::{Stand, soon};

#[tokio::test]
async fn a_closed_agent_stops_what_runs_and_says_that_it_is_closed() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("never").gate(At::Head, &gate));
    let agent = stand.agent(Mode::Ask).await;
    let running = agent.stream("Wait");
    let waiting = agent.stream("And wait");
    soon("the model is asked", gate.reached()).await;
    soon("the close", agent.close()).await.unwrap();
    let result = soon("the end", running.finish()).await.unwrap();
    assert_eq!(result.reason, narthex::protocol::TurnEnd::Interrupted);
    assert!(matches!(soon("the end", waiting.finish()).await, Err(Error::Closed)));
    soon("closing again", agent.close()).await.unwrap();
    assert!(matches!(agent.prompt("more").await, Err(Error::Closed)));
    assert!(matches!(agent.set_mode(Mode::Plan).await, Err(Error::Closed)));
    assert!(matches!(agent.interrupt().await, Err(Error::Closed)));
    assert!(matches!(agent.messages().await, Err(Error::Closed)));
}

#[tokio::test]
async fn a_dropped_agent_loses_nothing_and_leaves_no_process() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("Noted."));
    let sleeping = "echo $$ > pid; sleep 1000";
    stand.server.push(Answer::call("run_shell", json!({"command": sleeping})));
    stand.server.push(Answer::text("It was seven."));
    let agent = stand.agent(Mode::FullAuto).await;
    soon("the first", agent.prompt("The number is seven")).await.unwrap();
    let id = agent.session_id().as_str().to_owned();
    let mut stream = agent.stream("Sleep");
    let pid = soon("the command", async {
        loop {
            if let Some(pid) = stand.read("pid").and_then(|text| text.trim().parse::<u32>().ok()) {
                return pid;
            }
            // Live events and time both move on here; the file is the process's own sign.
            let _ = tokio::time::timeout(Duration::from_millis(5), stream.next()).await.is_ok();
        }
    });
    let pid = pid.await;
    drop(agent);
    soon("the process's end", async {
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let ended = soon("the end of its stream", async {
        while let Some(Ok(event)) = stream.next().await {
            if let EventBody::Done(done) = event.body {
                return Some(done.result.reason);
            }
        }
        None
    });
    assert_eq!(ended.await, Some(narthex::protocol::TurnEnd::Interrupted));

    let again = soon("the session is free again", async {
        loop {
            match stand.builder().resume(&id).build().await {
                Ok(agent) => return agent,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let again = again.await;
    let result = soon("the last", again.prompt("Which number?")).await.unwrap();
    assert_eq!(result.text, "It was seven.");
    again.close().await.unwrap();
}

#[test]
fn an_agent_may_outlive_its_tokio_runtime() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let (stand, agent) = tokio.block_on(async {
        let stand = Stand::new().await;
        stand.server.push(Answer::text("Noted."));
        stand.server.push(Answer::text("Still there."));
        let agent = stand.agent(Mode::Ask).await;
        soon("the first", agent.prompt("Note it")).await.unwrap();
        (stand, agent)
    });
    let id = agent.session_id().as_str().to_owned();
    drop(tokio);
    let unread = agent.stream("too late");
    drop(agent);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        assert!(matches!(soon("its end", unread.finish()).await, Err(Error::Closed)));
        let again = stand.builder().resume(&id).build().await.unwrap();
        let result = soon("the second", again.prompt("Are you there?")).await.unwrap();
        assert_eq!(result.text, "Still there.");
        assert_eq!(again.messages().await.unwrap().len(), 4);
        again.close().await.unwrap();
    });
}

#[tokio::test]
async fn an_open_session_of_a_shared_runtime_is_refused_and_stays_open() {
    let stand = Stand::new().await;
    stand.server.push(Answer::text("Still mine."));
    let agent = stand.agent(Mode::Ask).await;
    let again = stand.builder().runtime(agent.runtime().clone());
    let again = again.resume(agent.session_id().as_str()).model("nobody/x");
    let error = again.build().await.unwrap_err().to_string();
    assert!(error.starts_with("resume: session ") && error.contains("is open"), "{error}");
    assert_eq!(soon("the prompt", agent.prompt("Go on")).await.unwrap().text, "Still mine.");
    agent.close().await.unwrap();
}

#[tokio::test]
async fn a_second_close_waits_for_the_first() {
    let stand = Stand::new().await;
    let agent = stand.agent(Mode::Ask).await;
    let mut first = Box::pin(agent.close());
    assert!(futures_util::poll!(first.as_mut()).is_pending(), "closing takes a while");
    let mut second = Box::pin(agent.close());
    assert!(futures_util::poll!(second.as_mut()).is_pending(), "and so does the second");
    soon("both", async { (second.await.unwrap(), first.await.unwrap()) }).await;
    assert!(matches!(agent.prompt("more").await, Err(Error::Closed)));
}

#[tokio::test]
async fn a_stream_that_is_dropped_stops_no_prompt_of_somebody_else() {
    let stand = Stand::new().await;
    let gate = Gate::new();
    stand.server.push(Answer::text("theirs").gate(At::Head, &gate));
    let agent = stand.agent(Mode::Ask).await;
    let (handle, session) = (agent.runtime().clone(), agent.session_id().clone());
    let (live, paced) =
        (narthex::runtime_api::Position::Live, narthex::runtime_api::Overflow::Ring);
    let mut events = handle.subscribe(&session, live, paced).await.unwrap();
    let theirs = handle.prompt(&session, "theirs".into()).await.unwrap().prompt_id;
    soon("the model is asked", gate.reached()).await;
    let mine = agent.stream("mine");
    soon("mine waits", async {
        while handle.info(&session).await.unwrap().queued == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(mine);
    soon("mine is withdrawn", async {
        while handle.info(&session).await.unwrap().queued > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gate.open();
    let reason = soon("their end", async {
        loop {
            if let Some(narthex::runtime_api::Delivery::Event(event)) = events.next().await
                && let EventBody::PromptFinished(finished) = &event.body
                && finished.prompt_id == theirs
            {
                return finished.result.reason;
            }
        }
    });
    assert_eq!(reason.await, narthex::protocol::TurnEnd::Completed);
    assert_eq!(stand.server.request_count(), 1);
    agent.close().await.unwrap();
}
