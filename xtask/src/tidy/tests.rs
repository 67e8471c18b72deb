//! Each check sees the fault that it is there for, and passes over what is right.

use std::path::PathBuf;

use super::*;
use crate::house::{Dependency, Package, Target};
use crate::tree::Source;

/// A small house that every check is content with.
fn house() -> Tree {
    let mut tree = Tree {
        packages: vec![package("stdx", &[]), package("app", &["stdx"])],
        folders: vec!["/home/builder/clone".to_owned()],
        ..Tree::default()
    };
    let doc = "//! Text.\n//!\n//! **What**: a.\n//! **Knows** nobody.\n//! **Never** b.\n";
    put(&mut tree, "crates/stdx/src/lib.rs", &format!("{doc}\nmod human;\n"));
    put(&mut tree, "crates/stdx/src/human.rs", "//! Sizes.\n\n/// Why.\nconst A_MAX: u8 = 1;\n");
    put(&mut tree, "crates/app/src/lib.rs", doc);
    put(&mut tree, "crates/app/tests/it/main.rs", "//! Tests.\n\nmod first;\n");
    put(&mut tree, "crates/app/tests/it/first.rs", "//! A test.\n");
    put(&mut tree, "crates/protocol/src/event.rs", "//! E.\n    Done(Done) = \"done\" Public;\n");
    put(&mut tree, "schema/event.schema.json", "{\"const\": \"done\"}\n");
    put(&mut tree, "ARCHITECTURE.md", "# Map\n\n`stdx` and `app`, see `crates/stdx/`.\n");
    put(&mut tree, "README.md", "# Readme\n\nSee [the map](ARCHITECTURE.md#map).\n");
    let record = "# T\n\n## Context\n\n## Decision\n\n## Consequences\n\n## What we gave up\n";
    put(&mut tree, "docs/adr/0001-one.md", record);
    for name in ["stdx", "app"] {
        let path = format!("crates/{name}/Cargo.toml");
        put(&mut tree, &path, "[lints]\nworkspace = true\n\n[dependencies]\n");
    }
    put_limits(&mut tree);
    tree
}

fn package(name: &str, uses: &[&str]) -> Package {
    let source = |kind: &str, path: &str| Target {
        kind: vec![kind.to_owned()],
        src_path: format!("crates/{name}/{path}").into(),
    };
    Package {
        name: name.to_owned(),
        license: Some("Apache-2.0".to_owned()),
        manifest_path: format!("crates/{name}/Cargo.toml").into(),
        dependencies: uses.iter().map(|used| dependency(used, None)).collect(),
        targets: vec![source("lib", "src/lib.rs"), source("test", "tests/it/main.rs")],
    }
}

fn dependency(name: &str, kind: Option<&str>) -> Dependency {
    Dependency {
        name: name.to_owned(),
        kind: kind.map(str::to_owned),
        path: Some(PathBuf::from(format!("crates/{name}"))),
    }
}

fn put(tree: &mut Tree, path: &str, text: &str) {
    tree.paths.insert(path.to_owned());
    tree.files.retain(|file| file.path != path);
    tree.files.push(Source { path: path.to_owned(), text: text.to_owned() });
}

fn put_limits(tree: &mut Tree) {
    let page = crate::limits::page(&crate::limits::collect(tree));
    put(tree, crate::limits::PAGE, &page);
}

fn rules() -> Rules {
    let tidy = "heavy = [\"sqlx\"]\nunsafe_crates = [\"sandbox\"]\n";
    let floors = "[stdx]\nfloor = 0\nlines = 20\nmay_use = []\n\
                  [app]\nfloor = 4\nlines = 20\nmay_use = [\"stdx\"]\n";
    Rules { tidy: toml::from_str(tidy).unwrap(), floors: toml::from_str(floors).unwrap() }
}

