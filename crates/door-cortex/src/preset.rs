//! Which tools are offered, and under which names this door shows them.

/// Tools of this door that have other names in the core.
const NAMES: [(&str, &str); 4] =
    [("read", "read_file"), ("write", "write_file"), ("edit", "edit_file"), ("bash", "run_shell")];

/// A list of tools that sessions and direct calls are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// `read`, `write`, `edit`, `bash`.
    #[default]
    Coding,
    /// What only looks.
    ReadOnly,
    /// `read` and `bash`.
    Minimal,
    /// Everything.
    Admin,
}

impl Preset {
    /// Finds a preset by its name in the settings.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "coding" => Some(Preset::Coding),
            "readonly" => Some(Preset::ReadOnly),
            "minimal" => Some(Preset::Minimal),
            "admin" => Some(Preset::Admin),
            _ => None,
        }
    }

    /// Returns the names of its tools as this door shows them. Some may be unknown to the core:
    /// they are left out of what is offered.
    pub fn names(self) -> Vec<String> {
        let names: &[&str] = match self {
            Preset::Coding => &["read", "write", "edit", "bash"],
            Preset::ReadOnly => &["read", "list_dir", "glob", "grep"],
            Preset::Minimal => &["read", "bash"],
            Preset::Admin => &[
                "read",
                "write",
                "edit",
                "bash",
                "list_dir",
                "glob",
                "grep",
                "apply_patch",
                "process_start",
                "process_list",
                "process_output",
                "process_kill",
                "elevated",
                "todos",
                "web_fetch",
                "web_search",
            ],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// Returns a tool's name as this door shows it.
pub(crate) fn shown(name: &str) -> &str {
    NAMES.into_iter().find_map(|(own, core)| (core == name).then_some(own)).unwrap_or(name)
}

/// Returns the effect of a tool as this door shows it.
pub(crate) fn effect_class(effect: protocol::Effect) -> &'static str {
    match effect {
        // What only asks a person changes nothing.
        protocol::Effect::Interact => protocol::Effect::Read.as_str(),
        other => other.as_str(),
    }
}

/// Cuts text to at most this many bytes, at a character.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Preset, cut, shown};

    #[test]
    fn presets_are_those_of_the_specification() {
        assert_eq!(Preset::parse("coding"), Some(Preset::default()));
        assert_eq!(Preset::Coding.names(), ["read", "write", "edit", "bash"]);
        let read_only = Preset::parse("readonly").unwrap().names();
        assert!(!read_only.iter().any(|name| ["bash", "write", "edit"].contains(&&**name)));
        let admin = Preset::parse("admin").unwrap().names();
        for name in Preset::Coding.names().iter().chain(&read_only) {
            assert!(admin.contains(name), "{name}");
        }
        assert!(admin.iter().any(|name| name.starts_with("process_")));
        for wrong in ["", "everything", "Coding", "read-only"] {
            assert_eq!(Preset::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tools_have_the_names_of_this_door() {
        for (core, own) in [
            ("run_shell", "bash"),
            ("bash", "bash"),
            ("read_file", "read"),
            ("glob", "glob"),
            ("mcp__x__y", "mcp__x__y"),
        ] {
            assert_eq!(shown(core), own);
        }
    }

    #[test]
    fn a_cut_text_ends_at_a_character() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö");
        assert_eq!(cut("äöü", 1), "");
    }
}
