//! What waits for a person is put to the host that answers for the session.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::{EventBody, RequestId, SessionId};
use runtime_api::{Delivery, Subscription};

use crate::activity;
use crate::agent_side::{self, Asked};
use crate::door::Inner;
use crate::fields::put;

/// Watches all sessions: puts requests to hosts, and tells them what sessions do.
pub(crate) async fn watch(door: &Arc<Inner>, mut watch: Subscription) {
    while let Some(delivery) = watch.next().await {
        let event = match delivery {
            Delivery::Event(event) => event,
            Delivery::Gap { .. } => {
                ask_all_that_waits(door).await;
                continue;
            }
        };
        let id = &event.session_id;
        if let Some(host) = door.host_of(id)
            && let Some(activity) = &host.activity
            && let Some(mut entry) = activity::entry(&event)
        {
            // Numbered as they are told, so that a hole shows what was dropped.
            put(&mut entry, "seq", door.told.fetch_add(1, Ordering::Relaxed) + 1);
            activity.push(entry);
        }
        match &event.body {
            EventBody::RequestResolved(resolved) => door.end_asking(id, &resolved.request_id),
            EventBody::SessionClosed(_) => door.forget(id).await,
            body => ask(door, id, body),
        }
    }
}

/// Puts what waits in a session to its host.
pub(crate) async fn ask_what_waits(door: &Arc<Inner>, id: &SessionId) {
    match door.options.handle.pending(Some(id)).await {
        Ok(pending) => pending.iter().for_each(|waiting| ask(door, id, &waiting.request)),
        Err(error) => tracing::warn!(session = %id, %error, "read what waits for an answer"),
    }
}

async fn ask_all_that_waits(door: &Arc<Inner>) {
    match door.options.handle.pending(None).await {
        Ok(pending) => {
            // Those of other processes have no seat here and are passed over.
            pending.iter().for_each(|waiting| ask(door, &waiting.session, &waiting.request));
        }
        Err(error) => tracing::warn!(%error, "read what waits for an answer"),
    }
}

/// Puts one request to the host of its session; nothing where it is none, or is put already.
fn ask(door: &Arc<Inner>, id: &SessionId, body: &EventBody) {
    let Some(request) = request_of(body) else { return };
    let Some(host) = door.host_of(id) else { return };
    let Some(decided) = door.begin_asking(id, request) else { return };
    let (door, id, request, body) = (Arc::clone(door), id.clone(), request.clone(), body.clone());
    let tasks = door.tasks.clone();
    tasks.spawn(async move {
        let asked = tokio::select! {
            biased;
            () = decided.cancelled() => return,
            asked = agent_side::put(&host, &id, &body) => asked,
        };
        match asked {
            Asked::Answer(answer) => {
                agent_side::decide(&door.options.handle, &id, &request, answer).await;
            }
            // Whoever takes the session over is asked again.
            Asked::Gone => {}
        }
        door.end_asking(&id, &request);
    });
}

fn request_of(body: &EventBody) -> Option<&RequestId> {
    match body {
        EventBody::PermissionRequest(request) => Some(&request.request_id),
        EventBody::QuestionRequest(request) => Some(&request.request_id),
        EventBody::PlanRequest(request) => Some(&request.request_id),
        _ => None,
    }
}
