//! `cargo xtask codegen`: files that are written by the program or from its source.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::house::House;
use crate::tree::Tree;
use crate::{limits, process, say};

/// The schemas by the name under which the program prints them, with their files.
const SCHEMAS: [(&str, &str); 4] = [
    ("event", "event.schema.json"),
    ("config", "config.schema.json"),
    ("v1-openapi", "v1.openapi.json"),
    ("host-protocol", "host-protocol.schema.json"),
];

/// Writes every generated file, or with `--check` tells which are stale.
///
/// # Errors
/// When the program does not build, or with `--check` when a file is stale.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only_check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("does not know '{}': it takes only --check", arguments.join(" ")),
    };
    let house = House::open()?;
    let mut stale = Vec::new();
    let limits = limits::page(&limits::collect(&Tree::read(&house)?));
    let mut settle = |path: &str, text: &str| -> Result<()> {
        let file = house.root.join(path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        if !only_check {
            write(&file, text)?;
            say::line(&format!("codegen: wrote {path}"));
        }
        stale.push(path.to_owned());
        Ok(())
    };
    settle(limits::PAGE, &limits)?;
    // The rest is written by the program itself.
    house.build()?;
    for (name, file) in SCHEMAS {
        let mut narthex = process::program(house.binary("narthex"));
        let text = process::output(narthex.args(["internal-schema", name]))?;
        settle(&format!("schema/{file}"), &pretty(name, &text)?)?;
    }
    match stale.as_slice() {
        [] => say::line("codegen: every generated file is current"),
        stale if only_check => {
            bail!("stale: {}; run `cargo xtask codegen` and commit them", stale.join(", "))
        }
        _ => {}
    }
    Ok(())
}

/// Spells a schema in one way, so that a change shows as the lines that changed.
fn pretty(name: &str, text: &str) -> Result<String> {
    let value: serde_json::Value =
        serde_json::from_str(text).with_context(|| format!("read the {name} schema"))?;
    Ok(format!("{value:#}\n"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
