//! What is read, and what mistakes say.

use super::*;
use crate::{Endpoint, HttpServer, Scope, StdioServer};

fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("secret-token".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn read(text: &str) -> Configured {
    from_json(text, &Origin::Settings, &environment).unwrap()
}

fn one(body: &str) -> Result<Server, String> {
    let mut configured = read(&format!(r#"{{"mcpServers": {{"x": {body}}}}}"#));
    match configured.servers.pop() {
        Some(server) => Ok(server),
        None => Err(configured.mistakes.remove(0).to_string()),
    }
}

#[test]
fn programs_and_addresses_are_read() {
    let text = r#"{
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "${TOKEN}"], "env": {"A": "a-${TOKEN}"},
                      "cwd": "/srv", "alwaysAllow": ["x"], "callTimeoutMs": 5000},
            "web": {"type": "http", "url": "https://mcp.example/mcp#x",
                    "headers": {"X-Key": "${TOKEN}"},
                    "oauth": {"clientId": "me", "scopes": ["a", "b"], "other": 1}},
            "off": {"command": "x", "disabled": true}
        },
        "other": 1
    }"#;
    let configured = read(text);
    assert_eq!(configured.mistakes, []);
    let [files, web] = &configured.servers[..] else { panic!("{configured:?}") };
    let Endpoint::Stdio(StdioServer { command, args, env, cwd, scope }) = &files.endpoint else {
        panic!("{files:?}")
    };
    assert_eq!((*scope, files.is_in_neurons()), (Scope::Host, false));
    assert_eq!((command.as_str(), args[1].expose().as_str()), ("npx", "secret-token"));
    assert_eq!((env[0].0.as_str(), env[0].1.expose().as_str()), ("A", "a-secret-token"));
    assert_eq!(cwd.as_deref(), Some(std::path::Path::new("/srv")));
    assert_eq!((files.call_timeout.as_secs(), web.call_timeout.as_secs()), (5, 60));
    let Endpoint::Http(HttpServer { url, headers, oauth }) = &web.endpoint else {
        panic!("{web:?}")
    };
    assert_eq!(url.as_str(), "https://mcp.example/mcp");
    assert_eq!(headers[0].1.expose().to_str().unwrap(), "secret-token");
    assert_eq!((oauth.client_id.as_deref(), oauth.scopes.len()), (Some("me"), 2));
    let shown = format!("{configured:?}");
    assert!(!shown.contains("secret-token"), "{shown}");
}

