//! Assignments: which change what a command runs.

use crate::script::is_listed;

/// Variables that programs or the shell itself take commands, code or the places of code from.
const HARMFUL: &str = "\
    PATH IFS ENV BASH_ENV BASHOPTS SHELLOPTS PS0 PS1 PS2 PS3 PS4 CDPATH GLOBIGNORE EXECIGNORE \
    FIGNORE HOME PWD OLDPWD SHELL HISTFILE HOSTFILE INPUTRC MAIL MAILPATH VISUAL BROWSER \
    EDITOR PAGER LESSOPEN LESSCLOSE LESS MANOPT MORE TAR_OPTIONS PERL5DB PERL5LIB PERLLIB \
    RUBYLIB RUBYSHELL PYTHONHOME PYTHONSTARTUP PYTHONWARNINGS PYTHONBREAKPOINT PYTHONUSERBASE \
    PYTHONEXECUTABLE CLASSPATH CC CXX LD AR AS CPP MAKE MAKEFILES RUSTC RUSTDOC RUSTFMT CARGO \
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GOROOT NODE_REPL_EXTERNAL_MODULE NLSPATH";

/// How such variables begin.
const HARMFUL_STARTS: &str = "\
    LD_ DYLD_ GIT_ BASH_FUNC SSH_ SUDO_ GCONV_ CARGO_TARGET_ CARGO_BUILD_ npm_config_ \
    NPM_CONFIG_ PIP_ UV_";

/// How such variables end.
const HARMFUL_ENDS: &str = "\
    _WRAPPER _COMMAND _CMD _EDITOR _PAGER _PRELOAD _SHELL _ASKPASS _EXEC _RUNNER _LINKER \
    _OPTIONS _OPTS OPT FLAGS _PROXY_COMMAND _PLUGINS _LIBRARY_PATH _HOOK _BROWSER _STARTUP \
    _SCRIPT _BINARY";

/// Variables of git that change nothing but what is shown or who is named.
const HARMLESS: &str = "\
    GIT_PAGER_IN_USE GIT_TERMINAL_PROMPT GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE \
    GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_OPTIONAL_LOCKS \
    GIT_MERGE_AUTOEDIT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT PIP_NO_CACHE_DIR \
    UV_NO_PROGRESS";

/// Programs that show or take nothing, as the value of a pager or editor.
const INERT: [&str; 5] = ["", "cat", "true", ":", "less"];

/// Tells whether setting a variable to this text may change what is run. The text stands for the
/// value after quotes; what is known only when it runs is never harmless where the value counts.
pub(crate) fn is_harmful(name: &str, value: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    let is_known = !value.contains(crate::UNKNOWN);
    match name {
        _ if is_listed(HARMLESS, name) => false,
        "PAGER"
        | "EDITOR"
        | "VISUAL"
        | "GIT_PAGER"
        | "GIT_EDITOR"
        | "GIT_SEQUENCE_EDITOR"
        | "MANPAGER"
        | "GH_PAGER"
        | "SYSTEMD_PAGER" => !INERT.contains(&value),
        "PYTHONPATH" | "NODE_PATH" | "GOPATH" => {
            let is_outside = |part: &str| {
                part.starts_with(['/', '~']) || part.split('/').any(|name| name == "..")
            };
            !is_known || value.split(':').any(is_outside)
        }
        "RUSTFLAGS" | "RUSTDOCFLAGS" => {
            !is_known || has(&["linker", "link-arg", "codegen-backend", "-Z", "@", "plugin"])
        }
        "GOFLAGS" => !is_known || has(&["exec", "overlay"]),
        "NODE_OPTIONS" => {
            let is_fine = |word: &str| {
                ["--max-old-space-size=", "--experimental-", "--no-", "--trace-", "--unhandled-"]
                    .iter()
                    .any(|start| word.starts_with(start))
                    && !word.contains("loader")
                    && !word.contains("import")
            };
            !is_known || !value.split_ascii_whitespace().all(is_fine)
        }
        "PYTEST_ADDOPTS" => !is_known || has(&["-p", "-c", "--rootdir", "--confcutdir"]),
        "MAKEFLAGS" => {
            let digits = value.trim_start_matches("-j").trim_start_matches(' ');
            !is_known || !digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => {
            is_listed(HARMFUL, name)
                || HARMFUL_STARTS.split_ascii_whitespace().any(|start| name.starts_with(start))
                || HARMFUL_ENDS.split_ascii_whitespace().any(|end| name.ends_with(end))
        }
    }
}

/// Takes an assignment apart: its name, and where in the text its value begins. `None` for a text
/// that is no assignment.
pub(crate) fn split(text: &str) -> Option<(&str, usize)> {
    let at = text.find('=')?;
    let name = text.get(..at)?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let bare = name.split_once('[').map_or(name, |(name, _)| name);
    let mut chars = bare.chars();
    let is_name = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, at + 1))
}
