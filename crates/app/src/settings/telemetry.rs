//! Where a server sends its traces.

use std::collections::BTreeMap;

use door_cli::Setting;
use outbound::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use stdx::Secret;

use super::document::{Document, secrets};
use super::providers::shown_url;
use super::{Origin, Sourced};
use crate::environment::Environment;

/// The name of the service where nothing else is said.
const SERVICE: &str = "narthex";

/// Traces of a server, sent to a collector with OTLP over HTTP. Not in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TelemetryTable {
    /// The collector, for example `http://127.0.0.1:4318`. No traces where nothing is said.
    #[serde(alias = "otlpEndpoint")]
    pub(crate) otlp_endpoint: Option<String>,
    /// The name of the service; `narthex` where nothing is said.
    #[serde(alias = "serviceName")]
    pub(crate) service_name: Option<String>,
    /// Headers of every request to the collector.
    #[serde(deserialize_with = "secrets")]
    #[schemars(with = "BTreeMap<String, String>", extend("default" = {}))]
    pub(crate) headers: BTreeMap<String, Secret<String>>,
}

/// The settings of traces, each with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TelemetrySettings {
    pub(crate) otlp_endpoint: Sourced<Option<String>>,
    pub(crate) service_name: Sourced<String>,
    pub(crate) headers: Sourced<BTreeMap<String, Secret<String>>>,
    /// What whoever sends traces is to be told.
    pub(crate) notice: Option<String>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            otlp_endpoint: Sourced::built_in(None),
            service_name: Sourced::built_in(SERVICE.to_owned()),
            headers: Sourced::built_in(BTreeMap::new()),
            notice: None,
        }
    }
}

impl TelemetrySettings {
    /// Takes what a file says.
    pub(super) fn take_document(&mut self, document: &Document, origin: &Origin) {
        let TelemetryTable { otlp_endpoint, service_name, headers } = &document.telemetry;
        self.otlp_endpoint.take_some(otlp_endpoint.as_ref(), origin);
        self.service_name.take(service_name.clone(), origin);
        self.headers.take((!headers.is_empty()).then(|| headers.clone()), origin);
    }

    /// Takes what the variables say under which other programs know it.
    pub(super) fn take_environment(&mut self, environment: &Environment) {
        let origin = |name: &str| Origin::Variable(name.to_owned());
        let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let value = environment.variable(endpoint).map(str::to_owned);
        if let Some(value) = &value {
            self.keep_headers_from(value);
        }
        self.otlp_endpoint.take_some(value.as_ref(), &origin(endpoint));
        let name = "OTEL_SERVICE_NAME";
        self.service_name.take(environment.variable(name).map(str::to_owned), &origin(name));
    }

    /// Leaves the headers out, which may be a key, where a file names another server for them.
    fn keep_headers_from(&mut self, endpoint: &str) {
        let Some(meant) = self.otlp_endpoint.value.as_deref() else { return };
        let is_same = matches!(
            (Url::parse(meant), Url::parse(endpoint)),
            (Ok(meant), Ok(other)) if meant.origin() == other.origin()
        );
        if is_same || self.headers.value.is_empty() {
            return;
        }
        self.headers.value.clear();
        self.notice = Some(format!(
            "telemetry.headers are for {} and were left out: OTEL_EXPORTER_OTLP_ENDPOINT names \
             another server",
            shown_url(meant)
        ));
    }

    /// Lists the settings, without secrets.
    pub(super) fn list(&self) -> Vec<Setting> {
        let one = |key: &str, value: String, origin: &Origin| Setting {
            key: format!("telemetry.{key}"),
            value,
            origin: origin.to_string(),
        };
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let endpoint = self.otlp_endpoint.value.as_deref().map(|url| quoted(&shown_url(url)));
        let mut list = vec![
            one("otlp_endpoint", endpoint.unwrap_or_default(), &self.otlp_endpoint.origin),
            one("service_name", quoted(&self.service_name.value), &self.service_name.origin),
        ];
        let headers = self.headers.value.keys();
        list.extend(
            headers.map(|name| {
                one(&format!("headers.{name}"), "(set)".to_owned(), &self.headers.origin)
            }),
        );
        list
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn variables_win_over_the_file_and_nothing_shows_a_secret() {
        let text = "[telemetry]\notlp_endpoint = \"http://me:pass@box:4318\"\n\
                    headers = { authorization = \"Bearer secret\" }\n";
        let path = Path::new("c.toml");
        let document = Document::parse(text, path).unwrap();
        let mut settings = TelemetrySettings::default();
        let origin = Origin::File(narthex::LayerName::User, path.to_owned());
        settings.take_document(&document, &origin);
        let shown = format!("{:?}{settings:?}", settings.list());
        assert!(shown.contains("http://…@box:4318") && shown.contains("(set)"), "{shown}");
        assert!(!format!("{:?}", settings.list()).contains("pass"), "{shown}");
        assert!(!shown.contains("Bearer secret"), "{shown}");
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_SERVICE_NAME", "mine")];
        settings.take_environment(&Environment::new(Path::new("/"), &variables));
        let notice = settings.notice.unwrap();
        assert!(notice.contains("http://…@box:4318") && !notice.contains("pass"), "{notice}");
        assert!(settings.headers.value.is_empty());
        assert_eq!(settings.otlp_endpoint.value.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(settings.service_name.value, "mine");
        let wrong = "[telemetry]\nheaders = { authorization = [\"very-secret\"] }\n";
        let problem = Document::parse(wrong, path).unwrap_err().message;
        assert!(!problem.contains("very-secret"), "{problem}");
    }

    #[test]
    fn headers_go_where_the_file_says_or_where_it_says_nothing() {
        for (file, variable, count) in [
            ("otlp_endpoint = \"http://box:4318\"", "http://box:4318/v1/traces", 1),
            ("otlp_endpoint = \"http://box:4318\"", "http://box:4319", 0),
            ("otlp_endpoint = \"http://box:4318\"", "https://box:4318", 0),
            ("otlp_endpoint = \"http://box:4318\"", "nowhere", 0),
            ("", "http://other:4318", 1),
        ] {
            let text = format!("[telemetry]\n{file}\nheaders = {{ authorization = \"key\" }}\n");
            let path = Path::new("c.toml");
            let mut settings = TelemetrySettings::default();
            let origin = Origin::File(narthex::LayerName::User, path.to_owned());
            settings.take_document(&Document::parse(&text, path).unwrap(), &origin);
            let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", variable)];
            settings.take_environment(&Environment::new(Path::new("/"), &variables));
            let kept = settings.headers.value.len();
            assert_eq!((kept, settings.notice.is_none()), (count, count == 1), "{file} {variable}");
        }
    }
}
