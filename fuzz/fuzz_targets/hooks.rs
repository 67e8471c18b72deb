//! What hooks answer, and the files that name them: no text makes a reader panic, a set of hooks
//! comes back from what is written of it and can be set up.
#![no_main]

use driver_api::{Hooks, Moment};
use hooks::{CommandHooks, HookSet, Origin, check_form};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for moment in Moment::ALL {
        let understood = check_form(moment, data);
        // Only what has JSON in it can be wrong.
        let text = String::from_utf8_lossy(data);
        let is_json = text.contains('{');
        assert!(understood.is_ok() || is_json, "{moment:?}: {understood:?}");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(set) = HookSet::from_json(text) {
        let written = serde_json::to_string(&set).expect("what was JSON has a JSON form");
        assert_eq!(HookSet::from_json(&written).as_ref(), Ok(&set));
        let is_empty = set.is_empty();
        let hooks = CommandHooks::new(vec![(Origin::User, set)]).expect("it was read");
        let is_wanted = Moment::ALL.into_iter().any(|moment| hooks.wants(moment, "run_shell"));
        assert!(!is_empty || !is_wanted);
    }
});
