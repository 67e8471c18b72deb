//! Folders of stored sessions, looked at again: what they were resolved to may be a link by now.

use runtime_api::SessionInfo;
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime};

use crate::answers::{pending, permission};
use crate::house::{House, ID, at, stored_session};

/// A house whose session lies in the folder `in`, which is a link to somewhere else by now.
fn replaced(session: impl FnOnce(SessionInfo) -> SessionInfo) -> House {
    let house = House::with(|root| {
        let info = session(stored_session(ID, &format!("{root}/in")));
        FakeRuntime::new().session(info).pending(vec![pending(permission("req-1"))])
    });
    house.replace_by_a_link("in");
    house
}

#[tokio::test]
async fn a_session_whose_folder_was_replaced_by_a_link_is_left_alone() {
    let house = replaced(|info| info);
    let reply = house.post("/v1/sessions", &json!({"resume": ID})).await;
    assert_eq!(reply.code(), (403, "cwd_outside_roots".to_owned()));
    assert_eq!(house.delete(&at("?purge=true")).await.code().0, 404);
    let listed = house.get("/v1/sessions?state=stored").await.json();
    assert_eq!(listed, json!({"sessions": []}));
    assert!(house.runtime.calls().is_empty());
    let house = replaced(|info| SessionInfo { owner_pid: Some(7), ..info });
    let answer = json!({"answer": "allow_once"});
    assert_eq!(house.post(&at("/permissions/req-1"), &answer).await.code().0, 404);
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn a_copy_is_not_made_in_a_folder_that_was_replaced() {
    let house = replaced(|info| SessionInfo { is_open: true, ..info });
    let reply = house.post(&at("/fork"), &json!({})).await;
    assert_eq!(reply.code(), (403, "cwd_outside_roots".to_owned()));
    assert!(house.runtime.calls().is_empty());
    // It is open here and stays so.
    assert_eq!(house.get(&at("")).await.status, 200);
}

#[tokio::test]
async fn a_session_whose_folder_is_gone_can_be_erased_alone() {
    let house = House::with(|root| {
        let gone = stored_session(ID, &format!("{root}/gone"));
        FakeRuntime::new().session(gone)
    });
    let (status, code, message) =
        house.post("/v1/sessions", &json!({"resume": ID})).await.refusal();
    assert_eq!((status, code.as_str()), (400, "validation_error"));
    assert!(message.starts_with("resume: the folder of this session is not there"), "{message}");
    assert!(house.runtime.calls().is_empty());
    assert_eq!(house.delete(&at("?purge=true")).await.status, 204);
    assert!(matches!(&house.runtime.calls()[..], [Call::Remove(_)]));
}

#[tokio::test]
async fn deleting_goes_on_when_the_client_hangs_up() {
    for (query, is_purge) in [("", false), ("?purge=true", true)] {
        let (house, path) = (House::plain(), at(query));
        // Polled once and dropped: the client has gone before the answer.
        tokio::select! {
            biased;
            _ = house.delete(&path) => panic!("answered at once"),
            () = std::future::ready(()) => {}
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let calls = house.runtime.calls();
        let [call] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!(matches!(call, Call::Remove(_)), is_purge, "{call:?}");
        let again = house.get(&at("")).await;
        assert_eq!(again.code(), (404, "session_not_found".to_owned()));
    }
}
