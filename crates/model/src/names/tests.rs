//! From names to models.

use protocol::Wire;
use stdx::Secret;

use super::*;
use crate::StructuredOutput;

fn provider(name: &str, wire: Wire, base_url: &str) -> Provider {
    let key = Some(Secret::new("k".to_owned()));
    Provider {
        name: name.into(),
        wire,
        base_url: base_url.into(),
        key,
        headers: vec![],
        structured_output: StructuredOutput::Auto,
    }
}

fn models() -> Arc<dyn Models> {
    let providers = vec![
        provider("anthropic", Wire::Anthropic, "https://api.anthropic.com"),
        provider("openai", Wire::OpenaiResponses, "https://api.openai.com/v1"),
        provider("gemini", Wire::Gemini, "https://generativelanguage.googleapis.com"),
        provider("openrouter", Wire::OpenaiChat, "https://openrouter.ai/api/v1"),
    ];
    build(Options { providers, scenario: None }).unwrap()
}

#[test]
fn names_resolve() {
    let models = models();
    for (name, id) in [
        ("anthropic/claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ("claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ("gpt-5", "openai/gpt-5"),
        ("o3", "openai/o3"),
        ("o4-mini", "openai/o4-mini"),
        ("gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("openrouter/vendor/model:free", "openrouter/vendor/model:free"),
        ("demo", "demo"),
        ("demo/fix", "demo/fix"),
    ] {
        assert_eq!(models.resolve(name).unwrap().info().id, id);
    }
    let info = models.resolve("claude-sonnet-4-6").unwrap().info().clone();
    assert_eq!((info.context_window, info.images), (Some(200_000), true));
    assert_eq!(info.price.map(|price| price.cache_write), Some(3.75));
    let unknown = models.resolve("openrouter/vendor/model").unwrap().info().clone();
    assert_eq!((unknown.context_window, unknown.price, unknown.images), (None, None, false));
}

#[test]
fn what_does_not_resolve_says_what_would() {
    let models = models();
    let refuse = |name: &str| models.resolve(name).unwrap_err();
    for name in
        ["", "llama3", "antropic/claude-sonnet-4-6", "anthropic/", "demo/none", "/x", "of", "o10x"]
    {
        assert_eq!(refuse(name).code, RefusalCode::InvalidModel, "{name}");
    }
    let close = refuse("antropic/claude-x").message;
    assert!(close.contains("did you mean anthropic/claude-x?"), "{close}");
    assert!(close.contains("anthropic, openai, gemini, openrouter, demo"), "{close}");
    assert!(!refuse("zzz/x").message.contains("did you mean"));
    assert!(refuse("demo/none").message.contains("fix, about"));

    let none = build(Options::default()).unwrap();
    let message = none.resolve("gpt-5").unwrap_err().message;
    assert!(
        message.contains("no provider \"openai\" is set") && message.ends_with("demo"),
        "{message}"
    );
}

#[test]
fn settings_are_checked() {
    let refuse = |providers| build(Options { providers, scenario: None }).unwrap_err().to_string();
    let local = |name: &str| provider(name, Wire::OpenaiChat, "http://127.0.0.1:1/v1");
    assert!(refuse(vec![local("a"), local("a")]).contains("two providers are named a"));
    for name in ["", "demo", "a/b", "a b"] {
        assert!(refuse(vec![local(name)]).contains("provider name"), "{name}");
    }
    assert!(
        refuse(vec![provider("x", Wire::OpenaiChat, "localhost:1")])
            .contains("base_url of provider x")
    );
    assert!(refuse(vec![provider("x", Wire::Scripted, "http://h")]).contains("demo"));
    let mut bad_key = local("x");
    bad_key.key = Some(Secret::new("se\ncret".into()));
    let message = refuse(vec![bad_key]);
    assert!(message.contains("key of provider x") && !message.contains("cret"), "{message}");
    let mut bad_header = local("x");
    bad_header.headers = vec![("a b".into(), "v".into())];
    assert!(refuse(vec![bad_header]).contains("a b of provider x"));
}

#[test]
fn nothing_secret_is_printed() {
    let mut local = provider("x", Wire::OpenaiChat, "http://127.0.0.1:1/v1");
    local.key = Some(Secret::new("first-secret".into()));
    local.headers = vec![("x-key".into(), "second-secret".into())];
    let models = build(Options { providers: vec![local], scenario: None }).unwrap();
    let printed = format!("{models:?} {:?}", models.resolve("x/m").unwrap());
    assert!(!printed.contains("secret"), "{printed}");
}

#[test]
fn lists_hold_what_can_be_asked() {
    let ids = |providers: Vec<Provider>| -> Vec<String> {
        let models = build(Options { providers, scenario: None }).unwrap();
        for info in models.list() {
            assert_eq!(models.resolve(&info.id).unwrap().info(), &info);
        }
        models.list().into_iter().map(|info| info.id).collect()
    };
    assert_eq!(ids(vec![]), ["demo"]);
    let named = ids(vec![
        provider("anthropic", Wire::Anthropic, "https://api.anthropic.com"),
        provider("gemini", Wire::Gemini, "https://generativelanguage.googleapis.com"),
        // What a reseller offers, and under which names, nobody here knows.
        provider("openrouter", Wire::OpenaiChat, "https://openrouter.ai/api/v1"),
    ]);
    assert!(named.contains(&"anthropic/claude-sonnet-4-6".to_owned()), "{named:?}");
    assert!(named.contains(&"gemini/gemini-2.5-pro".to_owned()), "{named:?}");
    assert!(!named.iter().any(|id| id.starts_with("open")), "{named:?}");
    let without = Provider {
        key: None,
        ..provider("openai", Wire::OpenaiResponses, "https://api.openai.com/v1")
    };
    assert_eq!(ids(vec![without]), ["demo"], "without a key nobody answers");
}
