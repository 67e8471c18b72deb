//! What the cortex door is to be: flags over variables over settings, checked before anything is
//! opened.

use std::net::SocketAddr;
use std::time::Duration;

use door_cli::{CortexArgs, Failure, Globals, SandboxDriver};
use door_cortex::{Preset, RateLimits};
use http_kit::TrustedProxies;
use narthex::NeuronOptions;
use narthex::governed::mode_under;
use protocol::{Effect, Mode};
use runtime_api::{AgentSettings, Limits};

use super::places::PlacesFile;
use crate::environment::Environment;
use crate::machine;
use crate::serve::address;
use crate::settings::{ADDRESS, DriverName, Origin, Settings, TOKEN, Want};

/// What the door is to be.
#[derive(Clone, Debug)]
pub(in crate::serve) struct CortexPlan {
    pub(super) limits: RateLimits,
    pub(super) proxies: TrustedProxies,
    pub(super) preset: Preset,
    pub(super) preset_name: &'static str,
    pub(super) session_ttl: Duration,
    pub(super) agent: AgentSettings,
    pub(super) mode: Mode,
    pub(super) asks_for: Vec<Effect>,
    pub(in crate::serve) neurons: NeuronOptions,
    pub(super) places: PlacesFile,
}

impl CortexPlan {
    /// Reads what settings, variables and flags say.
    ///
    /// # Errors
    /// Names the variable or setting that is wrong.
    pub(in crate::serve) fn make(
        settings: &Settings,
        globals: &Globals,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let cortex = &settings.cortex;
        if let Some(mistake) = settings.cortex_mistakes().next() {
            return Err(Failure::usage(mistake.clone()));
        }
        let own = door_cortex::agent();
        let wanted = machine::agent(settings, globals)?;
        let is_said = settings.max_turns.origin != Origin::BuiltIn;
        let max_turns = if is_said { wanted.limits.max_turns } else { own.limits.max_turns };
        let agent = AgentSettings {
            limits: Limits { max_turns, ..wanted.limits },
            is_attended: own.is_attended,
            interaction_timeout_ms: cortex.approval_ms.value,
            carries_on: own.carries_on,
            ..wanted
        };
        Ok(Self {
            limits: cortex.limits(),
            proxies: cortex.proxies(),
            preset: cortex.tool_preset.value.preset(),
            preset_name: cortex.tool_preset.value.as_str(),
            session_ttl: Duration::from_millis(cortex.session_ttl_ms.value),
            agent,
            mode: mode(settings),
            asks_for: cortex.require_for.value.clone(),
            neurons: machine::neurons(settings, environment)?,
            places: PlacesFile::beneath(&settings.places.home),
        })
    }
}

/// Chooses the mode of runs. In a neuron nothing is asked for that no approval is required for,
/// unless a flag or variable names another mode or what governs the machine forbids it: a mode of
/// the settings is meant for sessions on the machine itself.
fn mode(settings: &Settings) -> Mode {
    if matches!(settings.mode.origin, Origin::Flag(_) | Origin::Variable(_)) {
        return settings.mode.value;
    }
    settings
        .policy
        .layers()
        .fold(Mode::FullAuto, |mode, layer| mode_under(layer, mode).unwrap_or(mode))
}

/// What a server of this door alone is to be.
#[derive(Debug)]
pub(super) struct ServerPlan {
    pub(super) settings: Settings,
    pub(super) globals: Globals,
    pub(super) address: SocketAddr,
}

