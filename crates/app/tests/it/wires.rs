//! The main job over each of the four wires: an agent that repairs a real folder.

use serde_json::json;
use testkit::model_server::{Answer, Call, tool_results};

use crate::program::Program;

/// A small project whose test fails until one line is mended.
fn broken_project(program: &Program) {
    program.write("greet.sh", "greet() {\n    echo \"Hello, $1\"\n}\n");
    program
        .write("test.sh", ". ./greet.sh\n[ \"$(greet World)\" = \"Hello, World!\" ] && echo ok\n");
}

fn push_the_job(program: &Program) {
    let look = Answer::text("I look at the project.")
        .and_call(Call::new("list_dir", json!({"path": "."})))
        .and_call(Call::new("run_shell", json!({"command": "sh test.sh"})))
        .and_call(Call::new("read_file", json!({"path": "greet.sh"})));
    let edits = json!([{"old": "Hello, $1\"", "new": "Hello, $1!\""}]);
    let edit = Answer::call("edit_file", json!({"path": "greet.sh", "edits": edits}));
    let test = Answer::call("run_shell", json!({"command": "sh test.sh"}));
    program.server.push_all([look, edit, test, Answer::text("The test passes now.")]);
}

fn repairs(program: &Program, model: &str) {
    broken_project(program);
    push_the_job(program);
    let done = program.run(&["run", "--mode", "full-auto", "--model", model, "make the test pass"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.out.trim(), "The test passes now.");
    assert!(program.read("greet.sh").contains("Hello, $1!"), "{}", program.read("greet.sh"));
    program.server.assert_clean();
    let requests = program.server.requests();
    assert_eq!(requests.len(), 4);
    let first = tool_results(&requests[1]);
    assert_eq!(first.len(), 3);
    assert!(format!("{first:?}").contains("exit code 1"), "{first:?}");
    let last = tool_results(&requests[3]);
    assert!(format!("{last:?}").contains("ok"), "{last:?}");
}

#[test]
fn over_anthropic_messages() {
    repairs(&Program::new(), "anthropic/claude-sonnet-4-6");
}

#[test]
fn over_openai_responses() {
    repairs(&Program::new(), "openai/gpt-5");
}

#[test]
fn over_chat_completions() {
    let program = Program::new();
    std::fs::create_dir_all(program.home()).unwrap();
    let base = program.server.openai_base();
    let settings = format!(
        "[providers.local]\nwire = \"openai-chat\"\nbase_url = \"{base}\"\nkey = \"key-o\"\n"
    );
    std::fs::write(program.home().join("config.toml"), settings).unwrap();
    repairs(&program, "local/some-model");
}

#[test]
fn over_gemini() {
    repairs(&Program::new(), "gemini/gemini-2.5-pro");
}

/// V3: what was sent stays the beginning of what is sent, over steps, prompts and restarts.
#[test]
fn v3_the_prefix_stays_and_cache_reads_grow() {
    let program = Program::new();
    broken_project(&program);
    push_the_job(&program);
    let first = program.run(&["run", "--mode", "full-auto", "make the test pass"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    program.server.push_all([
        Answer::call("read_file", json!({"path": "greet.sh"})),
        Answer::text("It says hello."),
    ]);
    let second = program.run(&["run", "--continue", "--mode", "full-auto", "what does it say?"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let requests = program.server.requests();
    assert_eq!(requests.len(), 6);
    let shared: Vec<u64> = requests.iter().map(|request| request.common_prefix as u64).collect();
    assert!(shared.windows(2).all(|pair| pair[0] <= pair[1]), "{shared:?}");
    assert!(shared[1] > 0 && shared[5] > shared[1], "{shared:?}");
    let system = |index: usize| requests[index].body["system"].clone();
    assert_eq!(system(0), system(5), "the system prompt is the same after a restart");
    program.server.assert_clean();
}

/// H2: thinking goes back byte for byte after a restart too.
#[test]
fn h2_signed_thinking_survives_a_restart() {
    for model in ["anthropic/claude-sonnet-4-6", "openai/gpt-5", "gemini/gemini-2.5-pro"] {
        let program = Program::new();
        program.write("a.txt", "apricot\n");
        program.server.push_all([
            Answer::call("read_file", json!({"path": "a.txt"}))
                .thinking("Let me look: \"ü\" \\ \u{2028} end")
                .signature("c2lnbmVkLWJ5LXRoZS1wcm92aWRlcg=="),
            Answer::text("Apricot."),
            Answer::text("As I said."),
        ]);
        let first = program.run(&["run", "--model", model, "what is in a.txt?"]);
        assert_eq!(first.code, Some(0), "{model}: {first:?}");
        let second = program.run(&["run", "--model", model, "--continue", "sure?"]);
        assert_eq!(second.code, Some(0), "{model}: {second:?}");
        let requests = program.server.requests();
        let sent = String::from_utf8_lossy(&requests[2].raw).into_owned();
        assert!(sent.contains("c2lnbmVkLWJ5LXRoZS1wcm92aWRlcg=="), "{model}: {sent}");
        program.server.assert_clean();
    }
}
