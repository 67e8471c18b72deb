//! Neurons that are folders, with the native tools in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use driver_api::{EgressCredential, EgressRule, SystemClock, Writes};
use policy::{Layer, LayerName, Policy, Rule};
use runtime_api::neuron::{CodeLanguage, OverlayChange, PackageManager};
use runtime_api::{Interrupt, SessionInfo, SessionState};
use serde_json::{Map, Value, json};
use stdx::Secret;
use testkit::clock::{TestClock, TestIds};
use testkit::fake_handle::{Call, FakeRuntime, session_info};
use testkit::memory_neurons::MemoryNeurons;

use super::*;

/// Checks that find something in every change of a file whose name they do not like.
#[derive(Debug)]
struct Picky;

#[async_trait]
impl Checks for Picky {
    async fn examine(
        &self,
        change: &driver_api::PendingChange,
        _: &dyn Workspace,
    ) -> Result<Vec<protocol::Finding>, driver_api::Fault> {
        if change.input.values().any(|value| value == "broken") {
            return Err(driver_api::Fault::new("run the check"));
        }
        let text = format!("{change:?}");
        let blocking = text.contains("forbidden");
        let finding = protocol::Finding {
            rule_id: "names".to_owned(),
            severity: "error".to_owned(),
            message: "not this one".to_owned(),
            path: None,
            line: None,
            blocking,
        };
        Ok(vec![finding])
    }
}

/// The runtime of neurons of a test.
struct Stand {
    neurons: Arc<MemoryNeurons>,
    policies: Policies,
    spill: tempfile::TempDir,
    handle: NeuronHandle,
    id: NeuronId,
}

impl Stand {
    fn with(neurons: MemoryNeurons, policy: Policy) -> Self {
        Self::beside(neurons, policy, None)
    }

    fn beside(neurons: MemoryNeurons, policy: Policy, sessions: Option<Handle>) -> Self {
        Self::checked(neurons, policy, sessions, None)
    }

    fn checked(
        neurons: MemoryNeurons,
        policy: Policy,
        sessions: Option<Handle>,
        checks: Option<Arc<dyn Checks>>,
    ) -> Self {
        let (neurons, policies) = (Arc::new(neurons), Policies::new(policy));
        let spill = tempfile::tempdir().unwrap();
        // Where there are sessions nothing runs, and time may fly.
        let clock: Arc<dyn Clock> = match &sessions {
            Some(_) => Arc::new(TestClock::default()),
            None => Arc::new(SystemClock::default()),
        };
        let handle = neuron_runtime(NeuronOptions {
            neurons: Arc::clone(&neurons) as _,
            tools: ::tools::native().into_iter().chain(::tools::chosen()).collect(),
            policies: policies.clone(),
            checks,
            defaults: NeuronDefaults {
                driver: NeuronDriver::Namespace,
                isolation: IsolationLevel::Full,
                limits: NeuronLimits { pids: Some(64), ..NeuronLimits::default() },
                egress: Egress { allow: vec![rule("packages.example")], credentials: vec![] },
                env: vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "1".to_owned())],
            },
            clock,
            ids: Arc::new(TestIds::default()),
            spill: spill.path().to_owned(),
            user_home: Some(PathBuf::from("/home/me")),
            sessions,
        });
        Self { neurons, policies, spill, handle, id: NeuronId::new("n1") }
    }

    async fn new() -> Self {
        let stand = Self::with(MemoryNeurons::default(), Policy::default());
        stand.handle.create(CreateNeuron::new(stand.id.clone())).await.unwrap();
        stand
    }

    async fn exec(&self, language: CodeLanguage, code: &str) -> Result<Executed, Error> {
        let (code, timeout_ms) = (code.to_owned(), 60_000);
        self.handle.exec(&self.id, Exec { code, language, timeout_ms, cwd: None }).await
    }

    async fn bash(&self, code: &str) -> Executed {
        self.exec(CodeLanguage::Bash, code).await.unwrap()
    }

    async fn run(&self, tool: &str, input: Value) -> Result<ToolRan, Error> {
        let Value::Object(input) = input else { panic!("an object is expected") };
        self.handle.run_tool(&self.id, run_of(tool, input)).await
    }

    async fn install(&self, manager: PackageManager, names: &[&str]) -> Result<Executed, Error> {
        let packages = names.iter().map(|name| (*name).to_owned()).collect();
        let install = Install { manager, packages, timeout_ms: 60_000 };
        self.handle.install(&self.id, install).await
    }
}