#[test]
fn mistakes_name_the_field_and_keep_the_other_servers() {
    for (body, expected) in [
        ("1", "mcpServers.x: expected an object with command or url"),
        ("{}", "mcpServers.x: has neither a command nor a url"),
        (r#"{"command": 1}"#, "mcpServers.x.command: invalid type: integer `1`, expected a string"),
        (r#"{"command": "a", "url": "http://a"}"#, "mcpServers.x.url: there is a command too"),
        (r#"{"command": " "}"#, "mcpServers.x.command: is empty"),
        (r#"{"command": "a", "args": ["${NOPE}"]}"#, "mcpServers.x.args[0]: the variable NOPE is"),
        (r#"{"command": "a", "args": ["${"]}"#, "mcpServers.x.args[0]: '${' without '}'"),
        (r#"{"command": "a", "args": ["${a b}"]}"#, "mcpServers.x.args[0]: '${a b}' names no"),
        (r#"{"command": "a", "env": {"1": "x"}}"#, "mcpServers.x.env.1: is no name"),
        (r#"{"command": "a", "cwd": "here"}"#, "mcpServers.x.cwd: expected an absolute path"),
        (r#"{"command": "a", "headers": {"a": "b"}}"#, "mcpServers.x.headers: belongs to a"),
        (r#"{"command": "a", "callTimeoutMs": 0}"#, "mcpServers.x.call_timeout_ms: expected 1"),
        (r#"{"command": "a", "scope": "pod"}"#, "mcpServers.x.scope: unknown scope 'pod'"),
        (r#"{"url": "http://a", "scope": "neuron"}"#, "mcpServers.x.scope: belongs to a server"),
        (r#"{"type": "sse", "url": "http://a"}"#, "mcpServers.x.type: 'sse' is the old"),
        (r#"{"type": "http"}"#, "mcpServers.x.url: is missing"),
        (r#"{"type": "x"}"#, "mcpServers.x.type: unknown type 'x'"),
        (r#"{"url": "file:///etc"}"#, "mcpServers.x.url: expected http:// or https://"),
        (r#"{"url": "http://u:p@a"}"#, "mcpServers.x.url: a name or password"),
        (r#"{"url": "http://a", "args": ["b"]}"#, "mcpServers.x.args: belongs to a server with a"),
        (r#"{"url": "http://a", "headers": {"Host": "b"}}"#, "mcpServers.x.headers.Host: is set"),
        (
            r#"{"url": "http://a", "oauth": {"clientSecret": "s"}}"#,
            "mcpServers.x.oauth.client_id: is missing",
        ),
        (
            r#"{"url": "http://a", "oauth": {"clientMetadataUrl": "https://a"}}"#,
            "mcpServers.x.oauth.client_metadata_url: expected an https url with a path",
        ),
        (
            r#"{"url": "http://a", "oauth": {"scopes": ["a b"]}}"#,
            "mcpServers.x.oauth.scopes[0]: is no scope",
        ),
    ] {
        let mistake = one(body).unwrap_err();
        assert!(mistake.starts_with(expected), "{body}: {mistake}");
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "a"}}, "x": {body}}}}}"#);
        assert_eq!(read(&text).servers.len(), 1, "{body}");
    }
}

#[test]
fn only_servers_of_ones_own_settings_run_in_neurons() {
    let text = r#"{"mcpServers": {"x": {"command": "a", "scope": "neuron"}}}"#;
    assert!(read(text).servers[0].is_in_neurons());
    let folder = Origin::Folder("/repos/a".into());
    let theirs = from_json(text, &folder, &environment).unwrap();
    let told = theirs.mistakes[0].to_string();
    assert!(told.starts_with("mcpServers.x.scope: only a server of your own settings"), "{told}");
    assert!(theirs.servers.is_empty());
}

#[test]
fn a_file_that_is_none_is_one_mistake() {
    for (text, expected) in [
        ("{", "mcpServers: the file is no JSON"),
        ("[]", "mcpServers: expected an object at the top"),
        (r#"{"mcpServers": []}"#, "mcpServers: expected an object of servers"),
    ] {
        let mistake = from_json(text, &Origin::Settings, &environment).unwrap_err().to_string();
        assert!(mistake.starts_with(expected), "{mistake}");
    }
    assert_eq!(read("{}"), Configured::default());
}

#[test]
fn defaults_of_variables_and_single_dollars() {
    for (text, expected) in [
        ("$HOME $ a$", "$HOME $ a$"),
        ("${NOPE:-x}/${EMPTY:-y}/${EMPTY}", "x/y/"),
        ("${TOKEN:-x}", "secret-token"),
        ("${NOPE:-}", ""),
    ] {
        assert_eq!(expand::expand(text, &environment).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn tables_of_settings_refuse_unknown_keys() {
    let text = "[a]\ncommand = 'x'\ncall_timeout_ms = 1\n[b]\nurl = 'http://127.0.0.1:1/mcp'\n\
                oauth.client_id = 'me'\noauth.client_secret = '${TOKEN}'\n[c]\nenabled = false\n\
                ['\u{20ac}']\ncommand = 'x'";
    let tables: BTreeMap<String, ServerTable> = toml::from_str(text).unwrap();
    let configured = from_tables("mcp.servers", &tables, &Origin::Settings, &environment);
    assert_eq!(configured.servers.len(), 2, "{configured:?}");
    let mistake = configured.mistakes[0].to_string();
    assert!(mistake.starts_with("mcp.servers.\u{20ac}: the name of a server"), "{mistake}");
    let unknown = toml::from_str::<BTreeMap<String, ServerTable>>("[a]\ncomand = 'x'").unwrap_err();
    assert!(unknown.to_string().contains("comand"), "{unknown}");
}

#[test]
fn too_many_servers_are_mistakes() {
    let all: Vec<String> =
        (0..=SERVERS_MAX).map(|n| format!(r#""s{n}": {{"command": "a"}}"#)).collect();
    let configured = read(&format!(r#"{{"mcpServers": {{{}}}}}"#, all.join(",")));
    assert_eq!((configured.servers.len(), configured.mistakes.len()), (SERVERS_MAX, 1));
}
