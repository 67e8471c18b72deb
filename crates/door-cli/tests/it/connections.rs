//! `narthex connections` in front of a program with two servers.

use door_cli::{ConnectionInfo, ConnectionMachine, Failure, Globals, Stop};
use serde_json::{Value, json};
use testkit::fake_handle::FakeRuntime;

use crate::stand::{FakeMachine, Outcome, Stand};

/// A server at which a browser never comes back.
const ENDLESS: &str = "endless";

fn known(name: &str, what: &str) -> ConnectionInfo {
    ConnectionInfo {
        name: name.to_owned(),
        what: what.to_owned(),
        origin: "user settings, /home/config.toml".to_owned(),
        state: None,
        tools: None,
        error: None,
        is_connected: false,
    }
}

fn all() -> Vec<ConnectionInfo> {
    vec![known("files", "mcp-files …"), known("issues", "https://mcp.example/mcp")]
}

impl ConnectionMachine for FakeMachine {
    fn connections(
        &self,
        globals: &Globals,
    ) -> Result<(Vec<ConnectionInfo>, Vec<String>), Failure> {
        match globals.no_mcp {
            true => Ok((Vec::new(), Vec::new())),
            false => Ok((all(), vec!["something is odd".to_owned()])),
        }
    }

    async fn try_connections(
        &self,
        globals: &Globals,
    ) -> Result<(Vec<ConnectionInfo>, Vec<String>), Failure> {
        let mut list = all();
        for (place, one) in list.iter_mut().enumerate() {
            one.is_connected = place == 0 || globals.trust_project;
            let state = if one.is_connected { "connected" } else { "waiting" };
            one.state = Some(state.to_owned());
            one.tools = Some(3);
            one.error = (!one.is_connected).then(|| "it did not\u{1b}[2J answer".to_owned());
        }
        Ok((list, Vec::new()))
    }

    async fn authorize(
        &self,
        _: &Globals,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        show("https://auth.example/authorize?state=x");
        match name {
            ENDLESS => std::future::pending().await,
            "issues" => {
                // Whoever shows the address gets the time for it.
                tokio::task::yield_now().await;
                Ok(())
            }
            _ => Err(Failure::usage(format!("no MCP server is named '{name}'"))),
        }
    }

    async fn forget_tokens(&self, _: &Globals, name: &str) -> Result<bool, Failure> {
        Ok(name == "issues")
    }
}

fn stand() -> Stand {
    Stand::new(FakeRuntime::default())
}

fn run(args: &[&str]) -> Outcome {
    stand().run(&[&["connections"], args].concat())
}

#[test]
fn what_is_configured_is_listed_for_people_and_for_programs() {
    for args in [&[][..], &["list"]] {
        let outcome = run(args);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let told = "files   mcp-files …  # user settings, /home/config.toml
issues  https://mcp.example/mcp  # user settings, /home/config.toml
";
        assert_eq!(outcome.out, told);
        assert!(outcome.err.contains("something is odd"), "{outcome:?}");
    }
    let listed: Value = serde_json::from_str(&run(&["list", "--json"]).out).unwrap();
    let expected = json!({
        "name": "files", "what": "mcp-files …", "origin": "user settings, /home/config.toml",
    });
    assert_eq!(listed["connections"][0], expected);
    let outcome = run(&["list", "--no-mcp"]);
    assert!(outcome.out.is_empty() && outcome.err.contains("no MCP servers"), "{outcome:?}");
}

#[test]
fn the_exit_code_tells_whether_all_are_there() {
    let outcome = run(&["status"]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.out.contains("files   connected, 3 tools  mcp-files …"), "{outcome:?}");
    assert!(outcome.out.contains("issues  waiting"), "{outcome:?}");
    assert!(!outcome.out.contains('\u{1b}'), "{outcome:?}");
    assert_eq!(run(&["status", "--trust-project"]).code, 0);
    let listed: Value = serde_json::from_str(&run(&["status", "--json"]).out).unwrap();
    assert_eq!(listed["connections"][1]["state"], "waiting");
}

#[test]
fn logging_in_shows_the_address_and_can_be_given_up() {
    let outcome = run(&["login", "issues"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, ""), "{outcome:?}");
    let shown = outcome.err.find("https://auth.example/authorize?state=x");
    assert!(shown.is_some() && outcome.err.contains("let this program in"), "{outcome:?}");
    assert_eq!(run(&["login", "other"]).code, 2);
    let outcome = stand().stops(&[Stop::Interrupt]).run(&["connections", "login", ENDLESS]);
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(run(&["logout", "issues"]).err.contains("are forgotten"));
    assert!(run(&["logout", "files"]).err.contains("no tokens of files"));
}
