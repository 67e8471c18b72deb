//! Temporary.
use driver_api::*;
use model::*;
use protocol::*;
use std::sync::Arc;
use stdx::Secret;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (wire, base, key, model, steps) =
        (&a[1], &a[2], &a[3], &a[4], a[5].parse::<usize>().unwrap());
    let wire: Wire = serde_json::from_value(serde_json::json!(wire)).unwrap();
    let p = Provider {
        name: "p".into(),
        wire,
        base_url: base.clone(),
        key: Some(Secret::new(key.clone())),
        headers: vec![],
    };
    let models = build(Options { providers: vec![p], scenario: None }).unwrap();
    let m = models.resolve(&format!("p/{model}")).unwrap();
    let msg = |role, content| {
        Arc::new(Message { id: MessageId::new("m"), role, content, created_at: Timestamp(0) })
    };
    let mut messages = vec![msg(
        Role::User,
        vec![
            Block::text("hi"),
            Block::Image(Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() }),
        ],
    )];
    let tool = ToolSpec {
        name: "grep".into(),
        description: "d".into(),
        input_schema: serde_json::json!({"type":"object","properties":{}}),
    };
    for step in 0..steps {
        let request = ModelRequest {
            system: "sys".into(),
            tools: [tool.clone()].into(),
            messages: messages.clone(),
            max_output: None,
            effort: Some(Effort::High),
            output_schema: None,
            cache_key: "k".into(),
        };
        let (tx, mut rx) = tokio::sync::mpsc::channel(1000);
        let t = std::time::Instant::now();
        match m.ask(&request, tx).await {
            Ok(r) => {
                let mut n = 0;
                while rx.try_recv().is_ok() {
                    n += 1;
                }
                println!(
                    "step {step}: {} deltas {:?} {:?} {} blocks in {:?}",
                    n,
                    r.stop,
                    r.usage,
                    r.content.len(),
                    t.elapsed()
                );
                println!("  {}", serde_json::to_string(&r.content).unwrap());
                let mut results: Vec<Block> = r
                    .content
                    .iter()
                    .filter_map(|b| match b {
                        Block::ToolUse { id, name, malformed, .. } => Some(Block::ToolResult {
                            id: id.clone(),
                            name: name.clone(),
                            content: vec![
                                Block::text("res"),
                                Block::Image(Image {
                                    mime_type: "image/png".into(),
                                    data: "iVBORw0KGgo=".into(),
                                }),
                            ],
                            is_error: malformed.is_some(),
                        }),
                        _ => None,
                    })
                    .collect();
                if results.is_empty() {
                    results.push(Block::text("next"));
                }
                messages.push(msg(Role::Assistant, r.content));
                messages.push(msg(Role::User, results));
            }
            Err(e) => println!("step {step}: {e:?}"),
        }
    }
}
