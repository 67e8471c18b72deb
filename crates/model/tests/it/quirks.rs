//! Whatever bytes a server sends, a call ends with a value.

use driver_api::ModelErrorKind;
use proptest::prelude::*;
use protocol::Wire;

use crate::provider::{ask, model_at};
use crate::server::{Answer, Server, stream};

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenaiResponses, Wire::OpenaiChat, Wire::Gemini];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Random text in a stream over a real socket.
    #[test]
    fn random_streams_end_with_a_value(
        body in "(data: ?|event: ?|[{}\\[\\]\":,a-z0-9]|\n|\r){0,200}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for wire in WIRES {
                let answer = stream(&(body.clone() + "\n\n"), true);
                let server = Server::start(vec![Answer::Close(answer)]).await;
                if let Err(error) = ask(&*model_at(&server.url, wire)).await.1 {
                    assert!(
                        matches!(error.kind, ModelErrorKind::Network | ModelErrorKind::Malformed
                            | ModelErrorKind::Unavailable),
                        "{error:?}"
                    );
                }
            }
        });
    }
}