fn run_of(tool: &str, input: Map<String, Value>) -> ToolRun {
    let names = ["read", "write", "edit", "bash", "grep", "ask_question"];
    let further = ["process_start", "process_list", "process_kill", "elevated"];
    let offered = names.into_iter().chain(further).map(str::to_owned).collect::<Vec<_>>();
    ToolRun { tool: tool.to_owned(), input, offered }
}

fn rule(host: &str) -> EgressRule {
    EgressRule { host: host.to_owned(), port: None, methods: vec![], allows_private: false }
}

fn denying(rules: &[&str]) -> Policy {
    let mut layer = Layer::new(LayerName::Managed);
    layer.deny = rules.iter().map(|rule| rule.parse::<Rule>().unwrap()).collect();
    Policy::default().tighten(layer)
}

/// Returns the code and words of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (RefusalCode, String) {
    match answer {
        Err(Error::Refusal(refusal)) => (refusal.code, refusal.message),
        other => panic!("a refusal is expected, got {other:?}"),
    }
}

#[tokio::test]
async fn a_neuron_is_filled_in_with_the_defaults() {
    let stand = Stand::new().await;
    let spec = stand.neurons.spec(&stand.id);
    assert_eq!((spec.driver, spec.isolation), (NeuronDriver::Namespace, IsolationLevel::Full));
    assert_eq!((spec.limits.pids, spec.egress.allow), (Some(64), vec![rule("packages.example")]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("here.txt"), "x").unwrap();
    let wanted = CreateNeuron {
        driver: Some(NeuronDriver::Host),
        isolation: Some(IsolationLevel::None),
        folder: Some(folder.path().join(".")),
        env: vec![("B".to_owned(), "2".to_owned())],
        limits: NeuronLimits { memory_bytes: Some(64 << 20), ..NeuronLimits::default() },
        egress: Some(Egress::default()),
        ..CreateNeuron::new(NeuronId::new("n2"))
    };
    stand.handle.create(wanted).await.unwrap();
    let spec = stand.neurons.spec(&NeuronId::new("n2"));
    let env: BTreeMap<_, _> = spec.env.into_iter().collect();
    assert_eq!((env["A"].as_str(), env["B"].as_str(), env.len()), ("1", "2", 2));
    assert_eq!((spec.limits.memory_bytes, spec.limits.pids), (Some(64 << 20), Some(64)));
    assert_eq!(spec.folder, Some(folder.path().canonicalize().unwrap()));
    assert!(spec.egress.allow.is_empty() && spec.driver == NeuronDriver::Host);
    let listed = stand.handle.list().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(stand.handle.isolation(None).await.level, IsolationLevel::Full);
}

#[tokio::test]
async fn what_is_wrong_with_a_new_neuron_is_named() {
    let stand = Stand::new().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let plain = || CreateNeuron::new(NeuronId::new("n2"));
    let env =
        |name: &str, value: String| CreateNeuron { env: vec![(name.to_owned(), value)], ..plain() };
    let folder = |path: &Path| CreateNeuron { folder: Some(path.to_owned()), ..plain() };
    let limits = |limits| CreateNeuron { limits, ..plain() };
    let egress = |egress| CreateNeuron { egress: Some(egress), ..plain() };
    let allow = |rule| egress(Egress { allow: vec![rule], credentials: vec![] });
    let add = |header: &str, value: &str| {
        let credential = EgressCredential {
            host: "*.example.com".to_owned(),
            header: header.to_owned(),
            prefix: String::new(),
            value: Secret::new(value.to_owned()),
            variable: Some("1KEY".to_owned()),
        };
        egress(Egress { allow: vec![], credentials: vec![credential] })
    };
    let twice = vec![("A".to_owned(), String::new()), ("A".to_owned(), String::new())];
    for (wanted, field) in [
        (CreateNeuron::new(NeuronId::new("..")), "id:"),
        (CreateNeuron::new(NeuronId::new("x".repeat(65))), "id:"),
        (env("A B", String::new()), "env:"),
        (env("1A", String::new()), "env:"),
        (env("A", "x".repeat(5_000)), "env.A:"),
        (CreateNeuron { env: twice, ..plain() }, "env.A: it is there twice"),
        (folder(Path::new("relative")), "folder:"),
        (folder(Path::new("/no/such/folder")), "folder:"),
        (folder(file.path()), "folder:"),
        (folder(Path::new("/")), "folder:"),
        (CreateNeuron { writes: Writes::Folder, ..plain() }, "writes:"),
        (limits(NeuronLimits { memory_bytes: Some(1), ..Default::default() }), "limits.memory"),
        (limits(NeuronLimits { pids: Some(1), ..Default::default() }), "limits.pids"),
        (limits(NeuronLimits { cpu_millis: Some(0), ..Default::default() }), "limits.cpu_millis"),
        (limits(NeuronLimits { disk_bytes: Some(9), ..Default::default() }), "limits.disk_bytes"),
        (allow(rule("https://example.com")), "egress.allow[0].host:"),
        (allow(rule("a..b")), "egress.allow[0].host:"),
        (allow(EgressRule { port: Some(0), ..rule("a.b") }), "egress.allow[0].port:"),
        (allow(EgressRule { methods: vec!["get".into()], ..rule("a") }), "egress.allow[0].methods"),
        (add("x y", "v"), "egress.credentials[0].header:"),
        (add("authorization", "secret\nline"), "egress.credentials[0].value:"),
        (add("authorization", "secret"), "egress.credentials[0].variable:"),
    ] {
        let (code, message) = refusal(stand.handle.create(wanted).await);
        assert!(code == RefusalCode::Invalid && message.starts_with(field), "{field}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    assert_eq!(stand.handle.list().await.unwrap().len(), 1, "nothing was created");
}

#[tokio::test]
async fn drivers_and_policies_say_no() {
    let stand = Stand::with(
        MemoryNeurons::with_isolation(IsolationLevel::Partial),
        denying(&["read_file(/etc/**)", "write_file(/usr/**)"]),
    );
    let wanted = || CreateNeuron::new(stand.id.clone());
    let created = stand.handle.create(wanted()).await;
    assert_eq!(refusal(created).0, RefusalCode::NotSupported, "never less than was asked for");
    let folder = |path: &str, writes| CreateNeuron {
        folder: Some(PathBuf::from(path)),
        isolation: Some(IsolationLevel::None),
        writes,
        ..wanted()
    };
    for (path, writes) in [("/etc", Writes::Overlay), ("/usr/bin", Writes::Folder)] {
        let (code, message) = refusal(stand.handle.create(folder(path, writes)).await);
        assert_eq!(code, RefusalCode::LockedByPolicy, "{path}: {message}");
    }
    let full = Stand::with(MemoryNeurons::with_limit(1), Policy::default());
    full.handle.create(CreateNeuron::new(NeuronId::new("a"))).await.unwrap();
    let again = full.handle.create(CreateNeuron::new(NeuronId::new("a"))).await;
    assert_eq!(refusal(again).0, RefusalCode::NeuronExists);
    let second = full.handle.create(CreateNeuron::new(NeuronId::new("b"))).await;
    assert_eq!(refusal(second).0, RefusalCode::NoCapacity);
}

#[tokio::test]
async fn ids_of_nothing_never_reach_the_driver() {
    let stand = Stand::new().await;
    for id in ["..", "a/b", "", "gone", "n1/"] {
        let id = NeuronId::new(id);
        let exec = Exec {
            code: "true".to_owned(),
            language: CodeLanguage::Sh,
            timeout_ms: 1_000,
            cwd: None,
        };
        let install = Install {
            manager: PackageManager::Npm,
            packages: vec!["a".to_owned()],
            timeout_ms: 1_000,
        };
        let run = run_of("bash", json!({"command": "true"}).as_object().unwrap().clone());
        for code in [
            refusal(stand.handle.info(&id).await).0,
            refusal(stand.handle.destroy(&id).await).0,
            refusal(stand.handle.exec(&id, exec).await).0,
            refusal(stand.handle.run_tool(&id, run).await).0,
            refusal(stand.handle.install(&id, install).await).0,
            refusal(stand.handle.fork(&id, NeuronId::new("b")).await).0,
            refusal(stand.handle.changes(&id).await).0,
        ] {
            assert_eq!(code, RefusalCode::NeuronNotFound, "{id}");
        }
    }
    let to = stand.handle.fork(&stand.id, NeuronId::new("a b")).await;
    assert!(refusal(to).1.starts_with("to: "));
}

#[tokio::test]
async fn code_runs_with_its_true_end() {
    let stand = Stand::new().await;
    let ran = stand.bash("echo out; echo err >&2; echo $A; exit 7").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n1\n", "err\n"));
    assert_eq!((ran.exit_code, ran.timed_out, ran.truncated), (Some(7), false, false));
    assert_eq!(stand.bash("kill -9 $$").await.exit_code, Some(137));
    assert_eq!(stand.bash("cat; echo end").await.stdout, "end\n", "nothing is on standard input");
    let ran = stand.exec(CodeLanguage::Sh, "echo $0").await.unwrap();
    assert_eq!(ran.stdout, "sh\n");
    let ran = stand.exec(CodeLanguage::Python, "import sys\nprint(6 * 7)\nsys.exit(3)").await;
    let ran = ran.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.exit_code), ("42\n", Some(3)));
    stand.neurons.put_program(&stand.id, "node", "echo \"node $1 $(cat)\"");
    let ran = stand.exec(CodeLanguage::JavaScript, "console.log(1)").await.unwrap();
    assert_eq!(ran.stdout, "node - console.log(1)\n");
}

#[tokio::test]
async fn long_code_meets_no_limit_of_arguments() {
    let stand = Stand::new().await;
    // Letters of four bytes: the longest code in bytes.
    let filler = "🦀".repeat(99_900);
    let ran = stand.bash(&format!(": '{filler}'\ncat; echo $?; exit 5")).await;
    assert_eq!((ran.stdout.as_str(), ran.exit_code), ("0\n", Some(5)), "{}", ran.stderr);
    let code = format!("x = '{filler}'\nprint(len(x))");
    let ran = stand.exec(CodeLanguage::Python, &code).await.unwrap();
    assert_eq!(ran.stdout, "99900\n", "{}", ran.stderr);
}

#[tokio::test]
async fn the_end_of_long_output_is_kept() {
    let stand = Stand::new().await;
    let ran = stand.bash("yes line | head -n 400000; echo end; echo err >&2").await;
    assert!(ran.truncated && ran.stdout.len() <= 1 << 20, "{}", ran.stdout.len());
    assert!(ran.stdout.ends_with("line\nend\n") && ran.stderr == "err\n");
}

#[tokio::test]
async fn time_ends_the_whole_tree() {
    let stand = Stand::new().await;
    let code = "echo begun; (sleep 300; touch late) & sleep 300".to_owned();
    let exec = Exec { code, language: CodeLanguage::Bash, timeout_ms: 500, cwd: None };
    let ran = stand.handle.exec(&stand.id, exec).await.unwrap();
    assert_eq!((ran.timed_out, ran.exit_code, ran.stdout.as_str()), (true, None, "begun\n"));
    assert!((500..60_000).contains(&ran.duration_ms), "{}", ran.duration_ms);
}

#[tokio::test]
async fn wrong_code_is_named() {
    let stand = Stand::new().await;
    let exec = |code: String, timeout_ms, cwd: Option<&str>| {
        let cwd = cwd.map(str::to_owned);
        stand.handle.exec(&stand.id, Exec { code, language: CodeLanguage::Bash, timeout_ms, cwd })
    };
    std::fs::create_dir(stand.neurons.folder(&stand.id).join("sub")).unwrap();
    let ran = exec("basename $PWD".to_owned(), 60_000, Some("sub")).await.unwrap();
    assert_eq!(ran.stdout, "sub\n");
    for (answer, field) in [
        (exec(String::new(), 1_000, None).await, "code:"),
        (exec("x".repeat(100_001), 1_000, None).await, "code:"),
        (exec("a\0b".to_owned(), 1_000, None).await, "code:"),
        (exec("true".to_owned(), 99, None).await, "timeout_ms:"),
        (exec("true".to_owned(), 600_001, None).await, "timeout_ms:"),
        (exec("true".to_owned(), 1_000, Some("gone")).await, "cwd:"),
        (exec("true".to_owned(), 1_000, Some("")).await, "cwd:"),
        (
            {
                stand.neurons.hide_program(&stand.id, "python3");
                stand.exec(CodeLanguage::Python, "1").await
            },
            "language: there is no python3",
        ),
    ] {
        let (code, message) = refusal(answer);
        assert!(code == RefusalCode::Invalid && message.starts_with(field), "{field}: {message}");
    }
}

#[tokio::test]
async fn a_neuron_that_is_over_says_so() {
    let stand = Stand::new().await;
    let running = stand.exec(CodeLanguage::Bash, "touch begun; sleep 300");
    let begun = stand.neurons.folder(&stand.id).join("begun");
    let killing = async {
        while !begun.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        stand.neurons.kill(&stand.id);
    };
    let (ran, ()) = tokio::join!(running, killing);
    assert_eq!(refusal(ran).0, RefusalCode::NeuronNotRunning, "it died beneath the command");
    let ran = stand.exec(CodeLanguage::Bash, "true").await;
    assert_eq!(refusal(ran).0, RefusalCode::NeuronNotRunning);
    stand.handle.create(CreateNeuron::new(stand.id.clone())).await.unwrap();
    stand.neurons.give_away(&stand.id, 4_242);
    let (code, message) = refusal(stand.run("read", json!({"path": "a"})).await);
    assert!(code == RefusalCode::OwnedElsewhere && message.contains("4242"), "{message}");
    stand.handle.destroy(&stand.id).await.unwrap();
    assert_eq!(refusal(stand.handle.info(&stand.id).await).0, RefusalCode::NeuronNotFound);
}

#[tokio::test]
async fn tools_run_without_having_read() {
    let stand = Stand::new().await;
    let folder = stand.neurons.folder(&stand.id);
    std::fs::write(folder.join("a.txt"), "old\n").unwrap();
    let write = json!({"path": "a.txt", "content": "new\n"});
    assert!(!stand.run("write", write).await.unwrap().is_error);
    let edit = json!({"path": "a.txt", "edits": [{"old": "new", "new": "newer"}]});
    assert!(!stand.run("edit", edit).await.unwrap().is_error);
    let ran = stand.run("read_file", json!({"path": "a.txt"})).await.unwrap();
    assert!(ran.output.contains("newer") && !ran.is_error, "{ran:?}");
    let ran = stand.run("grep", json!({"pattern": "new"})).await.unwrap();
    assert_eq!(ran.output, "a.txt\n1: newer");
    let ran = stand.run("bash", json!({"command": "echo hi; exit 3"})).await.unwrap();
    assert!(ran.is_error && ran.output.contains("hi\nexit code 3"), "{ran:?}");
    let ran = stand.run("read", json!({"path": "gone"})).await.unwrap();
    assert!(ran.is_error && ran.output == "gone does not exist", "{ran:?}");
    let png = [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat();
    std::fs::write(folder.join("a.png"), png).unwrap();
    let ran = stand.run("read", json!({"path": "a.png"})).await.unwrap();
    assert!(ran.output.starts_with("(an image of type image/png"), "{ran:?}");
}

#[tokio::test]
async fn long_results_are_cut_and_their_files_go_with_the_neuron() {
    let stand = Stand::new().await;
    let command = "for n in $(seq 1 20000); do echo line $n; done";
    let ran = stand.run("bash", json!({"command": command})).await.unwrap();
    assert!(ran.output.chars().count() <= 32_000, "{}", ran.output.len());
    let at = stand.spill.path().join("neurons/n1");
    let file = std::fs::read_dir(&at).unwrap().next().unwrap().unwrap().path();
    let input = json!({"path": file, "offset": 19_999, "limit": 1});
    let ran = stand.run("read", input).await.unwrap();
    assert!(ran.output.contains("line 19999\n"), "{}", ran.output);
    stand.handle.destroy(&stand.id).await.unwrap();
    assert!(!at.exists());
}

#[tokio::test]
async fn what_is_not_offered_or_does_not_fit_is_refused() {
    let stand = Stand::new().await;
    for (tool, input, words) in [
        ("apply_patch", json!({}), "tool: no tool 'apply_patch' is offered; there are read,"),
        ("nothing", json!({}), "tool: no tool 'nothing' is offered"),
        (
            "ask_question",
            json!({"question": "q", "options": [{"label": "a"}, {"label": "b"}]}),
            "tool: ask_question asks a person",
        ),
        ("bash", json!({}), "input: the arguments of bash are wrong: "),
        ("bash", json!({"command": 1}), "input: the arguments of bash are wrong: /command: "),
        ("read", json!({"path": "a", "odd": 1}), "input: the arguments of read are wrong: "),
        ("bash", json!({"command": " "}), "input: command is empty"),
    ] {
        let (code, message) = refusal(stand.run(tool, input).await);
        assert!(code == RefusalCode::Invalid && message.starts_with(words), "{message}");
    }
    let offered = ["bash", "read", "nothing", "write_file"].map(str::to_owned);
    let listed = stand.handle.tools(&offered);
    let shown: Vec<_> = listed.iter().map(|tool| (tool.name.as_str(), tool.effect)).collect();
    use protocol::Effect::{Execute, Read, Write};
    assert_eq!(shown, [("read", Read), ("write_file", Write), ("bash", Execute)]);
    assert_eq!(listed[2].input_schema["required"], json!(["command"]));
}

#[tokio::test]
async fn policies_hold_and_questions_do_not() {
    let stand = Stand::new().await;
    std::fs::write(stand.neurons.folder(&stand.id).join(".env"), "KEY=1\n").unwrap();
    // Without rules a command would be asked for, and the caller is who would be.
    assert_eq!(stand.bash("echo fine").await.stdout, "fine\n");
    stand.policies.replace(denying(&["bash(rm *)", "read_file(**/.env)", "bash(npm install *)"]));
    let exec = stand.exec(CodeLanguage::Bash, "echo x && rm -rf y").await;
    let (code, message) = refusal(exec);
    assert!(code == RefusalCode::LockedByPolicy && message.contains("rm *"), "{message}");
    assert_eq!(stand.bash("echo fine").await.exit_code, Some(0));
    let ran = stand.run("bash", json!({"command": "rm x"})).await;
    assert_eq!(refusal(ran).0, RefusalCode::LockedByPolicy);
    let ran = stand.run("read", json!({"path": ".env"})).await;
    assert_eq!(refusal(ran).0, RefusalCode::LockedByPolicy);
    let ran = stand.run("grep", json!({"pattern": "KEY"})).await.unwrap();
    assert!(ran.output.starts_with("nothing matches\n(1 file is left out by a rule"), "{ran:?}");
    let ran = stand.install(PackageManager::Npm, &["left-pad"]).await;
    assert_eq!(refusal(ran).0, RefusalCode::LockedByPolicy);
    let mut plan = Layer::new(LayerName::Managed);
    plan.locked_mode = Some(Mode::Plan);
    stand.policies.replace(Policy::default().tighten(plan));
    let exec = stand.exec(CodeLanguage::Bash, "touch x").await;
    assert_eq!(refusal(exec).0, RefusalCode::LockedByPolicy);
    let write = stand.run("write", json!({"path": "x", "content": ""})).await;
    assert_eq!(refusal(write).0, RefusalCode::LockedByPolicy);
    assert!(!stand.run("read", json!({"path": ".env"})).await.unwrap().is_error);
}

/// What a status says in a neuron whose commands may do everything, and in an ordinary user's.
const ROOT: &str = "printf 'Uid:\\t0\\t0\\nCapEff:\\t000001ffffffffff\\n'";
const USER: &str = "printf 'Uid:\\t1000\\t1000\\nCapEff:\\t0\\n'";

#[tokio::test]
async fn packages_are_installed_by_their_manager() {
    let stand = Stand::new().await;
    let put = |name: &str, script: &str| stand.neurons.put_program(&stand.id, name, script);
    put("cat", ROOT);
    put("apt-get", "echo \"$DEBIAN_FRONTEND\" apt-get \"$@\"");
    let ran = stand.install(PackageManager::Apt, &["jq", "curl=8.1"]).await.unwrap();
    assert_eq!(
        ran.stdout,
        "noninteractive apt-get -q update\nnoninteractive apt-get -q -y -o \
         APT::Sandbox::User=root --no-install-recommends install -- jq curl=8.1\n"
    );
    put("python3", "echo \"$PIP_BREAK_SYSTEM_PACKAGES\" \"$@\"; exit 4");
    let ran = stand.install(PackageManager::Pip, &["rich==13.0"]).await.unwrap();
    let said = "1 -m pip install --no-input --disable-pip-version-check -- rich==13.0\n";
    assert_eq!((ran.stdout.as_str(), ran.exit_code), (said, Some(4)));
    put("npm", "echo \"$@\"");
    let ran = stand.install(PackageManager::Npm, &["@types/node@^20"]).await.unwrap();
    let said = "install --no-fund --no-audit --no-update-notifier -- @types/node@^20\n";
    assert_eq!(ran.stdout, said);
}

#[tokio::test]
async fn what_a_neuron_cannot_install_is_said_with_the_reason() {
    let stand = Stand::new().await;
    stand.neurons.put_program(&stand.id, "cat", USER);
    stand.neurons.put_program(&stand.id, "apt-get", "echo never");
    stand.neurons.hide_program(&stand.id, "npm");
    let (code, message) = refusal(stand.install(PackageManager::Apt, &["jq"]).await);
    assert!(
        code == RefusalCode::NotSupported && message.contains("ordinary user 1000"),
        "{message}"
    );
    let (code, message) = refusal(stand.install(PackageManager::Npm, &["a"]).await);
    assert!(code == RefusalCode::NotSupported && message.contains("no npm"), "{message}");
    let host = CreateNeuron {
        driver: Some(NeuronDriver::Host),
        isolation: Some(IsolationLevel::None),
        ..CreateNeuron::new(NeuronId::new("host"))
    };
    stand.handle.create(host).await.unwrap();
    for manager in [PackageManager::Apt, PackageManager::Pip] {
        let install = Install { manager, packages: vec!["a".to_owned()], timeout_ms: 60_000 };
        let (code, message) = refusal(stand.handle.install(&NeuronId::new("host"), install).await);
        assert!(code == RefusalCode::NotSupported && message.contains("driver host"), "{message}");
    }
}

#[tokio::test]
async fn names_of_packages_are_checked() {
    let stand = Stand::new().await;
    let long = "x".repeat(129);
    let many: Vec<&str> = std::iter::repeat_n("a", 51).collect();
    for names in [
        &["-rf"][..],
        &["--pre"],
        &["a b"],
        &["a;b"],
        &["$(a)"],
        &["a\n"],
        &[""],
        &["ok", "-x"],
        &[&long],
        &[],
        &many,
        &["remove-"],
    ] {
        let (code, message) = refusal(stand.install(PackageManager::Apt, names).await);
        assert!(code == RefusalCode::Invalid && message.starts_with("packages"), "{message}");
    }
    let packages = vec!["a".to_owned()];
    let install = Install { manager: PackageManager::Npm, packages, timeout_ms: 1_800_001 };
    let (_, message) = refusal(stand.handle.install(&stand.id, install).await);
    assert!(message.starts_with("timeout_ms:"), "{message}");
}

#[tokio::test]
async fn a_fork_has_the_files_and_changes_are_listed() {
    let stand = Stand::with(MemoryNeurons::default(), Policy::default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kept"), "").unwrap();
    let folder = Some(folder.path().to_owned());
    let wanted = CreateNeuron { folder: folder.clone(), ..CreateNeuron::new(stand.id.clone()) };
    stand.handle.create(wanted).await.unwrap();
    stand.bash("echo x > made").await;
    let changes = stand.handle.changes(&stand.id).await.unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].path.to_str(), changes[0].change), (Some("made"), OverlayChange::Added));
    let copy = stand.handle.fork(&stand.id, NeuronId::new("n2")).await.unwrap();
    assert_eq!(copy.id, NeuronId::new("n2"));
    assert!(stand.neurons.folder(&copy.id).join("made").exists());
    let again = stand.handle.fork(&stand.id, NeuronId::new("n2")).await;
    assert_eq!(refusal(again).0, RefusalCode::NeuronExists);
}