impl ServerPlan {
    /// Reads settings, variables and flags.
    ///
    /// # Errors
    /// Names the flag, setting or variable that is wrong; for an address that other machines reach
    /// without a token both variables that it takes.
    pub(super) async fn make(
        globals: &Globals,
        args: CortexArgs,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let mut settings = Settings::load(Want { globals, environment })?;
        let flag = |name: &str| Origin::Flag(name.to_owned());
        settings.cortex.port.take(args.port, &flag("--port"));
        settings.cortex.host.take(args.host, &flag("--host"));
        let driver = args.driver.map(|driver| match driver {
            SandboxDriver::Namespace => DriverName::Namespace,
            SandboxDriver::Host => DriverName::Host,
        });
        settings.neurons.take_flag(driver, "--driver");
        // Before anything is waited for.
        CortexPlan::make(&settings, globals, environment)?;
        settings.notices.extend(settings.telemetry.notice.clone());
        let host = settings.cortex.host.value.clone();
        let ip = address::resolve(&host).await?;
        if !address::is_loopback(ip) && settings.cortex.token.is_none() {
            return Err(Failure::usage(format!(
                "other machines could reach {host} ({origin}): to listen there needs a token in \
                 {TOKEN}; without one, {ADDRESS} must be an address of this machine alone such as \
                 127.0.0.1",
                origin = settings.cortex.host.origin
            )));
        }
        let address = SocketAddr::new(ip, settings.cortex.port.value);
        Ok(Self { settings, globals: globals.clone(), address })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use driver_api::NeuronDriver;

    use super::*;

    struct House(tempfile::TempDir);

    impl House {
        fn new(settings: &str) -> Self {
            let house = Self(tempfile::tempdir().unwrap());
            for name in ["home", "work"] {
                fs::create_dir(house.path(name)).unwrap();
            }
            fs::write(house.path("home/config.toml"), settings).unwrap();
            house
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        async fn plan(
            &self,
            args: CortexArgs,
            globals: &Globals,
            variables: &[(&str, &str)],
        ) -> Result<(CortexPlan, SocketAddr), String> {
            let home = self.path("home").display().to_string();
            let variables = [variables, &[("NARTHEX_HOME", &home)]].concat();
            let environment = Environment::new(&self.path("work"), &variables);
            let made = ServerPlan::make(globals, args, &environment).await;
            let made = made.map_err(|failure| {
                assert_eq!(failure.exit.code(), 2, "{failure}");
                failure.message
            })?;
            let plan = CortexPlan::make(&made.settings, &made.globals, &environment);
            Ok((plan.map_err(|failure| failure.message)?, made.address))
        }
    }

    #[tokio::test]
    async fn without_a_word_it_is_for_this_machine_and_nothing_is_asked_but_what_destroys() {
        let house = House::new("mode = \"ask\"\n");
        let made = house.plan(CortexArgs::default(), &Globals::default(), &[]).await.unwrap();
        let (plan, address) = made;
        assert_eq!(address.to_string(), "127.0.0.1:3100");
        assert_eq!((plan.mode, plan.asks_for), (Mode::FullAuto, vec![Effect::Destructive]));
        assert_eq!(plan.agent, door_cortex::agent());
        assert_eq!(plan.neurons.driver, NeuronDriver::Namespace);
    }

    #[tokio::test]
    async fn flags_win_over_variables_and_those_over_settings() {
        let house = House::new(
            "max_turns = 9\n[cortex]\nport = 1\n[neurons]\ndriver = \"host\"\n\
             [agent.approval]\nrequireFor = []\ntimeoutMs = 0\n",
        );
        let variables = [("NSYS_CORTEX_PORT", "2"), ("NSYS_CORTEX_MODE", "host")];
        let globals = Globals { mode: Some(Mode::Plan), ..Globals::default() };
        let made = house.plan(CortexArgs::default(), &globals, &variables).await.unwrap();
        let (plan, address) = made;
        assert_eq!((address.port(), plan.mode), (2, Mode::Plan));
        assert_eq!(plan.neurons.driver, NeuronDriver::Host);
        assert_eq!((plan.agent.limits.max_turns, plan.agent.interaction_timeout_ms), (9, 0));
        assert!(plan.asks_for.is_empty());
        let args = CortexArgs {
            port: Some(3),
            driver: Some(SandboxDriver::Namespace),
            ..CortexArgs::default()
        };
        let (plan, address) = house.plan(args, &globals, &variables).await.unwrap();
        assert_eq!((address.port(), plan.neurons.driver), (3, NeuronDriver::Namespace));
    }

    #[tokio::test]
    async fn other_machines_need_a_token() {
        let house = House::new("");
        let host = ("NSYS_CORTEX_API_HOST", "0.0.0.0");
        for variables in [&[host][..], &[host, (TOKEN, "")]] {
            let refused = house.plan(CortexArgs::default(), &Globals::default(), variables).await;
            let problem = refused.unwrap_err();
            assert!(problem.contains(TOKEN) && problem.contains(ADDRESS), "{problem}");
            assert_eq!(problem.lines().count(), 1, "{problem}");
        }
        let variables = [host, (TOKEN, "0123456789abcdef")];
        let made = house.plan(CortexArgs::default(), &Globals::default(), &variables).await;
        assert_eq!(made.unwrap().1.to_string(), "0.0.0.0:3100");
    }

    #[tokio::test]
    async fn what_governs_the_machine_holds_here_too() {
        let house = House::new("");
        let file = house.path("managed.json");
        fs::write(&file, "{\"disableFullAuto\": true}").unwrap();
        let path = file.display().to_string();
        let variables = [("NARTHEX_MANAGED_SETTINGS", path.as_str())];
        let made = house.plan(CortexArgs::default(), &Globals::default(), &variables).await;
        assert_eq!(made.unwrap().0.mode, Mode::Ask);
    }

    #[tokio::test]
    async fn a_wrong_variable_stops_the_start_and_is_named() {
        let house = House::new("");
        for (name, value) in [
            ("NSYS_CORTEX_PORT", "http"),
            ("NSYS_CORTEX_MODE", "firecracker"),
            ("NSYS_CORTEX_MCP_DEFER_THRESHOLD", "1.5"),
        ] {
            let (args, globals) = (CortexArgs::default(), Globals::default());
            let problem = house.plan(args, &globals, &[(name, value)]).await.unwrap_err();
            assert!(problem.starts_with(name), "{problem}");
        }
    }
}
