//! Direct commands.

use protocol::RefusalCode;
use runtime_api::neuron::{CodeLanguage, Executed, PackageManager, ToolRan};
use serde_json::json;
use testkit::fake_handle::FakeRuntime;
use testkit::fake_neurons::{FakeNeurons, NeuronCall, neuron_info};

use crate::house::{House, Setting, refused};

fn house(neurons: FakeNeurons) -> House {
    House::with(Setting::new(), FakeRuntime::new(), neurons.neuron(neuron_info("worker")))
}

#[tokio::test]
async fn code_runs_with_its_defaults() {
    let executed = Executed {
        stdout: "hello\n".to_owned(),
        stderr: "err\n".to_owned(),
        exit_code: Some(7),
        duration_ms: 12,
        timed_out: false,
        truncated: true,
    };
    let house = house(FakeNeurons::new().executed(executed));
    let reply = house.post("/neurons/worker/exec", &json!({"code": "echo hello"})).await;
    assert_eq!(reply.status, 200, "a failure of the code is an answer");
    assert_eq!(
        reply.json(),
        json!({"stdout": "hello\n", "stderr": "err\n", "exitCode": 7, "durationMs": 12,
               "timedOut": false, "truncated": true})
    );
    let body = json!({"code": "1", "language": "python", "timeoutMs": 100, "cwd": "sub"});
    house.post("/neurons/worker/exec", &body).await;
    let calls = house.neurons.calls();
    let [NeuronCall::Exec(_, first), NeuronCall::Exec(_, second)] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!((first.language, first.timeout_ms), (CodeLanguage::Bash, 120_000));
    assert_eq!((second.language, second.timeout_ms), (CodeLanguage::Python, 100));
    assert_eq!((first.cwd.as_deref(), second.cwd.as_deref()), (None, Some("sub")));
}

#[tokio::test]
async fn a_timeout_has_no_exit_code() {
    let executed = Executed { timed_out: true, ..Executed::default() };
    let house = house(FakeNeurons::new().executed(executed));
    let reply = house.post("/neurons/worker/exec", &json!({"code": "sleep 9"})).await.json();
    assert_eq!((&reply["timedOut"], &reply["exitCode"]), (&json!(true), &json!(null)));
}

#[tokio::test]
async fn a_tool_runs_directly() {
    let house = house(FakeNeurons::new());
    let body = json!({"tool": "bash", "params": {"command": "ls -la"}});
    let reply = house.post("/neurons/worker/tool", &body).await;
    let expected = json!({"tool": "bash", "ok": true, "output": "done", "durationMs": 1});
    assert_eq!(reply.json(), expected);
    let calls = house.neurons.calls();
    let [NeuronCall::RunTool(_, run)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(run.tool, "bash");
    assert_eq!(run.input["command"], "ls -la");
    assert_eq!(run.offered, ["read", "write", "edit", "bash"]);
}

#[tokio::test]
async fn a_tool_that_fails_is_an_answer_and_wrong_arguments_are_not() {
    let ran = ToolRan { output: "no such file".to_owned(), is_error: true, duration_ms: 3 };
    let invalid = "input.command: is missing, expected a text";
    let neurons = FakeNeurons::new().ran(ran).refuse("run_tool", RefusalCode::Invalid, invalid);
    let house = house(neurons);
    let body = json!({"tool": "bash"});
    let reply = house.post("/neurons/worker/tool", &body).await;
    assert_eq!(reply.paths(), ["params.command"]);
    let reply = house.post("/neurons/worker/tool", &body).await;
    assert_eq!(reply.status, 200);
    let expected = json!({"tool": "bash", "ok": false, "output": "no such file",
                          "error": "no such file", "durationMs": 3});
    assert_eq!(reply.json(), expected);
}

#[tokio::test]
async fn tools_are_those_of_the_preset_that_exist() {
    for (preset, expected) in [
        ("coding", vec!["read", "write", "edit", "bash"]),
        ("readonly", vec!["read", "list_dir", "glob", "grep"]),
        ("minimal", vec!["read", "bash"]),
        ("admin", vec!["read", "write", "edit", "bash", "list_dir", "glob", "grep", "apply_patch"]),
    ] {
        let mut setting = Setting::new();
        setting.options.preset = door_cortex::Preset::parse(preset).unwrap();
        let neurons = FakeNeurons::new().neuron(neuron_info("worker"));
        let house = House::with(setting, FakeRuntime::new(), neurons);
        let tools = house.get("/neurons/worker/tools").await.json();
        let names: Vec<_> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, expected, "{preset}");
        let first = json!({"name": "read", "description": "The tool read.",
                           "inputSchema": {"type": "object"}, "effectClass": "read",
                           "requiresApproval": false});
        assert_eq!(tools["tools"][0], first);
    }
}

#[tokio::test]
async fn packages_are_installed() {
    let executed = Executed { exit_code: Some(0), ..Executed::default() };
    let house = house(FakeNeurons::new().executed(executed));
    let body = json!({"packages": ["ripgrep", "@scope/x@1.2"], "manager": "npm"});
    let reply = house.post("/neurons/worker/install", &body).await.json();
    assert_eq!((&reply["ok"], &reply["manager"]), (&json!(true), &json!("npm")));
    assert_eq!(reply["packages"], json!(["ripgrep", "@scope/x@1.2"]));
    let calls = house.neurons.calls();
    let [NeuronCall::Install(_, install)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((install.manager, install.timeout_ms), (PackageManager::Npm, 1_800_000));
}

#[tokio::test]
async fn commands_to_an_unknown_neuron_are_not_found() {
    let house = house(FakeNeurons::new());
    for (path, body) in [
        ("/neurons/absent/exec", json!({"code": "true"})),
        ("/neurons/absent/tool", json!({"tool": "bash"})),
        ("/neurons/absent/install", json!({"packages": ["a"]})),
        ("/sessions", json!({"agentId": "absent"})),
    ] {
        assert_eq!(house.post(path, &body).await.code(), refused(404, "NOT_FOUND"), "{path}");
    }
    assert_eq!(house.get("/neurons/absent/tools").await.code(), refused(404, "NOT_FOUND"));
    // No driver takes snapshots, whatever neuron is meant, and whatever comes with the request.
    let reply = house.post_text("/neurons/absent/snapshot", "{").await;
    assert_eq!(reply.code(), refused(501, "NOT_SUPPORTED"));
}