#[tokio::test]
async fn as_many_commands_as_may_run_are_the_most() {
    let stand = Stand::new().await;
    let options = NeuronOptions {
        neurons: Arc::clone(&stand.neurons) as _,
        tools: ::tools::native(),
        policies: stand.policies.clone(),
        checks: None,
        defaults: NeuronDefaults {
            driver: NeuronDriver::Namespace,
            isolation: IsolationLevel::Full,
            limits: NeuronLimits::default(),
            egress: Egress::default(),
            env: vec![],
        },
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(TestIds::default()),
        spill: stand.spill.path().to_owned(),
        user_home: None,
        sessions: None,
    };
    let (path_locks, commands) = (PathLocks::default(), Semaphore::new(1));
    let toolbox = Toolbox::new(options.tools.clone(), Vec::new());
    let house = House { options, toolbox, path_locks, commands };
    let exec = || Exec {
        code: "true".to_owned(),
        language: CodeLanguage::Sh,
        timeout_ms: 60_000,
        cwd: None,
    };
    let held = house.admit().unwrap();
    assert_eq!(refusal(house.exec(&stand.id, exec()).await).0, RefusalCode::NoCapacity);
    drop(held);
    for _ in 0..2 {
        assert_eq!(house.exec(&stand.id, exec()).await.unwrap().exit_code, Some(0));
    }
}

