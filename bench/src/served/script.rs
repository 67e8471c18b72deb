//! What a prompt asks of the model: it stands in the prompt itself, so that the model server
//! knows every session's script without being told.

/// A script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// Whose exchanges they are.
    pub(crate) id: usize,
    /// How many tool calls come first.
    pub(crate) steps: usize,
    /// The number of the first of them: commands of a session differ from each other.
    pub(crate) first: usize,
    /// In how many deltas the text comes; 0 is the short text in one.
    pub(crate) deltas: usize,
    /// The time between two of them, in microseconds; 0 is as fast as they are read.
    pub(crate) pace_us: usize,
    /// Whether the last answer waits until answers are released.
    pub(crate) is_held: bool,
}

impl Script {
    /// Returns the prompt that asks for it. The id has always as many digits.
    pub(crate) fn prompt(&self) -> String {
        let Self { id, steps, first, deltas, pace_us, is_held } = *self;
        let held = usize::from(is_held);
        format!("{}{steps} {first} {deltas} {pace_us} {held}] Follow the script.", tag(id))
    }

    /// Finds the last script in a request, and how many of its calls have results.
    pub(crate) fn find(body: &str) -> Option<(Self, usize)> {
        let at = body.rfind("[bench ")?;
        let rest = body.get(at..)?;
        let inside = rest.get("[bench ".len()..rest.find(']')?)?;
        let mut numbers = inside.split(' ').map(|word| word.parse::<usize>().ok());
        let mut next = || numbers.next().flatten();
        let script = Self {
            id: next()?,
            steps: next()?,
            first: next()?,
            deltas: next()?,
            pace_us: next()?,
            is_held: next()? == 1,
        };
        Some((script, rest.matches(r#""tool_result""#).count()))
    }
}

/// Returns how the script of an id begins.
pub(crate) fn tag(id: usize) -> String {
    format!("[bench {id:06} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_script_of_a_request_is_found() {
        let old = Script { id: 1, steps: 1, ..Script::default() };
        let new = Script { id: 2, steps: 5, first: 7, deltas: 3, pace_us: 9, is_held: true };
        let result = r#"{"type":"tool_result"}"#;
        let body = format!("{}{result}{}{result}{result}", old.prompt(), new.prompt());
        assert_eq!(Script::find(&body), Some((new, 2)));
        assert_eq!(Script::find("a title, please"), None);
    }
}
