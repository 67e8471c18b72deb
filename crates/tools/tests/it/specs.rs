//! What goes out with each request.

use std::sync::Arc;

use driver_api::Tool;
use serde_json::{Value, json};

use crate::Bench;

/// The limit of the list's JSON: it is paid for with each request.
const SPECS_BYTES_MAX: usize = 6_000;

fn specs(tools: &[Arc<dyn Tool>]) -> Vec<Value> {
    let specs = tools.iter().map(|tool| {
        let spec = tool.spec();
        json!({
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.input_schema,
        })
    });
    specs.collect()
}

#[test]
fn the_list_is_small_and_fixed() {
    let specs = || specs(&tools::native());
    let json = serde_json::to_string(&specs()).unwrap();
    let size = json.len();
    assert!(size <= SPECS_BYTES_MAX, "{size} bytes");
    assert_eq!(json, serde_json::to_string(&specs()).unwrap(), "byte-stable");
    insta::assert_snapshot!("specs", serde_json::to_string_pretty(&specs()).unwrap());
}

#[test]
fn names_come_in_the_fixed_order() {
    let names: Vec<_> = tools::native().iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(
        names,
        [
            "read_file",
            "list_dir",
            "glob",
            "grep",
            "write_file",
            "edit_file",
            "apply_patch",
            "run_shell",
            "ask_question",
            "exit_plan"
        ]
    );
    assert!(tools::native().iter().all(|tool| tool.is_common()));
}

#[test]
fn some_are_there_for_those_who_choose_them() {
    let names: Vec<_> = tools::chosen().iter().map(|tool| tool.spec().name.clone()).collect();
    let expected = ["process_start", "process_list", "process_output", "process_kill", "elevated"];
    assert_eq!(names, expected);
    assert!(tools::chosen().iter().all(|tool| !tool.is_common()));
}

fn all() -> Vec<Value> {
    let tools: Vec<_> = tools::native().into_iter().chain(tools::chosen()).collect();
    specs(&tools)
}

#[test]
fn schemas_refuse_unknown_keys() {
    for spec in all() {
        let schema = &spec["input_schema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["additionalProperties"], json!(false));
        for name in schema["required"].as_array().unwrap() {
            assert!(schema["properties"].get(name.as_str().unwrap()).is_some());
        }
    }
}

/// Makes a value that a property's schema allows.
fn sample(schema: &Value) -> Value {
    if let Some(values) = schema.get("enum") {
        return values[0].clone();
    }
    match schema["type"].as_str().unwrap() {
        "string" => json!("."),
        "integer" => schema["minimum"].clone(),
        "boolean" => json!(true),
        "array" => {
            let count = schema["minItems"].as_u64().unwrap_or(1);
            let items = (0..count).map(|number| {
                let mut item = sample(&schema["items"]);
                // Options must be told apart.
                for key in ["id", "label"] {
                    if item.get(key).is_some() {
                        item[key] = json!(format!("{key} {number}"));
                    }
                }
                item
            });
            items.collect()
        }
        "object" => {
            let properties = schema["properties"].as_object().unwrap();
            properties.iter().map(|(name, schema)| (name.clone(), sample(schema))).collect()
        }
        other => panic!("unknown type {other}"),
    }
}

// The schemas are written by hand: the arguments that they allow must be those that are read.
#[tokio::test]
async fn schemas_and_arguments_agree() {
    let bench = Bench::new();
    for spec in all() {
        let name = spec["name"].as_str().unwrap();
        let mut input = sample(&spec["input_schema"]);
        if name == "apply_patch" {
            input = json!({"patch": "*** Begin Patch\n*** Delete File: a\n*** End Patch"});
        }
        if name == "edit_file" {
            // One of the two ways to spell it, not both.
            for other in ["old_string", "new_string", "replace_all"] {
                input.as_object_mut().unwrap().remove(other);
            }
        }
        let facts = bench.facts(name, input.clone()).await;
        assert!(facts.is_ok(), "{name}: {:?}", facts.err());
        input["surprise"] = json!(1);
        let error = bench.facts(name, input).await.unwrap_err().to_string();
        assert!(error.contains("surprise"), "{name}: {error}");
    }
}