#[tokio::test(start_paused = true)]
async fn turns_in_a_neuron_are_stopped_before_it_goes() {
    let session = |id: &str, neuron: Option<&str>, state| SessionInfo {
        neuron: neuron.map(NeuronId::new),
        state,
        is_open: true,
        ..session_info(id, "/w")
    };
    let sessions = FakeRuntime::new()
        .session(session("s1", Some("n1"), SessionState::Running))
        .session(session("s2", Some("n1"), SessionState::Idle))
        .session(session("s3", Some("n2"), SessionState::Running))
        .session(session("s4", None, SessionState::Waiting))
        .session(session("s5", Some("n1"), SessionState::Waiting));
    let sessions = Arc::new(sessions);
    let handle = Handle::new(Arc::clone(&sessions) as _);
    let neurons = MemoryNeurons::default();
    let stand = Stand::beside(neurons, Policy::default(), Some(handle));
    stand.handle.create(CreateNeuron::new(stand.id.clone())).await.unwrap();
    // The turns of these sessions never end, and the neuron goes all the same.
    stand.handle.destroy(&stand.id).await.unwrap();
    assert_eq!(refusal(stand.handle.info(&stand.id).await).0, RefusalCode::NeuronNotFound);
    let stopped = sessions.calls().into_iter().map(|call| match call {
        Call::Interrupt(session, Interrupt::All) => session.as_str().to_owned(),
        other => panic!("an interruption is expected, got {other:?}"),
    });
    assert_eq!(stopped.collect::<Vec<_>>(), ["s5", "s1"]);
}