/// Checks a house with one fault in it and returns what is found, as `path:line [check]`.
fn found(tree: &Tree, rules: &Rules) -> Vec<String> {
    let short = |finding: Finding| {
        assert!(!finding.what.is_empty() && !finding.right.is_empty());
        let mark = if finding.is_warning { "?" } else { "" };
        format!("{}:{} [{}]{mark}", finding.path, finding.line, finding.check)
    };
    check(tree, rules).into_iter().map(short).collect()
}

/// Adds one file to the house and tells what is found.
fn with(path: &str, text: &str) -> Vec<String> {
    let mut tree = house();
    put(&mut tree, path, text);
    found(&tree, &rules())
}

fn with_packages(change: impl FnOnce(&mut Vec<Package>)) -> Vec<String> {
    let mut tree = house();
    change(&mut tree.packages);
    found(&tree, &rules())
}

#[test]
fn a_tidy_house_has_no_findings() {
    assert_eq!(found(&house(), &rules()), [""; 0]);
}

#[test]
fn this_repository_is_tidy() {
    let house = House::open().unwrap();
    let tree = Tree::read(&house).unwrap();
    let findings = check(&tree, &super::rules(&tree).unwrap());
    let errors: Vec<String> =
        findings.iter().filter(|finding| !finding.is_warning).map(Finding::to_string).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn a_finding_says_where_what_and_what_would_be_right() {
    let finding = Finding::new("columns", ("a.rs", 3), "104 columns", "at most 100");
    assert_eq!(finding.to_string(), "a.rs:3: error [columns]: 104 columns; right: at most 100");
    let warning = Finding::new("file-size", ("a.rs", 0), "b", "c").warning();
    assert_eq!(warning.to_string(), "a.rs: warning [file-size]: b; right: c");
}

#[test]
fn an_arrow_that_is_not_in_the_table() {
    let findings = with_packages(|packages| packages[0].dependencies.push(dependency("app", None)));
    assert_eq!(findings, ["crates/stdx/Cargo.toml:0 [floors]"]);
}

#[test]
fn a_build_arrow_counts_and_a_test_arrow_does_not() {
    let build = with_packages(|p| p[0].dependencies.push(dependency("app", Some("build"))));
    assert_eq!(build, ["crates/stdx/Cargo.toml:0 [floors]"]);
    let dev = with_packages(|p| p[0].dependencies.push(dependency("app", Some("dev"))));
    assert_eq!(dev, [""; 0]);
}

#[test]
fn a_crate_on_no_floor() {
    let mut tree = house();
    let mut rules = rules();
    rules.floors.remove("app");
    assert_eq!(found(&tree, &rules), ["crates/app/Cargo.toml:0 [floors]"]);
    tree.packages.pop();
    assert_eq!(found(&tree, &self::rules()), ["xtask/floors.toml:0 [floors]"]);
}

#[test]
fn a_table_whose_arrow_points_up() {
    let mut rules = rules();
    let up = "[stdx]\nfloor = 0\nlines = 20\nmay_use = [\"app\"]\n\
              [app]\nfloor = 4\nlines = 20\nmay_use = [\"stdx\", \"gone\"]\n";
    rules.floors = toml::from_str(up).unwrap();
    assert_eq!(found(&house(), &rules), ["xtask/floors.toml:0 [floors]"; 2]);
}

#[test]
fn a_crate_over_its_budget() {
    let lines = |count| format!("//! Sizes.\n{}", "fn a() {}\n".repeat(count));
    assert_eq!(
        with("crates/stdx/src/human.rs", &lines(16)).last().unwrap(),
        "crates/stdx/Cargo.toml:0 [crate-size]?"
    );
    let findings = with("crates/stdx/src/human.rs", &lines(40));
    assert!(findings.contains(&"crates/stdx/Cargo.toml:0 [crate-size]".to_owned()));
}

#[test]
fn a_heavy_dependency_in_two_crates() {
    let sqlx = || Dependency { path: None, ..dependency("sqlx", None) };
    let one = with_packages(|packages| packages[0].dependencies.push(sqlx()));
    assert_eq!(one, [""; 0]);
    let two = with_packages(|packages| {
        packages.iter_mut().for_each(|package| package.dependencies.push(sqlx()));
    });
    assert_eq!(two, ["crates/app/Cargo.toml:0 [one-home]"]);
    let of_tests = || Dependency { path: None, ..dependency("sqlx", Some("dev")) };
    let tested = with_packages(|packages| {
        packages.iter_mut().for_each(|package| package.dependencies.push(of_tests()));
    });
    assert_eq!(tested, [""; 0]);
}

#[test]
fn a_manifest_with_its_own_versions_lints_or_licence() {
    let path = "crates/app/Cargo.toml";
    assert_eq!(with(path, "[dependencies]\n"), ["crates/app/Cargo.toml:0 [manifest]"]);
    let own = "[lints]\nworkspace = true\n[dev-dependencies]\nserde = \"1\"\n";
    assert_eq!(with(path, own), ["crates/app/Cargo.toml:4 [manifest]"]);
    let other = with_packages(|packages| packages[1].license = Some("MIT".to_owned()));
    assert_eq!(other, ["crates/app/Cargo.toml:0 [manifest]"]);
}

#[test]
fn a_file_without_a_header() {
    let path = "crates/app/tests/it/first.rs";
    assert_eq!(with(path, "fn a() {}\n"), [format!("{path}:1 [header]")]);
    assert_eq!(with(path, "//!\nfn a() {}\n"), [format!("{path}:1 [header]")]);
    assert_eq!(with(path, ""), [format!("{path}:1 [header]")]);
}

#[test]
fn files_that_are_too_long() {
    let long = |count: usize| format!("//! A.\n{}", "\n".repeat(count - 1));
    let path = "bench/src/turn.rs";
    assert_eq!(with(path, &long(500)), [""; 0]);
    assert_eq!(with(path, &long(501)), [format!("{path}:0 [file-size]?")]);
    assert_eq!(with(path, &long(801)), [format!("{path}:0 [file-size]")]);
    let test = "crates/app/tests/it/first.rs";
    assert_eq!(with(test, &long(1_500)), [format!("{test}:0 [file-size]?")]);
    assert_eq!(with(test, &long(1_501)), [format!("{test}:0 [file-size]")]);
    assert_eq!(with("bench/src/main.rs", &long(41)), ["bench/src/main.rs:0 [file-size]"]);
    assert_eq!(with("bench/src/lib.rs", &long(121)), ["bench/src/lib.rs:0 [file-size]"]);
}

#[test]
fn inline_tests_are_no_production_lines() {
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // a\n".repeat(900));
    assert_eq!(with("bench/src/turn.rs", &format!("//! A.\n{tests}")), [""; 0]);
}

#[test]
fn a_line_that_is_too_wide() {
    let path = "bench/src/turn.rs";
    assert_eq!(with(path, &format!("//! {}\n", "é".repeat(96))), [""; 0]);
    assert_eq!(with(path, &format!("//! {}\n", "e".repeat(97))), [format!("{path}:1 [columns]")]);
}

#[test]
fn names_that_say_nothing() {
    for path in ["bench/src/utils.rs", "bench/types/a.rs", "bench/a_helpers.rs", "b/common.py"] {
        assert_eq!(with(path, "//! A.\n"), [format!("{path}:0 [names]")]);
    }
    assert_eq!(with("bench/src/a/mod.rs", "//! A.\n"), ["bench/src/a/mod.rs:0 [names]"]);
    assert_eq!(with("bench/src/prototypes.rs", "//! A.\n"), [""; 0]);
}

#[test]
fn unsafe_outside_its_homes() {
    let text = format!("//! A.\n#![allow({}, reason = \"b\")]\n", concat!("unsafe", "_code"));
    assert_eq!(with("bench/src/turn.rs", &text), ["bench/src/turn.rs:2 [unsafe]"]);
    assert_eq!(with("crates/sandbox/src/turn.rs", &text), [""; 0]);
}

#[test]
fn a_file_that_nothing_names() {
    let source = "crates/stdx/src/dead.rs";
    assert_eq!(with(source, "//! A.\n"), [format!("{source}:0 [modules]")]);
    let test = "crates/app/tests/it/forgotten.rs";
    assert_eq!(with(test, "//! A.\n"), [format!("{test}:0 [modules]")]);
    let nested = "crates/stdx/src/human/tests.rs";
    assert_eq!(with(nested, "//! A.\n"), [format!("{nested}:0 [modules]")]);
}

#[test]
fn modules_are_named_with_any_visibility() {
    for line in ["mod dead;", "pub mod dead;", "pub(crate) mod dead;", "    mod dead;"] {
        let mut tree = house();
        let lib = tree.file("crates/stdx/src/lib.rs").unwrap().text.clone();
        put(&mut tree, "crates/stdx/src/lib.rs", &format!("{lib}{line}\n"));
        put(&mut tree, "crates/stdx/src/dead.rs", "//! A.\n");
        assert_eq!(found(&tree, &rules()), [""; 0], "{line}");
    }
}

#[test]
fn a_second_test_binary() {
    let findings = with_packages(|packages| {
        packages[1].targets[1].src_path = "crates/app/tests/first.rs".into();
    });
    assert!(findings.contains(&"crates/app/tests/first.rs:0 [modules]".to_owned()));
}

#[test]
fn a_crate_doc_without_its_parts() {
    let findings = with("crates/app/src/lib.rs", "//! A.\n//! **What** and **Knows**.\n");
    assert_eq!(findings, ["crates/app/src/lib.rs:1 [crate-doc]"]);
}

#[test]
fn notes_to_oneself() {
    let path = "bench/src/turn.rs";
    let later = concat!("TO", "DO");
    for (note, is_found) in [
        (format!("// {later}: later"), true),
        (format!("// {later}(#12): later"), false),
        (format!("let a = \"{later}\";"), false),
        (concat!("// FIX", "ME").to_owned(), true),
        (concat!("// XX", "X").to_owned(), true),
        ("// mktemp -t XXXXXX".to_owned(), false),
    ] {
        let findings = with(path, &format!("//! A.\n{note}\n"));
        let expected: &[String] = if is_found { &[format!("{path}:2 [notes]")] } else { &[] };
        assert_eq!(findings, expected, "{note}");
    }
    let script = with(".ci/run", &format!("# {later}\n"));
    assert_eq!(script, [".ci/run:1 [notes]"]);
}

#[test]
fn stubs() {
    let path = "bench/src/turn.rs";
    for stub in [concat!("to", "do!()"), concat!("unimpl", "emented!()"), concat!("#[ign", "ore]")]
    {
        assert_eq!(with(path, &format!("//! A.\n{stub}\n")), [format!("{path}:2 [stubs]")]);
    }
}

#[test]
fn paths_of_machines_and_hosts_of_registries() {
    let path = "bench/a.txt";
    for line in [
        "in /home/builder/clone/a".to_owned(),
        format!("in {}main", concat!("/wo", "rk/")),
        format!("in \"{}.cargo\"", concat!("/ro", "ot/")),
        format!("https://{}/a", concat!("registry.np", "mjs.org")),
        format!("see {}env", concat!(".lib", "rary/")),
    ] {
        assert_eq!(with(path, &format!("{line}\n")), [format!("{path}:1 [machines]")], "{line}");
    }
    let work = concat!("/wo", "rk/");
    let right = [
        "/home/ann/project".to_owned(),
        format!("a{work}b"),
        format!("${{TMP}}{work}b"),
        work.to_owned(),
    ];
    for line in right {
        assert_eq!(with(path, &format!("{line}\n")), [""; 0], "{line}");
    }
}

#[test]
fn files_that_are_too_large_and_space_at_ends() {
    let mut tree = house();
    tree.large.push(("a.bin".to_owned(), 2 * crate::tree::BYTES_MAX));
    assert_eq!(found(&tree, &rules()), ["a.bin:0 [weight]"]);
    assert_eq!(with("docs/a.md", "# A\n\nb \n"), ["docs/a.md:3 [weight]"]);
}

#[test]
fn documents_without_one_title_at_the_top() {
    let path = "docs/a.md";
    assert_eq!(with(path, "text\n"), [format!("{path}:1 [title]")]);
    assert_eq!(with(path, "\n# A\n"), [format!("{path}:2 [title]")]);
    assert_eq!(with(path, "# A\n\n# B\n"), [format!("{path}:3 [title]")]);
    assert_eq!(with(path, "# A\n\n```sh\n# a comment\n```\n"), [""; 0]);
}

#[test]
fn links_that_lead_nowhere() {
    let path = "docs/a.md";
    let page = |link: &str| format!("# A\n\nsee [b]({link})\n");
    assert_eq!(with(path, &page("gone.md")), [format!("{path}:3 [links]")]);
    assert_eq!(with(path, &page("../gone/")), [format!("{path}:3 [links]")]);
    for link in ["../README.md", "adr/", "#a", "https://example.org/x", "adr/0001-one.md#part"] {
        assert_eq!(with(path, &page(link)), [""; 0], "{link}");
    }
}

#[test]
fn a_map_that_is_wrong() {
    let path = "ARCHITECTURE.md";
    assert_eq!(with(path, "# Map\n\n`stdx`\n"), [format!("{path}:0 [map]")]);
    let gone = "# Map\n\n`stdx` `app` `crates/gone/src/lib.rs`\n";
    assert_eq!(with(path, gone), [format!("{path}:3 [map]")]);
    let long = format!("# Map\n\n`stdx` `app`\n{}", "\n".repeat(300));
    assert_eq!(with(path, &long), [format!("{path}:0 [map]")]);
    let mut tree = house();
    tree.files.retain(|file| file.path != path);
    assert!(found(&tree, &rules()).contains(&format!("{path}:0 [map]")));
}

#[test]
fn decisions_without_number_or_parts() {
    let parts = "# A\n\n## Context\n\n## Decision\n\n## Consequences\n\n## What we gave up\n";
    for path in ["docs/adr/0001-two.md", "docs/adr/two.md", "docs/adr/02-two.md"] {
        assert_eq!(with(path, parts), [format!("{path}:0 [decisions]")]);
    }
    let bare = "# A\n\n## Context\n\n## Decision\n\n## Consequences\n";
    assert_eq!(with("docs/adr/0002-b.md", bare), ["docs/adr/0002-b.md:0 [decisions]"]);
}

#[test]
fn limits_without_a_reason_or_a_row() {
    let path = "crates/stdx/src/human.rs";
    let text = "//! Sizes.\n\n/// Why.\nconst A_MAX: u8 = 2;\n";
    assert_eq!(with(path, text), ["docs/limits.md:0 [generated]"]);
    let mut tree = house();
    put(&mut tree, path, "//! Sizes.\n\nconst A_MAX: u8 = 1;\n");
    put_limits(&mut tree);
    assert_eq!(found(&tree, &rules()), [format!("{path}:3 [limits]")]);
}

#[test]
fn an_event_that_the_schema_does_not_know() {
    let path = "crates/protocol/src/event.rs";
    let text = "//! E.\n    Done(Done) = \"done\" Public;\n    New(New) = \"new\" Delta;\n";
    assert_eq!(with(path, text), ["schema/event.schema.json:0 [generated]"]);
}

#[test]
fn exceptions_take_findings_off_and_are_needed() {
    let mut tree = house();
    put(&mut tree, "docs/a.md", "text\n");
    let mut rules = rules();
    let exception = |check: &str, reason: &str| Exception {
        check: check.to_owned(),
        path: "docs/a.md".to_owned(),
        reason: reason.to_owned(),
    };
    rules.tidy.exception = vec![exception("title", "a fragment")];
    assert_eq!(found(&tree, &rules), [""; 0]);
    rules.tidy.exception = vec![exception("title", " ")];
    assert_eq!(found(&tree, &rules), ["docs/a.md:0 [exceptions]"]);
    rules.tidy.exception = vec![exception("title", "a"), exception("links", "b")];
    assert_eq!(found(&tree, &rules), ["docs/a.md:0 [exceptions]"]);
}
