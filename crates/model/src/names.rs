//! From a name to a model.

use std::sync::Arc;

use driver_api::{Model, ModelInfo, Models};
use outbound::{HeaderMap, HeaderName, HeaderValue, Url};
use protocol::{Refusal, RefusalCode, Wire};

use crate::client::Http;
use crate::provider::{Error, Options, Provider, key_variable};
use crate::remote::Remote;
use crate::scripted::{self, Scenario};
use crate::structured::Schemas;
use crate::table::{self, Thinking};
use crate::wire::{Target, key_header};
use crate::{anthropic, base_url};

/// How alike a name must be to be offered; below it offers are more often wrong than right.
const LIKENESS_MIN: f64 = 0.75;

/// Builds the models of settings. Opens no connection and reads no file but the scenario, where
/// one is named.
///
/// # Errors
/// [`Error`] names the provider or file and what is wrong with it.
pub fn build(options: Options) -> Result<Arc<dyn Models>, Error> {
    let mut servers: Vec<Server> = Vec::with_capacity(options.providers.len());
    for provider in options.providers {
        if servers.iter().any(|server| server.provider.name == provider.name) {
            return Err(Error::Twice(provider.name));
        }
        servers.push(Server::new(provider)?);
    }
    let scenario = options.scenario.map(|path| Scenario::load(&path)).transpose()?;
    // Read now, so that a broken table is a fault of the start and not of a request.
    table::find("")?;
    Ok(Arc::new(Known { servers, scenario: scenario.map(Arc::new), http: Arc::default() }))
}

/// A provider whose settings were checked.
#[derive(Debug)]
pub(crate) struct Server {
    provider: Provider,
    base: Url,
    headers: HeaderMap,
}

#[derive(Debug)]
struct Known {
    servers: Vec<Server>,
    scenario: Option<Arc<Scenario>>,
    http: Arc<Http>,
}

impl Models for Known {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, Refusal> {
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) => (provider, model),
            None if name == scripted::NAME => (name, ""),
            None => match vendor_of(name) {
                Some(vendor) => (vendor, name),
                None => return Err(self.unknown(name)),
            },
        };
        if provider == scripted::NAME {
            return scripted::model(self.scenario.clone(), model);
        }
        if model.trim().is_empty() {
            return Err(invalid(format!("{name:?} names no model; write {provider}/MODEL")));
        }
        match self.servers.iter().find(|server| server.provider.name == provider) {
            Some(server) => Ok(Arc::new(server.model(model, &self.http)?)),
            None => Err(self.unknown(name)),
        }
    }

    /// The table's models of each vendor whose server is set under its usual name and can be
    /// asked, then the scripted one.
    fn list(&self) -> Vec<ModelInfo> {
        let mut infos: Vec<ModelInfo> =
            self.servers.iter().flat_map(|server| server.listed(&self.http)).collect();
        let scripted = scripted::model(self.scenario.clone(), "");
        infos.extend(scripted.map(|model| model.info().clone()));
        infos
    }
}

impl Known {
    fn unknown(&self, name: &str) -> Refusal {
        let known: Vec<&str> = self
            .servers
            .iter()
            .map(|server| server.provider.name.as_str())
            .chain([scripted::NAME])
            .collect();
        let (provider, model) = match (name.split_once('/'), vendor_of(name)) {
            (Some((provider, model)), _) => (provider, Some(model)),
            (None, Some(vendor)) => (vendor, Some(name)),
            (None, None) => (name, None),
        };
        let mut message = match model {
            Some(_) => {
                format!("cannot resolve the model {name:?}: no provider {provider:?} is set")
            }
            None => format!("cannot resolve the model {name:?}: write provider/model"),
        };
        if let Some(close) = closest(provider, &known) {
            let tail = model.filter(|_| close != scripted::NAME);
            let tail = tail.map(|model| format!("/{model}")).unwrap_or_default();
            message.push_str(&format!("; did you mean {close}{tail}?"));
        }
        message.push_str(&format!("; providers that can be used: {}", known.join(", ")));
        invalid(message)
    }
}

impl Server {
    /// The table's models of a vendor whose server is set under its usual name and can be asked.
    fn listed(&self, http: &Arc<Http>) -> Vec<ModelInfo> {
        let rows = table::rows().unwrap_or_default();
        let Provider { name, wire, .. } = &self.provider;
        let mut infos = Vec::new();
        let offered = rows.iter().filter(|row| row.price_wires.contains(wire));
        for model in offered.flat_map(|row| &row.listed) {
            if vendor_of(model) == Some(name.as_str())
                && let Ok(remote) = self.model(model, http)
                && remote.missing_key.is_none()
            {
                infos.push(remote.info);
            }
        }
        infos
    }