#[tokio::test]
async fn checks_look_at_what_a_caller_is_about_to_do() {
    let checks = Some(Arc::new(Picky) as Arc<dyn Checks>);
    let stand = Stand::checked(MemoryNeurons::default(), Policy::default(), None, checks);
    stand.handle.create(CreateNeuron::new(stand.id.clone())).await.unwrap();
    let write = |path: &str| stand.run("write", json!({"path": path, "content": "x"}));
    let (code, text) = refusal(write("forbidden.txt").await);
    assert_eq!(code, RefusalCode::LockedByPolicy);
    assert_eq!(text, "write is denied by a check: names: not this one");
    let (code, text) = refusal(write("broken").await);
    assert_eq!(code, RefusalCode::LockedByPolicy);
    assert!(text.ends_with("is denied: the check of this change failed"), "{text}");
    assert!(!write("allowed.txt").await.unwrap().is_error);
    let look = stand.run("read", json!({"path": "forbidden.txt"})).await.unwrap();
    assert!(look.is_error, "what only looks is not checked, and the file was never made");
    let (code, text) = refusal(stand.exec(CodeLanguage::Sh, "echo forbidden").await);
    assert_eq!(code, RefusalCode::LockedByPolicy, "{text}");
    assert_eq!(stand.exec(CodeLanguage::Sh, "echo fine").await.unwrap().stdout, "fine\n");
}

