//! What the core's refusals become.

use agent_client_protocol_schema::v1;
use protocol::RefusalCode;
use runtime_api::Error;
use serde_json::json;

/// Turns an answer other than yes into an error of the protocol. The code of a refusal goes with
/// it in `data.code`; the text of a fault goes into the log alone.
pub(crate) fn refused(error: Error) -> v1::Error {
    match error {
        Error::Refusal(refusal) => {
            let data = json!({"code": refusal.code.as_str()});
            v1::Error::new(code_of(refusal.code), refusal.message).data(data)
        }
        Error::Fault(fault) => failed(&fault),
    }
}

/// Tells the log of a failure of ours, and the client that there was one.
pub(crate) fn failed(error: &dyn std::error::Error) -> v1::Error {
    tracing::error!(%error, "a request failed");
    v1::Error::new(-32603, "a failure of the agent; its log has the details")
}

/// A field is wrong; the message names it.
pub(crate) fn invalid(message: impl Into<String>) -> v1::Error {
    v1::Error::new(-32602, message)
}

fn code_of(code: RefusalCode) -> i32 {
    match code {
        // What the request names is wrong or not there.
        RefusalCode::Invalid
        | RefusalCode::InvalidModel
        | RefusalCode::ModelNotAllowed
        | RefusalCode::LockedByPolicy
        | RefusalCode::TooLarge => -32602,
        RefusalCode::SessionNotFound
        | RefusalCode::RequestNotFound
        | RefusalCode::CheckpointNotFound
        | RefusalCode::NeuronNotFound => -32002,
        // It is right, and cannot be done now.
        RefusalCode::SessionBusy
        | RefusalCode::OwnedElsewhere
        | RefusalCode::RequestResolved
        | RefusalCode::QueueFull
        | RefusalCode::TooManySessions
        | RefusalCode::ShuttingDown
        | RefusalCode::NeuronExists
        | RefusalCode::NeuronNotRunning
        | RefusalCode::NoCapacity
        | RefusalCode::NotSupported => -32603,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Refusal;
    use runtime_api::Fault;

    #[test]
    fn a_refusal_keeps_its_words_and_a_fault_loses_them() {
        let refusal = Refusal::new(RefusalCode::QueueFull, "16 prompts wait already");
        let error = refused(refusal.into());
        assert_eq!(
            (i32::from(error.code), error.message.as_str()),
            (-32603, "16 prompts wait already")
        );
        assert_eq!(error.data, Some(json!({"code": "queue_full"})));
        let error = refused(Fault::new("the disk at /secret is lost").into());
        assert!(!error.message.contains("secret"), "{}", error.message);
    }
}
