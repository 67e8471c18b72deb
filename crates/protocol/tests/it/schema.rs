//! The schema names every kind.

use protocol::{Event, EventKind};

#[test]
fn the_schema_names_every_kind() {
    let schema = serde_json::to_string(&schemars::schema_for!(Event)).unwrap();
    for kind in EventKind::ALL {
        assert!(schema.contains(&format!("\"const\":\"{}\"", kind.as_str())), "{kind:?}");
    }
}