#[tokio::test]
async fn a_process_goes_on_in_its_neuron_and_is_seen_by_later_calls_there() {
    let stand = Stand::new().await;
    let started = stand.run("process_start", json!({"command": "sleep 600"})).await.unwrap();
    let id = started.output.strip_prefix("started as ").unwrap().split(':').next().unwrap();
    let listed = stand.run("process_list", json!({})).await.unwrap();
    assert!(listed.output.starts_with(&format!("{id}: running for ")), "{}", listed.output);
    let other = NeuronId::new("n2");
    stand.handle.create(CreateNeuron::new(other.clone())).await.unwrap();
    let elsewhere = stand.handle.run_tool(&other, run_of("process_list", Map::new())).await;
    assert_eq!(elsewhere.unwrap().output, "no processes");
    let ended = stand.run("process_kill", json!({"id": id})).await.unwrap();
    assert!(!ended.is_error && ended.output.contains("ended by signal"), "{}", ended.output);
}

#[tokio::test]
async fn an_elevated_command_needs_no_further_word_of_its_caller() {
    let stand = Stand::new().await;
    let input = json!({"command": "echo $((6 * 7))", "reason": "to know"});
    let ran = stand.run("elevated", input).await.unwrap();
    assert_eq!((ran.output.as_str(), ran.is_error), ("42\nexit code 0", false));
    let listed = stand.handle.tools(&["bash".to_owned(), "elevated".to_owned()]);
    let asked: Vec<_> =
        listed.iter().map(|tool| (tool.name.as_str(), tool.is_always_asked)).collect();
    assert_eq!(asked, [("bash", false), ("elevated", true)]);
}
