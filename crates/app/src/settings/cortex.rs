//! What the settings say about the cortex door: `[cortex]`, `[agent.approval]` and the variables
//! of programs that were written for it.

use std::str::FromStr;
use std::time::Duration;

use door_cli::Setting;
use door_cortex::{Preset, RateLimits};
use http_kit::TrustedProxies;
use protocol::Effect;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use stdx::Secret;

use super::document::Document;
use super::{Origin, Sourced};
use crate::environment::Environment;

/// The port where nothing else is said.
const PORT: u16 = 3100;
/// The address where nothing else is said: nobody outside of this machine reaches it.
const HOST: &str = "127.0.0.1";
/// How long a session lives that nobody uses where nothing else is said, in milliseconds: a week.
const SESSION_TTL_MS: u64 = 7 * 24 * 3_600_000;
/// The shortest life of an unused session, in milliseconds: less would end one between two
/// requests of somebody who thinks.
const SESSION_TTL_MS_MIN: u64 = 1_000;
/// The longest life of an unused session, and the longest window, in milliseconds: ten years.
const MS_MAX: u64 = 10 * 366 * 24 * 3_600_000;
/// After how long an approval that nobody decided is a no where nothing else is said, in
/// milliseconds.
const APPROVAL_MS: u64 = 300_000;
/// The fewest characters of the token: what is shorter can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// The most characters of the token: it goes through headers, whose size is bounded.
const TOKEN_CHARS_MAX: usize = 1024;

/// The variable with the token.
pub(crate) const TOKEN: &str = "NSYS_CORTEX_API_TOKEN";
/// The variable with the address to listen on.
pub(crate) const ADDRESS: &str = "NSYS_CORTEX_API_HOST";

/// The cortex door. Not in a project's file. Variables and flags win.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CortexTable {
    /// The port of `narthex cortex`; 0 takes any that is free. 3100 where nothing is said.
    pub(crate) port: Option<u16>,
    /// The address that `narthex cortex` listens on. 127.0.0.1 where nothing is said; one that
    /// other machines reach needs a token in `NSYS_CORTEX_API_TOKEN`.
    pub(crate) host: Option<String>,
    /// Requests of one client per window; 600 where nothing is said, 0 for no limit.
    #[serde(alias = "rateLimit")]
    pub(crate) rate_limit: Option<u32>,
    /// Those of them that begin a run; 60 where nothing is said, 0 for no limit.
    #[serde(alias = "rateLimitLlm")]
    pub(crate) rate_limit_llm: Option<u32>,
    /// The window, in milliseconds; 900,000 where nothing is said.
    #[serde(alias = "rateLimitWindowMs", deserialize_with = "window")]
    #[schemars(range(min = 1, max = 316_224_000_000_u64))]
    pub(crate) rate_limit_window_ms: Option<u64>,
    /// Which proxies are believed about whom they speak for: `0` for none, how many stand in a
    /// row before the server, or their addresses and networks, separated by commas.
    #[serde(alias = "trustProxy", deserialize_with = "proxies")]
    pub(crate) trust_proxy: Option<String>,
    /// Which tools sessions and direct calls are offered; `coding` where nothing is said.
    #[serde(alias = "toolPreset")]
    pub(crate) tool_preset: Option<PresetName>,
    /// After how many milliseconds without use a session ends; a week where nothing is said.
    #[serde(alias = "sessionTtlMs", deserialize_with = "life")]
    #[schemars(range(min = 1_000, max = 316_224_000_000_u64))]
    pub(crate) session_ttl_ms: Option<u64>,
}

/// A list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PresetName {
    /// `read`, `write`, `edit`, `bash`.
    #[default]
    Coding,
    /// What only looks.
    ReadOnly,
    /// `read` and `bash`.
    Minimal,
    /// Everything.
    Admin,
}

impl PresetName {
    const ALL: [Self; 4] = [Self::Coding, Self::ReadOnly, Self::Minimal, Self::Admin];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Coding => "coding",
            Self::ReadOnly => "readonly",
            Self::Minimal => "minimal",
            Self::Admin => "admin",
        }
    }

    /// Returns the preset as the door takes it.
    pub(crate) fn preset(self) -> Preset {
        match self {
            Self::Coding => Preset::Coding,
            Self::ReadOnly => Preset::ReadOnly,
            Self::Minimal => Preset::Minimal,
            Self::Admin => Preset::Admin,
        }
    }
}

impl FromStr for PresetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or_else(|| {
            format!("unknown preset '{text}': expected coding, readonly, minimal or admin")
        })
    }
}

/// What agents of the cortex door are held to. Not in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentTable {
    /// What waits for an approval.
    pub(crate) approval: ApprovalTable,
}