    pub(crate) fn new(mut provider: Provider) -> Result<Self, Error> {
        let name = &provider.name;
        let bad = |letter: char| letter == '/' || letter.is_whitespace() || letter.is_control();
        if name.is_empty() || name == scripted::NAME || name.contains(bad) {
            return Err(Error::Name(name.clone()));
        }
        if provider.wire == Wire::Scripted {
            return Err(Error::Scripted(name.clone()));
        }
        let base = base_url::parse(&provider.base_url)
            .map_err(|reason| Error::BaseUrl { provider: name.clone(), reason })?;
        let headers = headers(&provider)?;
        // They may hold keys, and only the map marks them as not to be printed.
        provider.headers.clear();
        Ok(Self { provider, base, headers })
    }

    /// Returns its address.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    pub(crate) fn model(&self, model: &str, http: &Arc<Http>) -> Result<Remote, Refusal> {
        let Provider { name, wire, key, structured_output, .. } = &self.provider;
        let entry = table::find(model).map_err(|error| invalid(error.to_string()))?;
        let images = entry.map_or(*wire != Wire::OpenaiChat, |entry| entry.images);
        let host = self.base.host_str().unwrap_or_default();
        let is_openai = host == "api.openai.com" || name == "openai";
        // Models of later days on this wire reason; the table names those that do not.
        let unknown =
            if *wire == Wire::OpenaiResponses { Thinking::Effort } else { Thinking::None };
        let thinking = entry.map_or(unknown, |entry| entry.thinking);
        let max_output = entry.and_then(|entry| entry.max_output);
        let has_key = key.as_ref().is_some_and(|key| !key.expose().is_empty());
        let brings_own = ["authorization", "x-api-key", "x-goog-api-key"]
            .iter()
            .any(|header| self.headers.contains_key(*header));
        Ok(Remote {
            info: ModelInfo {
                id: format!("{name}/{model}"),
                provider: name.clone(),
                wire: *wire,
                context_window: entry.and_then(|entry| entry.context_window),
                max_output,
                price: entry.and_then(|entry| entry.price_on(*wire)),
                images,
            },
            target: Target {
                model: model.to_owned(),
                thinking,
                max_output,
                images,
                is_openai,
                schemas: Schemas::of(*structured_output, *wire, model, is_openai),
            },
            url: base_url::endpoint(*wire, &self.base, model),
            headers: self.headers.clone(),
            key: key.clone(),
            missing_key: key_variable(host).filter(|_| !has_key && !brings_own),
            http: Arc::clone(http),
        })
    }
}

/// Lists the table's models of a vendor whose server may be asked under its usual name.
pub(crate) fn listed(provider: &Provider, http: &Arc<Http>) -> Vec<ModelInfo> {
    Server::new(provider.clone()).map(|server| server.listed(http)).unwrap_or_default()
}

/// Makes the headers of every request.
fn headers(provider: &Provider) -> Result<HeaderMap, Error> {
    let wrong = |what: &str| Error::Header { provider: provider.name.clone(), what: what.into() };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if provider.wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
    }
    if let Some(key) = provider.key.as_ref().filter(|key| !key.expose().is_empty()) {
        let (name, value) = key_header(provider.wire, key.expose().trim());
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong("key"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &provider.headers {
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong(name))?;
        // Further headers often carry a key of their own.
        value.set_sensitive(true);
        let header = HeaderName::try_from(name).map_err(|_| wrong(name))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Returns the vendor that a bare name tells.
pub(crate) fn vendor_of(name: &str) -> Option<&'static str> {
    let mut letters = name.chars();
    let is_o_series = letters.next() == Some('o')
        && letters.next().is_some_and(|digit| ('1'..='9').contains(&digit))
        && letters.next().is_none_or(|next| next == '-');
    match name {
        _ if name.starts_with("claude-") => Some("anthropic"),
        _ if name.starts_with("gpt-") || name.starts_with("chatgpt-") || is_o_series => {
            Some("openai")
        }
        _ if name.starts_with("gemini-") => Some("gemini"),
        _ => None,
    }
}

fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(&name, candidate), *candidate))
        .filter(|(likeness, candidate)| *likeness >= LIKENESS_MIN && *candidate != name)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalCode::InvalidModel, message)
}

#[cfg(test)]
mod tests;
