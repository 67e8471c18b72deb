//! What a builder takes of the environment, for whoever asks for it.

use std::path::PathBuf;

use stdx::Secret;

use super::AgentBuilder;
use crate::KNOWN_SERVERS;

/// The variables that name the folder with everything that is kept. The second is that of hosts
/// that embed the program.
const HOMES: [&str; 2] = ["NARTHEX_HOME", "NEURALINVERSE_CONFIG_DIR"];

impl AgentBuilder {
    /// Takes from the environment what was not set yet, by the variables that `narthex` reads:
    /// the folder with everything that is kept (`NARTHEX_HOME`, else `~/.narthex`), the model
    /// (`NARTHEX_MODEL`), the user's home, and the keys and addresses of the known model servers
    /// (`ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL` and so on, see [`KNOWN_SERVERS`]).
    pub fn from_env(self) -> Self {
        self.take(|name| std::env::var(name).ok())
    }

    fn take(mut self, read: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| read(name).filter(|value| !value.is_empty());
        self.user_home = self.user_home.or_else(|| variable("HOME").map(PathBuf::from));
        let named = || HOMES.iter().find_map(|name| variable(name)).map(PathBuf::from);
        let usual = || self.user_home.as_ref().map(|home| home.join(".narthex"));
        self.home = self.home.take().or_else(|| named().or_else(usual));
        self.model = self.model.or_else(|| variable("NARTHEX_MODEL"));
        for known in KNOWN_SERVERS {
            if self.providers.iter().any(|given| given.name == known.name) {
                continue;
            }
            let mut provider = known.provider();
            if let Some(address) = known.url_variable.and_then(variable) {
                provider.base_url = known.address_of(&address);
            }
            provider.key = known.key_variable.and_then(variable).map(Secret::new);
            self.providers.push(provider);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(builder: AgentBuilder, variables: &[(&str, &str)]) -> AgentBuilder {
        builder.take(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_usual_variables_are_taken_and_nothing_that_was_said_is_overruled() {
        let variables = [
            ("HOME", "/home/me"),
            ("NARTHEX_MODEL", "openai/x"),
            ("ANTHROPIC_API_KEY", "key-a"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
            ("OLLAMA_HOST", "0.0.0.0"),
            ("OPENAI_API_KEY", ""),
        ];
        let builder = taken(AgentBuilder::default().model("demo"), &variables);
        assert_eq!(builder.home, Some(PathBuf::from("/home/me/.narthex")));
        assert_eq!(builder.model.as_deref(), Some("demo"));
        let provider =
            |name: &str| builder.providers.iter().find(|provider| provider.name == name).unwrap();
        assert_eq!(provider("anthropic").base_url, "http://127.0.0.1:9");
        assert_eq!(provider("anthropic").key, Some(Secret::new("key-a".to_owned())));
        assert_eq!(provider("ollama").base_url, "http://127.0.0.1:11434/v1");
        assert_eq!(provider("openai").key, None, "empty is not set");
        let named = taken(AgentBuilder::default(), &[("NARTHEX_HOME", "/n"), ("HOME", "/h")]);
        assert_eq!((named.home, named.model), (Some("/n".into()), None));
        let kept = taken(AgentBuilder::default().home("/k"), &variables);
        assert_eq!(kept.home, Some("/k".into()));
        assert_eq!(kept.model.as_deref(), Some("openai/x"));
    }
}