/// What waits for an approval at the cortex door, whatever the mode allows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ApprovalTable {
    /// The effects of calls that wait; `["destructive"]` where nothing is said.
    #[serde(alias = "requireFor", deserialize_with = "effects")]
    pub(crate) require_for: Option<Vec<Effect>>,
    /// After how many milliseconds an approval that nobody decided is a no; 300,000 where nothing
    /// is said, 0 for never.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Option<u64>,
}

fn window<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    within(from, 1, "window")
}

fn life<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    within(from, SESSION_TTL_MS_MIN, "life of a session")
}

fn within<'de, D: Deserializer<'de>>(
    from: D,
    least: u64,
    what: &str,
) -> Result<Option<u64>, D::Error> {
    let Some(ms) = Option::<u64>::deserialize(from)? else { return Ok(None) };
    range(ms, least).map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{ms} is no {what}: expected {least} to {MS_MAX} milliseconds"
        ))
    })
}

fn range(ms: u64, least: u64) -> Option<u64> {
    (least..=MS_MAX).contains(&ms).then_some(ms)
}

fn proxies<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse::<TrustedProxies>().map_err(serde::de::Error::custom)?;
    Ok(Some(text))
}

fn effects<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Effect>>, D::Error> {
    let effects = Option::<Vec<Effect>>::deserialize(from)?;
    if effects.iter().flatten().any(|effect| *effect == Effect::Interact) {
        return Err(serde::de::Error::custom(
            "interact is a question itself, and never waits: expected read, write, execute, \
             network or destructive",
        ));
    }
    Ok(effects)
}

/// The settings of the door, each with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct CortexSettings {
    pub(crate) port: Sourced<u16>,
    pub(crate) host: Sourced<String>,
    pub(crate) rate_limit: Sourced<u32>,
    pub(crate) rate_limit_llm: Sourced<u32>,
    pub(crate) rate_limit_window_ms: Sourced<u64>,
    pub(crate) trust_proxy: Sourced<String>,
    pub(crate) tool_preset: Sourced<PresetName>,
    pub(crate) session_ttl_ms: Sourced<u64>,
    pub(crate) require_for: Sourced<Vec<Effect>>,
    pub(crate) approval_ms: Sourced<u64>,
    pub(crate) token: Option<Secret<String>>,
    /// What is wrong with variables: it stops whoever opens this door, and nobody else.
    pub(crate) mistakes: Vec<String>,
}

impl Default for CortexSettings {
    fn default() -> Self {
        let limits = RateLimits::default();
        let window = u64::try_from(limits.window.as_millis()).unwrap_or(u64::MAX);
        Self {
            port: Sourced::built_in(PORT),
            host: Sourced::built_in(HOST.to_owned()),
            rate_limit: Sourced::built_in(limits.general),
            rate_limit_llm: Sourced::built_in(limits.llm),
            rate_limit_window_ms: Sourced::built_in(window),
            trust_proxy: Sourced::built_in("0".to_owned()),
            tool_preset: Sourced::built_in(PresetName::default()),
            session_ttl_ms: Sourced::built_in(SESSION_TTL_MS),
            require_for: Sourced::built_in(vec![Effect::Destructive]),
            approval_ms: Sourced::built_in(APPROVAL_MS),
            token: None,
            mistakes: Vec::new(),
        }
    }
}

impl super::Settings {
    /// Returns what is wrong with the variables of the cortex door.
    pub(crate) fn cortex_mistakes(&self) -> impl Iterator<Item = &String> {
        let all = [&self.cortex.mistakes, &self.neurons.mistakes, &self.mcp.mistakes];
        all.into_iter().flatten()
    }
}

impl CortexSettings {
    /// Takes what a file says.
    pub(super) fn take_document(&mut self, document: &Document, origin: &Origin) {
        let table = document.cortex.clone();
        self.port.take(table.port, origin);
        self.host.take(table.host, origin);
        self.rate_limit.take(table.rate_limit, origin);
        self.rate_limit_llm.take(table.rate_limit_llm, origin);
        self.rate_limit_window_ms.take(table.rate_limit_window_ms, origin);
        self.trust_proxy.take(table.trust_proxy, origin);
        self.tool_preset.take(table.tool_preset, origin);
        self.session_ttl_ms.take(table.session_ttl_ms, origin);
        self.require_for.take(document.agent.approval.require_for.clone(), origin);
        self.approval_ms.take(document.agent.approval.timeout_ms, origin);
    }

