//! Servers on this machine are found by what they answer.

use model::{Found, LocalKind, LocalServer, probe_local};

use crate::server::{Answer, Server, reply};

async fn server(body: &str) -> Server {
    let answer = reply("200", "content-type: application/json\r\n", body);
    Server::start(vec![Answer::Close(answer); 4]).await
}

#[tokio::test]
async fn servers_are_told_by_their_answers() {
    let ollama = server("{\"models\":[{\"name\":\"qwen3:8b\"},{\"model\":\"phi4\"}]}").await;
    let vllm = server("{\"object\":\"list\",\"data\":[{\"id\":\"m\"}]}").await;
    let other = server("{\"hello\":1}").await;
    let props = Server::start(vec![
        Answer::Close(reply("404", "", "")),
        Answer::Close(reply(
            "200",
            "",
            "{\"default_generation_settings\":{},\"model_path\":\"/m/x.gguf\"}",
        )),
    ])
    .await;
    let silent = Server::start(vec![Answer::Hang(String::new())]).await;
    let at = |kind, server: &Server| LocalServer { kind, base_url: server.url.clone() };
    let candidates = [
        at(LocalKind::Ollama, &ollama),
        at(LocalKind::Vllm, &silent),
        at(LocalKind::LlamaCpp, &props),
        at(LocalKind::LmStudio, &other),
        at(LocalKind::Ollama, &other),
        at(LocalKind::Vllm, &vllm),
        LocalServer { kind: LocalKind::Vllm, base_url: "http://127.0.0.1:1".into() },
    ];
    let found = |kind, server: &Server, models: &[&str]| Found {
        kind,
        base_url: format!("{}/v1", server.url),
        models: models.iter().map(|name| (*name).to_owned()).collect(),
    };
    let start = std::time::Instant::now();
    assert_eq!(
        probe_local(&candidates).await,
        [
            found(LocalKind::Ollama, &ollama, &["qwen3:8b", "phi4"]),
            found(LocalKind::LlamaCpp, &props, &["x.gguf"]),
            found(LocalKind::Vllm, &vllm, &["m"]),
        ]
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(LocalServer::usual().len(), 4);
}
