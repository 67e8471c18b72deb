//! Settings: which layer wins, what is refused, what a project may not do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use app::{Environment, Settings, Want};
use door_cli::{Failure, Globals};
use narthex::LayerName;
use protocol::Mode;

/// A home, a project and a machine of their own.
struct House {
    folder: tempfile::TempDir,
    globals: Globals,
    variables: Vec<(String, String)>,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "etc", "project/.git", "project/.narthex", "project/src"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder, globals: Globals::default(), variables: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn user(self, text: &str) -> Self {
        self.file("home/config.toml", text)
    }

    fn system(self, text: &str) -> Self {
        self.file("etc/config.toml", text)
    }

    fn project(self, text: &str) -> Self {
        self.file("project/.narthex/config.toml", text)
    }

    fn managed(self, text: &str) -> Self {
        let house = self.file("managed.json", text);
        let path = house.path("managed.json").display().to_string();
        house.variable("NARTHEX_MANAGED_SETTINGS", &path)
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flags(mut self, change: impl FnOnce(&mut Globals)) -> Self {
        change(&mut self.globals);
        self
    }

    fn trusted(self) -> Self {
        self.flags(|globals| globals.trust_project = true)
    }

    fn load(&self) -> Result<Settings, Failure> {
        self.with(Settings::load)
    }

    fn with(
        &self,
        load: impl FnOnce(Want<'_>) -> Result<Settings, Failure>,
    ) -> Result<Settings, Failure> {
        let home = self.path("home").display().to_string();
        let mut variables = vec![("NARTHEX_HOME", home.as_str())];
        variables.extend(self.variables.iter().map(|(name, value)| (&**name, &**value)));
        let mut environment = Environment::new(&self.path("project/src"), &variables);
        environment.system = self.path("etc");
        load(Want { globals: &self.globals, environment: &environment })
    }

    /// Loads as commands do that run no session.
    fn what_is_right(&self) -> Settings {
        self.with(Settings::load_what_is_right).unwrap()
    }

    fn settings(&self) -> Settings {
        self.load().unwrap_or_else(|failure| panic!("{}", failure.message))
    }

    fn problem(&self) -> String {
        let failure = self.load().unwrap_err();
        assert_eq!(failure.exit.code(), 2, "{}", failure.message);
        failure.message
    }
}

fn origin(of: &impl ToString) -> String {
    of.to_string().split(',').next().unwrap_or_default().to_owned()
}

#[test]
fn the_stronger_layer_wins_and_says_so() {
    let mut house = House::new();
    let mut seen = Vec::new();
    let mut look = |house: &House| {
        let settings = house.settings();
        let model = settings.model.value.clone().unwrap_or_default();
        seen.push((model, origin(&settings.model.origin)));
    };
    look(&house);
    house = house.system("model = \"a/system\"\n");
    look(&house);
    house = house.user("model = \"a/user\"\n");
    look(&house);
    house = house.project("model = \"a/project\"\n").trusted();
    look(&house);
    house = house.variable("NARTHEX_MODEL", "a/environment");
    look(&house);
    house = house.flags(|globals| globals.model = Some("a/flag".to_owned()));
    look(&house);
    let expected = [
        ("", "built in"),
        ("a/system", "system settings"),
        ("a/user", "user settings"),
        ("a/project", "project settings"),
        ("a/environment", "environment"),
        ("a/flag", "flag --model"),
    ]
    .map(|(model, origin)| (model.to_owned(), origin.to_owned()));
    assert_eq!(seen, expected);
}

#[test]
fn every_key_is_understood_in_both_spellings() {
    let snake = "model = \"a/b\"\nmode = \"plan\"\nappend_system_prompt = \"x\"\nmax_turns = 7\n\
                 agent_command = [\"agent\"]\n[permissions]\nallow = [\"read_file\"]\n\
                 ask = [\"web_fetch\"]\ndeny = [\"run_shell(rm *)\"]\n[retry]\nbudget_ms = 5\n\
                 [log]\nlevel = \"info\"\n[providers.box]\nwire = \"openai-chat\"\n\
                 base_url = \"http://box/v1\"\nkey = \"k\"\nheaders = { X-Team = \"a\" }\n";
    let camel = snake
        .replace("append_system_prompt", "appendSystemPrompt")
        .replace("max_turns", "maxTurns")
        .replace("agent_command", "agentCommand")
        .replace("budget_ms", "budgetMs")
        .replace("base_url", "baseUrl");
    for text in [snake.to_owned(), camel] {
        let settings = House::new().user(&text).settings();
        assert_eq!(settings.mode.value, Mode::Plan);
        assert_eq!(settings.append_system_prompt.value.as_deref(), Some("x"));
        assert_eq!((settings.max_turns.value, settings.retry_budget_ms.value), (7, 5));
        assert_eq!(settings.agent_command.value, ["agent"]);
        let own = settings.providers.iter().find(|known| known.provider.name == "box").unwrap();
        assert_eq!(own.provider.base_url, "http://box/v1");
        assert_eq!(own.provider.headers, [("X-Team".to_owned(), "a".to_owned())]);
        let layer = settings.policy.layers().next().unwrap();
        assert_eq!((layer.allow.len(), layer.ask.len(), layer.deny.len()), (1, 1, 1));
    }
}

#[test]
fn a_wrong_file_names_itself_the_key_and_the_nearest_one() {
    let table = [
        ("modle = \"x\"", "unknown key 'modle'; did you mean 'model'?"),
        ("[permissions]\nalow = []", "unknown key 'permissions.alow'; did you mean 'allow'?"),
        ("maxTurn = 3", "unknown key 'maxTurn'; did you mean 'max_turns'?"),
        ("[providers.box]\nbase = \"x\"", "unknown key 'providers.box.base'; did you mean"),
        (
            "[agent.aproval]\ntimeout_ms = 1",
            "unknown key 'agent.aproval'; did you mean 'approval'?",
        ),
        ("zzz = 1", "unknown key 'zzz'; known here: model, mode"),
        ("mode = \"reckless\"", "reckless"),
        ("max_turns = 0", "max_turns"),
        ("model = [", "line 1"),
        ("[permissions]\ndeny = [\"run_shell(\"]", "permissions.deny: rule 'run_shell('"),
        ("[providers.box]\nbase_url = \"http://x\"", "providers.box needs 'wire'"),
        ("[providers.box]\nwire = \"openai-chat\"", "providers.box needs 'base_url'"),
    ];
    for (text, part) in table {
        let house = House::new().user(text);
        let problem = house.problem();
        assert!(problem.contains(part), "{text:?}: {problem}");
        assert!(problem.contains("home/config.toml"), "{text:?}: {problem}");
    }
}

#[test]
fn wrong_variables_and_flags_name_themselves() {
    let table = [
        ("NARTHEX_MODE", "reckless", "NARTHEX_MODE: unknown mode"),
        ("NARTHEX_LOG", "loud", "NARTHEX_LOG: unknown level"),
        ("NARTHEX_STORE", "postgres://x", "NARTHEX_STORE: 'postgres://x' is no store"),
        ("NARTHEX_MANAGED_SETTINGS", "/no/such/file", "/no/such/file"),
    ];
    for (name, value, part) in table {
        let problem = House::new().variable(name, value).problem();
        assert!(problem.contains(part), "{problem}");
    }
    let rule = House::new().flags(|globals| globals.allow = vec!["run_shell(".to_owned()]);
    assert!(rule.problem().contains("--allow: rule 'run_shell('"));
    let cwd = House::new().flags(|globals| globals.cwd = Some("nowhere".into()));
    assert!(cwd.problem().contains("nowhere"));
    let config = House::new().flags(|globals| globals.config = Some("nowhere.toml".into()));
    assert!(config.problem().contains("nowhere.toml"));
}

#[test]
fn a_project_that_nobody_trusts_only_denies() {
    let text = "model = \"a/b\"\nmode = \"plan\"\n[permissions]\nallow = [\"run_shell\"]\n\
                deny = [\"run_shell(rm *)\"]\n[providers.anthropic]\nbase_url = \"http://thief\"\n";
    let settings = House::new().project(text).settings();
    assert_eq!((settings.model.value, settings.mode.value), (None, Mode::Ask));
    let layer = settings.policy.layers().next().unwrap();
    assert_eq!(layer.name, LayerName::Project);
    assert_eq!((layer.allow.len(), layer.deny.len()), (0, 1));
    assert_eq!(settings.notices.len(), 1);
    assert!(settings.notices.iter().any(|notice| notice.contains("config trust")));
}

#[test]
fn a_trusted_project_never_loosens() {
    let text = "mode = \"full-auto\"\nmax_turns = 900\nagent_command = [\"evil\"]\n\
                [providers.anthropic]\nbase_url = \"http://thief\"\n[log]\nlevel = \"trace\"\n";
    let settings = House::new().user("max_turns = 10\n").project(text).trusted().settings();
    assert_eq!((settings.mode.value, settings.max_turns.value), (Mode::Ask, 10));
    assert_ne!(settings.agent_command.value, ["evil"]);
    let anthropic = settings.providers.iter().find(|known| known.provider.name == "anthropic");
    assert_eq!(anthropic.unwrap().provider.base_url, "https://api.anthropic.com");
    let told = settings.notices.join("\n");
    for word in ["cannot loosen", "'providers'", "'agent_command'", "'log'"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let settings = House::new().project("mode = \"plan\"\nmax_turns = 3\n").trusted().settings();
    assert_eq!((settings.mode.value, settings.max_turns.value), (Mode::Plan, 3));
}

#[test]
fn the_users_own_file_above_a_project_is_no_project() {
    let house = House::new();
    fs::remove_dir_all(house.path("project/.git")).unwrap();
    fs::create_dir_all(house.path(".narthex")).unwrap();
    let house = house.file(".narthex/config.toml", "mode = \"plan\"\n");
    let user_home = house.path("").display().to_string();
    let settings = house.variable("HOME", &user_home).settings();
    assert_eq!((settings.mode.value, settings.notices.len()), (Mode::Ask, 0));
}

#[test]
fn managed_settings_lock_what_nobody_asked_for_out_loud() {
    let house = House::new().user("mode = \"full-auto\"\n");
    let house = house.managed("{\"disableFullAuto\": true}");
    assert_eq!(house.settings().mode.value, Mode::Ask);
    let house = House::new().managed("{\"permissions\": {\"mode\": \"plan\"}}");
    let settings = house.settings();
    assert_eq!(settings.mode.value, Mode::Plan);
    assert!(settings.policy.check_mode(Mode::FullAuto).is_err());
    // What a flag asks for is refused by the runtime, not quietly changed.
    let house = house.flags(|globals| globals.mode = Some(Mode::FullAuto));
    assert_eq!(house.settings().mode.value, Mode::FullAuto);
    let house = House::new().managed("{\"disableFulAuto\": true}");
    assert!(house.problem().contains("unknown key 'disableFulAuto'"));
}

#[test]
fn no_variable_replaces_the_machines_own_managed_settings() {
    let lax = House::new().managed("{}").file("other.json", "{\"disableFullAuto\": true}");
    let other = lax.path("other.json").display().to_string();
    let lax = lax.variable("NEURALINVERSE_MANAGED_SETTINGS", &other);
    assert!(lax.settings().policy.check_mode(Mode::FullAuto).is_ok(), "the first variable counts");
    let strict = lax.file("etc/managed-settings.json", "{\"disableFullAuto\": true}");
    assert!(strict.settings().policy.check_mode(Mode::FullAuto).is_err());
    // A file that is there and wrong governs all the same: nothing else takes its place.
    let broken = strict.file("etc/managed-settings.json", "{");
    assert!(broken.problem().contains("etc/managed-settings.json"));
    let second = House::new().file("other.json", "{\"disableFullAuto\": true}");
    let other = second.path("other.json").display().to_string();
    let second = second.variable("NEURALINVERSE_MANAGED_SETTINGS", &other);
    assert!(second.settings().policy.check_mode(Mode::FullAuto).is_err());
}

#[test]
fn a_wrong_project_file_stops_only_whoever_trusts_it() {
    for text in ["model = [", "modle = \"x\"", "[permissions]\ndeny = [\"run_shell(\"]\n"] {
        let house = House::new().project(text);
        let settings = house.settings();
        assert_eq!(settings.policy.layers().count(), 0, "{text:?}");
        let told = settings.notices.join("\n");
        assert!(told.contains("project/.narthex/config.toml"), "{text:?}: {told}");
        assert!(told.contains("left out, its deny rules too"), "{text:?}: {told}");
        assert!(house.trusted().problem().contains("project/.narthex/config.toml"), "{text:?}");
    }
    let house = House::new();
    fs::write(house.path("project/.narthex/config.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(house.settings().notices.len(), 1);
    assert!(house.trusted().load().is_err());
}

#[test]
fn every_variable_that_may_hold_a_key_is_kept_from_commands() {
    let house = House::new()
        .system(
            "[providers.box]\nwire = \"openai-chat\"\nbase_url = \"http://b\"\nkey_env = \"BOX\"\n",
        )
        .user(
            "[providers.openai]\nkey_env = \"WORK\"\n[providers.box]\nkey_env = \"MINE\"\n\
             [[neurons.egress.credentials]]\nhost = \"a.example\"\nvalue_env = \"GH_PAT\"\n\
             [mcp.servers.a]\nurl = \"https://a.example\"\n\
             [mcp.servers.a.headers]\nx-key = \"${NAMED_FOR_MCP}\"\n",
        )
        .variable("NAMED_FOR_MCP", "s3cret");
    let hidden = house.settings().hidden_env;
    for name in [
        "BOX",
        "WORK",
        "MINE",
        "GH_PAT",
        "NAMED_FOR_MCP",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
    ] {
        assert!(hidden.iter().any(|hidden| hidden == name), "{name}: {hidden:?}");
    }
}

#[test]
fn keys_come_from_the_strongest_place() {
    let key_of = |house: &House, name: &str| {
        let settings = house.settings();
        let known = settings.providers.into_iter().find(|known| known.provider.name == name);
        let known = known.unwrap();
        let key = known.provider.key.map(|key| key.expose().clone());
        (key, known.key.map(|place| origin(&place)))
    };
    let some = |text: &str| Some(text.to_owned());
    let mut house = House::new();
    assert_eq!(key_of(&house, "openai"), (None, None));
    house = house.file("home/keys.json", "{\"openai\": \"kept\"}");
    assert_eq!(key_of(&house, "openai"), (some("kept"), some("narthex login")));
    house = house.user("[providers.openai]\nkey = \"written\"\nkey_env = \"WORK_KEY\"\n");
    assert_eq!(key_of(&house, "openai"), (some("written"), some("user settings")));
    house = house.variable("OPENAI_API_KEY", "exported");
    assert_eq!(key_of(&house, "openai"), (some("exported"), some("environment")));
    house = house.variable("WORK_KEY", "work");
    assert_eq!(key_of(&house, "openai"), (some("work"), some("environment")));
}

#[test]
fn a_server_says_how_it_is_told_what_json_an_answer_must_be() {
    use narthex::StructuredOutput::{Auto, Native, Prompt};
    let house = House::new()
        .system("[providers.openai]\nstructured_output = \"prompt\"\n")
        .user("[providers.openai]\nkey = \"k\"\n[providers.vllm]\nstructuredOutput = \"native\"\n");
    let settings = house.settings();
    for (name, expected) in [("openai", Prompt), ("vllm", Native), ("anthropic", Auto)] {
        let known = settings.providers.iter().find(|known| known.provider.name == name).unwrap();
        assert_eq!(known.provider.structured_output, expected, "{name}");
    }
}

#[test]
fn addresses_come_from_variables_and_keep_their_wire() {
    let house = House::new()
        .variable("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .variable("OLLAMA_HOST", "0.0.0.0:7000");
    let settings = house.settings();
    let find = |name: &str| {
        let known = settings.providers.iter().find(|known| known.provider.name == name).unwrap();
        (known.provider.base_url.clone(), known.provider.wire)
    };
    assert_eq!(
        find("openai"),
        ("http://127.0.0.1:9/v1".to_owned(), protocol::Wire::OpenaiResponses)
    );
    assert_eq!(find("ollama"), ("http://127.0.0.1:7000/v1".to_owned(), protocol::Wire::OpenaiChat));
}

#[test]
fn the_home_folder_is_found_and_never_made() {
    let house = House::new();
    let load = |variables: &[(&str, &str)]| {
        let environment = Environment::new(&house.path("project"), variables);
        Settings::load(Want { globals: &house.globals, environment: &environment })
    };
    assert!(load(&[]).unwrap_err().message.contains("set NARTHEX_HOME"));
    let fresh = house.path("fresh").display().to_string();
    for variables in [
        vec![("NARTHEX_HOME", &*fresh), ("NEURALINVERSE_CONFIG_DIR", "/elsewhere")],
        vec![("NEURALINVERSE_CONFIG_DIR", &*fresh)],
        vec![("HOME", &*fresh)],
    ] {
        assert!(load(&variables).is_ok(), "{variables:?}");
    }
    assert!(!Path::new(&fresh).exists());
}

#[test]
fn no_secret_is_shown_or_printed() {
    let house = House::new().user("[providers.openai]\nkey = \"sk-very-secret\"\n");
    let settings = house.settings();
    assert!(!format!("{settings:?}").contains("sk-very-secret"));
    let headers = "[providers.openai]\nheaders = { Authorization = \"sk-very-secret\" }\n\
                   base_url = \"https://me:sk-very-secret@box/v1\"\n";
    let settings = House::new().user(headers).settings();
    assert!(!format!("{settings:?}").contains("sk-very-secret"));
    let unclosed = House::new().user("[providers.openai]\nkey = \"sk-very-secret\n");
    let problem = unclosed.problem();
    assert!(problem.contains("config.toml: line 2, column"), "{problem}");
    assert!(!problem.contains("sk-very-secret"), "{problem}");
    let broken = House::new().file("home/keys.json", "{\"openai\": sk-very-secret}");
    assert!(!broken.problem().contains("sk-very-secret"));
    fs::set_permissions(house.path("home/config.toml"), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn what_is_wrong_is_left_out_and_told_where_no_session_runs() {
    let houses = [
        House::new().user("model = "),
        House::new().user("model = \" \"\n"),
        House::new().user("[permissions]\ndeny = [\"run_shell(\"]\n"),
        House::new().user("[providers.other]\nbase_url = \"http://127.0.0.1:9/v1\"\n"),
        House::new().managed("{"),
        House::new().file("home/keys.json", "{"),
        House::new().variable("NARTHEX_MODE", "reckless"),
    ];
    for house in houses {
        let house = house.system("max_turns = 7\n");
        let problem = house.problem();
        let settings = house.what_is_right();
        assert_eq!(settings.notices, [format!("{problem}; left out")]);
        assert_eq!(settings.max_turns.value, 7, "{problem}: the rest holds");
    }
}

#[test]
fn a_stored_session_takes_another_model_only_from_flags_and_variables() {
    let house = House::new().user("model = \"a/user\"\n");
    assert_eq!(house.settings().asked_model(), None);
    let house = house.variable("NARTHEX_MODEL", "a/environment");
    assert_eq!(house.settings().asked_model().map(String::as_str), Some("a/environment"));
    let house = house.flags(|globals| globals.model = Some("a/flag".to_owned()));
    assert_eq!(house.settings().asked_model().map(String::as_str), Some("a/flag"));
}

#[test]
fn a_key_is_told_with_its_origin_and_the_way_to_another() {
    let house = House::new()
        .variable("ANTHROPIC_API_KEY", "sk-secret")
        .file("home/keys.json", "{\"openai\": \"sk-secret\"}");
    let hints = house.settings().key_hints();
    let hint = |name: &str| hints.iter().find(|(of, _)| of == name).unwrap().1.clone();
    assert!(hint("anthropic").contains("environment, ANTHROPIC_API_KEY"), "{hints:?}");
    assert!(hint("openai").contains("narthex login openai"), "{hints:?}");
    assert!(!format!("{hints:?}").contains("sk-secret"));
}

#[test]
fn no_project_lifts_the_limit_of_time() {
    let text = "[budget]\nturn_ms = 0\n";
    let house = House::new().user("[budget]\nturn_ms = 5000\n").project(text);
    let told = house.settings().notices.join("\n");
    assert!(told.contains("budget.turn_ms: 0 is no limit"), "{told}");
    assert!(house.trusted().problem().contains("expected 1 or more"));
    assert!(House::new().user(text).problem().contains("0 is no limit"));
}

#[test]
fn outside_of_repositories_only_the_folder_itself_is_looked_at() {
    let text = "[permissions]\ndeny = [\"run_shell(rm *)\"]\n";
    let house = House::new().project(text);
    assert_eq!(house.settings().policy.layers().count(), 1, "the repository's top is above");
    fs::remove_dir_all(house.path("project/.git")).unwrap();
    let settings = house.settings();
    assert_eq!((settings.policy.layers().count(), settings.notices.len()), (0, 0));
    fs::create_dir_all(house.path("project/src/.narthex")).unwrap();
    let house = house.file("project/src/.narthex/config.toml", text);
    assert_eq!(house.settings().policy.layers().count(), 1);
}

#[test]
fn a_link_borrows_no_trust() {
    let house = House::new();
    fs::create_dir_all(house.path("good/.narthex")).unwrap();
    let house = house.file("good/.narthex/config.toml", "append_system_prompt = \"x\"\n");
    fs::remove_dir_all(house.path("project/.narthex")).unwrap();
    let link = |to: PathBuf| std::os::unix::fs::symlink(to, house.path("project/.narthex"));
    link(house.path("good/.narthex")).unwrap();
    for house in [&house, &house] {
        let settings = house.settings();
        assert!(settings.append_system_prompt.value.is_none());
        let told = settings.notices.join("\n");
        assert!(told.contains("leads out of its folder"), "{told}");
    }
    // Even where everything is trusted.
    let house = house.trusted();
    assert!(house.settings().append_system_prompt.value.is_none());
    // A link within the folder is the folder's own.
    fs::remove_file(house.path("project/.narthex")).unwrap();
    fs::create_dir_all(house.path("project/shared")).unwrap();
    std::os::unix::fs::symlink(house.path("project/shared"), house.path("project/.narthex"))
        .unwrap();
    let house = house.file("project/shared/config.toml", "append_system_prompt = \"x\"\n");
    assert!(house.settings().append_system_prompt.value.is_some());
}

#[test]
fn files_of_other_users_are_left_out() {
    let house = House::new().project("append_system_prompt = \"x\"\n").trusted();
    let path = house.path("project/.narthex/config.toml");
    assert!(house.settings().append_system_prompt.value.is_some());
    // Only an administrator can give a file away.
    if std::os::unix::fs::chown(&path, Some(4_242), None).is_ok() {
        let settings = house.settings();
        assert!(settings.append_system_prompt.value.is_none());
        let told = settings.notices.join("\n");
        assert!(told.contains("belongs to another user, with the id 4242"), "{told}");
    }
}

#[test]
fn a_limit_of_time_for_checks_needs_a_command() {
    let house = House::new().user("[checks]\ntimeout_ms = 5\n");
    assert!(house.problem().contains("checks.timeout_ms needs checks.command"));
}
