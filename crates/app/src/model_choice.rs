//! Which model a new session talks to, where nobody said so, and what to do where there is none.

use door_cli::Failure;
use narthex::{Found, LocalKind, LocalServer, probe_local};

use crate::settings::{BUILT_IN, BuiltIn, KnownProvider, Origin, Settings};

/// What is said where nothing can answer.
const NOTHING: &str = "no model to talk to: no key is set and no model server on this machine \
answered. One of these helps:
  export ANTHROPIC_API_KEY=…   or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY
  narthex login anthropic      keeps the key in a file that only you can read
  start Ollama, llama.cpp, LM Studio or vLLM on this machine
  narthex demo                 shows the program at work without any of them";

/// A model and how it came to be chosen.
#[derive(Debug)]
pub(crate) struct Choice {
    /// `provider/model`.
    pub(crate) model: String,
    /// One sentence where nobody had said so.
    pub(crate) notice: Option<String>,
}

/// Chooses the model of a new session: the one that is set; else the usual one of the only
/// provider with a key; else the first of the only model server on this machine.
///
/// # Errors
/// What to do, where there is none, or more than one to choose from.
pub(crate) async fn choose(settings: &Settings) -> Result<Choice, Failure> {
    if let Some(model) = &settings.model.value {
        check_key(settings, model)?;
        return Ok(Choice { model: model.clone(), notice: None });
    }
    let usable = with_keys(settings);
    match usable.as_slice() {
        [] => local(settings).await,
        [model] => Ok(Choice { model: model.clone(), notice: None }),
        several => {
            let commands: String = several.iter().map(|model| command(model)).collect();
            let text = format!("no model is set and several can be used; choose one:{commands}");
            Err(Failure::usage(text))
        }
    }
}

fn command(model: &str) -> String {
    format!("\n  narthex config set model {model}")
}

/// Lists the usual model of every provider with a key.
pub(crate) fn with_keys(settings: &Settings) -> Vec<String> {
    let usual = |built_in: &BuiltIn| {
        let has_key = provider(settings, built_in.name).is_some_and(|known| known.key.is_some());
        let model = built_in.default_model.filter(|_| has_key)?;
        Some(format!("{}/{model}", built_in.name))
    };
    BUILT_IN.iter().filter_map(usual).collect()
}

fn provider<'a>(settings: &'a Settings, name: &str) -> Option<&'a KnownProvider> {
    settings.providers.iter().find(|known| known.provider.name == name)
}

/// Asks the usual places on this machine for model servers.
pub(crate) async fn servers(settings: &Settings) -> Vec<Found> {
    let places: Vec<LocalServer> = LocalServer::usual()
        .into_iter()
        .map(|usual| match provider(settings, provider_name(usual.kind)) {
            Some(known) => LocalServer { base_url: known.provider.base_url.clone(), ..usual },
            None => usual,
        })
        .collect();
    probe_local(&places).await
}

/// Returns the provider's name of a kind of server.
pub(crate) fn provider_name(kind: LocalKind) -> &'static str {
    match kind {
        LocalKind::Ollama => "ollama",
        LocalKind::LlamaCpp => "llamacpp",
        LocalKind::LmStudio => "lmstudio",
        LocalKind::Vllm => "vllm",
    }
}

async fn local(settings: &Settings) -> Result<Choice, Failure> {
    let found = servers(settings).await;
    let models: Vec<String> = found.iter().filter_map(first_model).collect();
    match models.as_slice() {
        [] => Err(Failure::usage(NOTHING)),
        [model] => Ok(Choice {
            model: model.clone(),
            notice: Some(format!(
                "no model is set; using {model} of the server on this machine (keep it: narthex \
                 config set model {model})"
            )),
        }),
        several => {
            let commands: String = several.iter().map(|model| command(model)).collect();
            let text = format!(
                "no model is set and several servers answer on this machine; choose one:{commands}"
            );
            Err(Failure::usage(text))
        }
    }
}

/// Returns a server's first model that can talk; models for embeddings cannot.
fn first_model(found: &Found) -> Option<String> {
    let talks = |name: &&String| !name.contains("embed");
    let model = found.models.iter().find(talks)?;
    Some(format!("{}/{model}", provider_name(found.kind)))
}

/// Refuses a hosted model without a key before a session is made for it.
fn check_key(settings: &Settings, model: &str) -> Result<(), Failure> {
    let name = match model.split_once('/') {
        Some((name, _)) => name,
        None if model.starts_with("claude-") => "anthropic",
        None if model.starts_with("gpt-") => "openai",
        None if model.starts_with("gemini-") => "gemini",
        None => return Ok(()),
    };
    let (Some(known), Some(built_in)) =
        (provider(settings, name), BUILT_IN.iter().find(|built_in| built_in.name == name))
    else {
        return Ok(());
    };
    // Another address may be a gateway that has the key itself.
    let is_vendor = known.address == Origin::BuiltIn && known.provider.headers.is_empty();
    match built_in.key_variable {
        Some(variable) if is_vendor && known.key.is_none() => Err(Failure::usage(format!(
            "the model {model} needs a key of {name}. One of these helps:\n  \
             export {variable}=…\n  narthex login {name}\n  \
             narthex demo     shows the program at work without a key"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use door_cli::Globals;

    use super::*;
    use crate::{Environment, Want};

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home").display().to_string();
        let variables: Vec<_> =
            variables.iter().copied().chain([("NARTHEX_HOME", &*home)]).collect();
        let environment = Environment::new(folder.path(), &variables);
        let globals = Globals::default();
        Settings::load(Want { globals: &globals, environment: &environment }).unwrap()
    }

    async fn chosen(variables: &[(&str, &str)]) -> Result<String, String> {
        let choice = choose(&settings(variables)).await;
        choice.map(|choice| choice.model).map_err(|failure| failure.message)
    }

    #[tokio::test]
    async fn the_only_key_chooses_its_usual_model() {
        let table = [
            (vec![("ANTHROPIC_API_KEY", "k")], "anthropic/claude-sonnet-4-6"),
            (vec![("OPENAI_API_KEY", "k")], "openai/gpt-5.2"),
            (vec![("GEMINI_API_KEY", "k")], "gemini/gemini-2.5-pro"),
            (vec![("OPENROUTER_API_KEY", "k")], "openrouter/anthropic/claude-sonnet-4.6"),
            (vec![("OPENAI_API_KEY", "k"), ("NARTHEX_MODEL", "demo")], "demo"),
        ];
        for (variables, model) in table {
            assert_eq!(chosen(&variables).await.as_deref(), Ok(model), "{variables:?}");
        }
    }

    #[tokio::test]
    async fn several_keys_ask_for_a_choice_and_no_key_says_what_to_do() {
        let both = [("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
        let problem = chosen(&both).await.unwrap_err();
        assert!(problem.contains("config set model gemini/gemini-2.5-pro"), "{problem}");
        let problem = chosen(&[("NARTHEX_MODEL", "anthropic/claude-sonnet-4-6")]).await;
        let problem = problem.unwrap_err();
        assert!(problem.contains("export ANTHROPIC_API_KEY"), "{problem}");
        assert!(problem.contains("narthex login anthropic"), "{problem}");
    }

    #[tokio::test]
    async fn another_address_needs_no_key() {
        let variables = [
            ("NARTHEX_MODEL", "anthropic/claude-sonnet-4-6"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
        ];
        let model = chosen(&variables).await;
        assert_eq!(model.as_deref(), Ok("anthropic/claude-sonnet-4-6"));
    }
}