    /// Takes what variables say. What is wrong with one is kept in `mistakes`.
    pub(super) fn take_environment(&mut self, environment: &Environment) {
        let mut read = Variables { environment, mistakes: Vec::new() };
        read.number("NSYS_CORTEX_PORT", "a port, 0 to 65535", &mut self.port);
        let count = "a whole number of requests, 0 for no limit";
        read.number("NSYS_CORTEX_RATE_LIMIT", count, &mut self.rate_limit);
        read.number("NSYS_CORTEX_RATE_LIMIT_LLM", count, &mut self.rate_limit_llm);
        let name = "NSYS_CORTEX_RATE_LIMIT_WINDOW_MS";
        read.milliseconds(name, 1, &mut self.rate_limit_window_ms);
        let name = "NSYS_CORTEX_SESSION_TTL_MS";
        read.milliseconds(name, SESSION_TTL_MS_MIN, &mut self.session_ttl_ms);
        read.text(ADDRESS, &mut self.host, |text| Ok(text.to_owned()));
        read.text("NSYS_CORTEX_TRUST_PROXY", &mut self.trust_proxy, |text| {
            text.parse::<TrustedProxies>().map(|_| text.to_owned())
        });
        read.text("NSYS_CORTEX_API_TOOL_PRESET", &mut self.tool_preset, str::parse);
        let mut token = Sourced::built_in(None);
        read.text(TOKEN, &mut token, |text| checked_token(text).map(Some));
        self.token = token.value;
        self.mistakes.append(&mut read.mistakes);
    }

    /// Returns the limits as the door takes them.
    pub(crate) fn limits(&self) -> RateLimits {
        RateLimits {
            general: self.rate_limit.value,
            llm: self.rate_limit_llm.value,
            window: Duration::from_millis(self.rate_limit_window_ms.value),
        }
    }

    /// Returns the proxies that are believed.
    pub(crate) fn proxies(&self) -> TrustedProxies {
        // It was read once already, where it was set.
        self.trust_proxy.value.parse().unwrap_or_default()
    }

    /// Lists the settings.
    pub(super) fn list(&self) -> Vec<Setting> {
        let one = |key: &str, value: String, origin: &Origin| Setting {
            key: key.to_owned(),
            value,
            origin: origin.to_string(),
        };
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let effects: Vec<String> =
            self.require_for.value.iter().map(|effect| effect.as_str().to_owned()).collect();
        let mut list = vec![
            one("cortex.port", self.port.value.to_string(), &self.port.origin),
            one("cortex.host", quoted(&self.host.value), &self.host.origin),
            number("cortex.rate_limit", &self.rate_limit),
            number("cortex.rate_limit_llm", &self.rate_limit_llm),
            number("cortex.rate_limit_window_ms", &self.rate_limit_window_ms),
            one("cortex.trust_proxy", quoted(&self.trust_proxy.value), &self.trust_proxy.origin),
            one(
                "cortex.tool_preset",
                quoted(self.tool_preset.value.as_str()),
                &self.tool_preset.origin,
            ),
            number("cortex.session_ttl_ms", &self.session_ttl_ms),
            one(
                "agent.approval.require_for",
                super::show::texts(&effects),
                &self.require_for.origin,
            ),
            number("agent.approval.timeout_ms", &self.approval_ms),
        ];
        if self.token.is_some() {
            let origin = Origin::Variable(TOKEN.to_owned());
            list.push(one("cortex.token", "(set)".to_owned(), &origin));
        }
        list
    }
}

fn number<T: std::fmt::Display>(key: &str, value: &Sourced<T>) -> Setting {
    Setting {
        key: key.to_owned(),
        value: value.value.to_string(),
        origin: value.origin.to_string(),
    }
}

/// Takes a token that is hard enough to guess and fits into a header. It is not shown.
fn checked_token(text: &str) -> Result<Secret<String>, String> {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || !(TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len()) {
        return Err(format!(
            "expected {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} visible ASCII characters without \
             spaces"
        ));
    }
    Ok(Secret::new(text.to_owned()))
}

/// Reads variables and keeps what is wrong with them.
pub(super) struct Variables<'a> {
    pub(super) environment: &'a Environment,
    pub(super) mistakes: Vec<String>,
}

