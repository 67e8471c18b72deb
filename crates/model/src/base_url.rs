//! Where a wire's requests go, made of a base URL as people write it.

use outbound::Url;
use protocol::Wire;

/// Parses a base URL: `http` or `https` with a host, nothing behind the path.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("{error} in {text:?}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme must be http or https in {text:?}"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("no host in {text:?}"));
    }
    Ok(url)
}

/// Returns the address of a model's streaming call.
pub(crate) fn endpoint(wire: Wire, base: &Url, model: &str) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    let mut parts: Vec<String> = url
        .path_segments()
        .map(|parts| parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
        .unwrap_or_default();
    match wire {
        // The vendor's own tools leave the version out, many people write it.
        Wire::Anthropic => {
            if parts.last().is_none_or(|last| !is_version(last)) {
                parts.push("v1".to_owned());
            }
            parts.push("messages".to_owned());
        }
        Wire::OpenaiResponses => {
            complete_openai(&mut parts);
            parts.push("responses".to_owned());
        }
        Wire::OpenaiChat | Wire::Scripted => {
            complete_openai(&mut parts);
            parts.extend(["chat".to_owned(), "completions".to_owned()]);
        }
        Wire::Gemini => {
            if parts.last().is_none_or(|last| !is_version(last)) {
                parts.push("v1beta".to_owned());
            }
            // `gemini/models/x` is how the vendor's listing names a model.
            let model = model.strip_prefix("models/").unwrap_or(model);
            parts.extend(["models".to_owned(), format!("{model}:streamGenerateContent")]);
            url.set_query(Some("alt=sse"));
        }
    }
    if let Ok(mut path) = url.path_segments_mut() {
        path.clear();
        path.extend(parts);
    }
    url
}

/// A bare host needs the version; whoever writes a path has written all of it.
fn complete_openai(parts: &mut Vec<String>) {
    if parts.is_empty() {
        parts.push("v1".to_owned());
    }
}

fn is_version(part: &str) -> bool {
    let mut letters = part.chars();
    letters.next() == Some('v') && letters.next().is_some_and(|next| next.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: Wire, base: &str, expected: &str) {
        let url = endpoint(wire, &parse(base).unwrap(), "gemini-2.5-pro");
        assert_eq!(url.as_str(), expected, "base {base}");
    }

    #[test]
    fn bases_with_and_without_version_work() {
        let messages = "http://127.0.0.1:9/v1/messages";
        check(Wire::Anthropic, "http://127.0.0.1:9", messages);
        check(Wire::Anthropic, "http://127.0.0.1:9/", messages);
        check(Wire::Anthropic, "http://127.0.0.1:9/v1", messages);
        check(Wire::Anthropic, "http://h/proxy", "http://h/proxy/v1/messages");
        let responses = "https://api.openai.com/v1/responses";
        check(Wire::OpenaiResponses, "https://api.openai.com", responses);
        check(Wire::OpenaiResponses, "https://api.openai.com/v1/", responses);
        check(Wire::OpenaiChat, "http://h:1/v1", "http://h:1/v1/chat/completions");
        check(
            Wire::OpenaiChat,
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/v1/chat/completions",
        );
        check(
            Wire::OpenaiChat,
            "http://h/v1beta/openai/",
            "http://h/v1beta/openai/chat/completions",
        );
        let tail = "models/gemini-2.5-pro:streamGenerateContent?alt=sse";
        check(Wire::Gemini, "http://h", &format!("http://h/v1beta/{tail}"));
        check(Wire::Gemini, "http://h/v1", &format!("http://h/v1/{tail}"));
        check(Wire::Gemini, "http://h/v1beta/", &format!("http://h/v1beta/{tail}"));
    }

    #[test]
    fn a_base_url_without_scheme_or_host_is_refused() {
        for text in ["", "localhost:11434", "ftp://h/", "/v1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