impl Variables<'_> {
    /// Takes a variable as `parse` reads it.
    pub(super) fn text<T>(
        &mut self,
        name: &str,
        into: &mut Sourced<T>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) {
        let Some(text) = self.environment.variable(name) else { return };
        match parse(text) {
            Ok(value) => into.take(Some(value), &Origin::Variable(name.to_owned())),
            Err(problem) => self.mistakes.push(format!("{name}: {problem}")),
        }
    }

    /// Takes a whole number.
    pub(super) fn number<T: FromStr>(&mut self, name: &str, right: &str, into: &mut Sourced<T>) {
        self.text(name, into, |text| {
            text.trim().parse().map_err(|_| format!("'{text}' is none: expected {right}"))
        });
    }

    fn milliseconds(&mut self, name: &str, least: u64, into: &mut Sourced<u64>) {
        self.text(name, into, |text| {
            let ms = text.trim().parse().ok().and_then(|ms| range(ms, least));
            ms.ok_or_else(|| format!("'{text}' is none: expected {least} to {MS_MAX} milliseconds"))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<CortexSettings, String> {
        let path = Path::new("c.toml");
        let document = Document::parse(text, path).map_err(|failure| failure.message)?;
        let origin = Origin::File(narthex::LayerName::User, path.to_owned());
        let mut settings = CortexSettings::default();
        settings.take_document(&document, &origin);
        settings.take_environment(&Environment::new(Path::new("/"), variables));
        Ok(settings)
    }

    #[test]
    fn without_a_word_it_is_as_the_seed_says() {
        let settings = read("", &[("NSYS_CORTEX_API_TOKEN", "")]).unwrap();
        assert_eq!((settings.port.value, settings.host.value.as_str()), (3100, "127.0.0.1"));
        assert_eq!(settings.limits(), RateLimits::default());
        assert_eq!(settings.require_for.value, [Effect::Destructive]);
        assert_eq!((settings.approval_ms.value, settings.token), (300_000, None));
        assert_eq!(settings.tool_preset.value.preset(), Preset::Coding);
    }

    #[test]
    fn files_are_understood_in_both_spellings_and_variables_win() {
        let text = "[cortex]\nport = 1\nrateLimit = 5\nrate_limit_llm = 0\ntoolPreset = \"admin\"\n\
                    [agent.approval]\nrequireFor = [\"execute\", \"write\"]\ntimeoutMs = 9\n";
        let variables = [
            ("NSYS_CORTEX_PORT", "2"),
            ("NSYS_CORTEX_API_TOKEN", "0123456789abcdef"),
            ("NSYS_CORTEX_TRUST_PROXY", "10.0.0.0/8, ::1"),
            ("NSYS_CORTEX_RATE_LIMIT_WINDOW_MS", "1000"),
        ];
        let settings = read(text, &variables).unwrap();
        assert_eq!(settings.mistakes, Vec::<String>::new());
        let limits = settings.limits();
        assert_eq!((limits.general, limits.llm, limits.window.as_millis()), (5, 0, 1000));
        assert_eq!((settings.port.value, settings.approval_ms.value), (2, 9));
        assert_eq!(settings.port.origin.to_string(), "environment, NSYS_CORTEX_PORT");
        assert_eq!(settings.require_for.value, [Effect::Execute, Effect::Write]);
        assert!(matches!(settings.proxies(), TrustedProxies::Networks(_)));
        let listed = settings.list();
        assert!(!format!("{listed:?}{settings:?}").contains("0123456789"), "{listed:?}");
        let preset = listed.iter().find(|one| one.key == "cortex.tool_preset").unwrap();
        assert_eq!(
            (preset.value.as_str(), preset.origin.as_str()),
            ("\"admin\"", "user settings, c.toml")
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value) in [
            ("NSYS_CORTEX_PORT", "99999"),
            ("NSYS_CORTEX_PORT", "http"),
            ("NSYS_CORTEX_RATE_LIMIT", "many"),
            ("NSYS_CORTEX_RATE_LIMIT_LLM", "-1"),
            ("NSYS_CORTEX_RATE_LIMIT_WINDOW_MS", "15m"),
            ("NSYS_CORTEX_RATE_LIMIT_WINDOW_MS", "0"),
            ("NSYS_CORTEX_SESSION_TTL_MS", "1"),
            ("NSYS_CORTEX_TRUST_PROXY", "yes"),
            ("NSYS_CORTEX_API_TOOL_PRESET", "everything"),
            ("NSYS_CORTEX_API_TOKEN", "secret"),
        ] {
            let mistakes = read("", &[(name, value)]).unwrap().mistakes;
            assert!(mistakes.len() == 1 && mistakes[0].starts_with(name), "{mistakes:?}");
            assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
        }
        for (text, part) in [
            ("[cortex]\nrate_limit_window_ms = 0", "cortex.rate_limit_window_ms: 0 is no window"),
            ("[cortex]\nsession_ttl_ms = 1", "1 is no life of a session"),
            ("[cortex]\ntrust_proxy = \"x\"", "cortex.trust_proxy: 'x'"),
            ("[cortex]\ntool_preset = \"x\"", "cortex.tool_preset: unknown variant `x`"),
            ("[agent.approval]\nrequire_for = [\"interact\"]", "interact is a question itself"),
            ("[agent.approval]\nrequirefor = []", "unknown key 'agent.approval.requirefor'"),
        ] {
            let problem = read(text, &[]).unwrap_err();
            assert!(problem.contains(part), "{problem:?} should contain {part:?}");
        }
    }
}
