//! Rules of several layers against each other, and what is suggested.

use std::path::Path;

use policy::{Decision, Layer, LayerName, PathUse, Policy, risk};
use protocol::event::DeniedBy;
use protocol::{Effect, Mode, Risk};

use Decision::{Allow, Ask, Deny};
use LayerName::{Flags, Managed, Project, Session, User};

use crate::{allow, ask, call, deny, on_path, path, policy, rules, shell};

#[test]
fn deny_wins_over_ask_over_allow_over_the_mode() {
    let command = "touch shell.txt";
    let touch = ["run_shell(touch *)"];
    for (layers, expected, by) in [
        (vec![allow(Flags, &touch)], Allow, DeniedBy::Rule),
        (vec![allow(Flags, &touch), deny(Flags, &touch)], Deny, DeniedBy::Rule),
        (
            vec![allow(Managed, &touch), allow(User, &["*"]), deny(Flags, &touch)],
            Deny,
            DeniedBy::Rule,
        ),
        (vec![allow(Flags, &["run_shell"]), deny(Managed, &touch)], Deny, DeniedBy::Policy),
        (vec![allow(Flags, &touch), ask(Flags, &touch)], Ask, DeniedBy::Rule),
        (vec![allow(Session, &touch), ask(User, &touch)], Ask, DeniedBy::Rule),
        (vec![allow(Session, &touch), ask(Managed, &touch)], Ask, DeniedBy::Policy),
        (vec![allow(Session, &touch), ask(Flags, &touch)], Allow, DeniedBy::Rule),
        (vec![allow(Session, &touch), ask(Session, &touch)], Ask, DeniedBy::Rule),
        (vec![allow(Flags, &["run_shell(touchy *)"])], Ask, DeniedBy::Mode),
    ] {
        let verdict = policy(layers.clone()).judge(Mode::Ask, &shell(command));
        assert_eq!((verdict.decision, verdict.by), (expected, by), "{layers:?}");
        let turned = policy(layers.iter().rev().cloned()).judge(Mode::Ask, &shell(command));
        assert_eq!(turned, verdict, "the order of adding makes no difference");
    }
    let verdict = policy([deny(Managed, &touch)]).judge(Mode::FullAuto, &shell(command));
    assert_eq!(verdict.reason, "denied by the rule run_shell(touch *) of the managed settings");
}

#[test]
fn ask_rules_hold_in_full_auto() {
    let policy = policy([ask(User, &["run_shell(git push *)", "web_fetch"])]);
    assert_eq!(policy.judge(Mode::FullAuto, &shell("git add . && git push")).decision, Ask);
    assert_eq!(policy.judge(Mode::FullAuto, &shell("git add .")).decision, Allow);
    let fetch = call("web_fetch", Effect::Network, &[]);
    assert_eq!(policy.judge(Mode::FullAuto, &fetch).decision, Ask);
}

#[test]
fn a_list_needs_every_command_allowed_and_one_denied() {
    let allowing = policy([allow(User, &["run_shell(ls *)"]), allow(Flags, &["run_shell(wc *)"])]);
    assert_eq!(allowing.judge(Mode::Ask, &shell("ls | wc -l")).decision, Allow);
    assert_eq!(allowing.judge(Mode::Ask, &shell("ls | sort | wc -l")).decision, Ask);
    let denying = allowing.tighten(deny(Project, &["run_shell(wc *)"]));
    assert_eq!(denying.judge(Mode::Ask, &shell("ls | wc -l")).decision, Deny);
}

#[test]
fn aliases_are_the_same_tool() {
    let policy = policy([deny(User, &["bash(rm *)", "task", "todo_write"])]);
    for tool in ["run_shell", "bash", "execute"] {
        let call = policy::Call { tool, ..shell("rm x") };
        assert_eq!(policy.judge(Mode::FullAuto, &call).decision, Deny, "{tool}");
    }
    for tool in ["delegate", "task", "todos", "todo_write"] {
        let verdict = policy.judge(Mode::FullAuto, &call(tool, Effect::Read, &[]));
        assert_eq!(verdict.decision, Deny, "{tool}");
    }
}

#[test]
fn servers_and_their_tools() {
    let policy = policy([allow(User, &["mcp__docs"]), deny(User, &["mcp__docs__delete"])]);
    for (tool, expected) in [
        ("mcp__docs__read", Allow),
        ("mcp__docs__delete", Deny),
        ("mcp__docs__delete_all", Allow),
        ("mcp__docs2__read", Ask),
    ] {
        let verdict = policy.judge(Mode::Ask, &call(tool, Effect::Network, &[]));
        assert_eq!(verdict.decision, expected, "{tool}");
    }
}

#[test]
fn file_rules_hold_for_real_paths() {
    let policy = policy([
        allow(User, &["write_file(src/**)", "read_file(/etc/hosts)", "read_file(~/notes/*)"]),
        deny(User, &["write_file(src/secret)", "read_file(**/.env)"]),
    ]);
    for (tool, real, expected) in [
        ("write_file", "/srv/app/src/a.rs", Allow),
        ("write_file", "/srv/app/b.rs", Ask),
        ("write_file", "/srv/app/src/secret", Deny),
        ("write_file", "/srv/app/src/secret/below", Deny),
        // A protected place is protected against every tool that writes …
        ("edit_file", "/srv/app/src/secret", Deny),
        ("apply_patch", "/srv/app/src/secret", Deny),
        // … while a permission is for one tool.
        ("edit_file", "/srv/app/src/a.rs", Ask),
        ("read_file", "/etc/hosts", Allow),
        ("read_file", "/etc/passwd", Ask),
        ("read_file", "/home/me/notes/x", Allow),
        ("read_file", "/home/me/notes/x/y", Ask),
        ("read_file", "/srv/app/deep/.env", Deny),
        ("grep", "/srv/app/deep/.env", Deny),
        ("read_file", "/srv/app/src/secret", Allow),
    ] {
        let verdict = on_path(&policy, Mode::Ask, tool, real);
        assert_eq!(verdict.decision, expected, "{tool} {real}: {}", verdict.reason);
    }
}

#[test]
fn a_patch_needs_every_file_allowed() {
    let policy = policy([allow(User, &["apply_patch(src/**)"])]);
    let inside = [path("/srv/app/src/a", true), path("/srv/app/src/b", true)];
    let mixed = [path("/srv/app/src/a", true), path("/srv/app/Cargo.toml", true)];
    let judge = |paths: &[PathUse<'_>]| {
        policy.judge(Mode::Ask, &call("apply_patch", Effect::Write, paths)).decision
    };
    assert_eq!(judge(&inside), Allow);
    assert_eq!(judge(&mixed), Ask);
}

#[test]
fn a_redirection_writes_a_file() {
    let policy =
        policy([deny(User, &["write_file(secrets/**)"]), ask(User, &["edit_file(*.lock)"])]);
    for (command, expected) in [
        ("echo x > secrets/a", Deny),
        ("echo x >> ./src/../secrets/a", Deny),
        ("echo x &> /srv/app/secrets/a", Deny),
        ("echo x > Cargo.lock", Ask),
        ("echo x > $FILE", Ask),
        ("echo x > other", Allow),
        ("echo x > /dev/null", Allow),
        ("cat > notes.md <<E\nx\nE", Allow),
    ] {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
    }
}

#[test]
fn a_redirection_starts_from_the_folder_that_the_command_runs_in() {
    let policy = policy([deny(User, &["write_file(secrets/**)"])]);
    for (command, expected) in [
        ("echo x > key", Deny),
        ("echo x > ./a/../key", Deny),
        ("echo x > ../free", Allow),
        ("echo x > ../secrets/key", Deny),
        ("echo x > /srv/app/free", Allow),
    ] {
        let folder = [path("/srv/app/secrets", false)];
        let call = policy::Call { paths: &folder, ..shell(command) };
        let verdict = policy.judge(Mode::FullAuto, &call);
        assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
    }
    let elsewhere = [path("/srv/app/src", false)];
    let call = policy::Call { paths: &elsewhere, ..shell("echo x > secrets/key") };
    assert_eq!(policy.judge(Mode::FullAuto, &call).decision, Allow, "it is src/secrets/key");
}

#[test]
fn after_a_change_of_folder_a_written_place_is_not_known() {
    let rules = ["write_file(secrets/**)"];
    for (command, expected) in [
        ("cd secrets && echo x > key", Ask),
        ("cd secrets; echo x >> key", Ask),
        ("pushd secrets; echo x > key; popd", Ask),
        ("cd src && echo x > /srv/app/secrets/key", Deny),
        ("cd src && echo x > /tmp/free", Allow),
        ("cd src && echo x > /dev/null 2>&1", Allow),
        ("cd src && make", Allow),
        ("(cd secrets && echo x > key)", Ask),
        ("(cd secrets; (echo x > key))", Ask),
        ("cd secrets; (echo x > key)", Ask),
        ("{ cd secrets; echo x > key; }", Ask),
        ("echo $(cd secrets && echo x > key)", Ask),
        ("while true; do echo x > key; cd secrets; done", Ask),
        ("f() { cd secrets; }; f; echo x > key", Ask),
        ("function f { cd secrets; }; f; echo x > key", Ask),
        ("for i do cd secrets; done; echo x > key", Ask),
        ("eval \"$X\"; echo x > key", Ask),
        ("builtin $X secrets; echo x > key", Ask),
        ("(cd src && make) > free.log", Allow),
        ("(cd src && make) > secrets/log", Deny),
        ("X=$(cd src && pwd); echo $X > free", Allow),
        ("bash -c 'cd secrets; echo x > key'", Ask),
        ("eval 'cd secrets'; echo x > key", Ask),
        ("builtin cd secrets; echo x > key", Ask),
        ("command cd secrets; echo x > key", Ask),
        ("\\cd secrets; echo x > key", Ask),
        (". ./go; echo x > key", Ask),
        ("source go; echo x > key", Ask),
        ("$X secrets; echo x > key", Ask),
        ("env -C secrets sh -c 'echo x > key'", Ask),
        ("env A=1 sh -c 'echo x > secrets/key'", Deny),
        ("sudo -D secrets sh -c 'echo x > key'", Ask),
        ("find secrets -execdir sh -c 'echo x > key' \\;", Ask),
        ("grep -C 3 x a > free", Allow),
    ] {
        for layer in [deny(User, &rules), ask(User, &rules)] {
            let is_deny = layer.ask.is_empty();
            let expected = if expected == Deny && !is_deny { Ask } else { expected };
            let verdict = policy([layer]).judge(Mode::FullAuto, &shell(command));
            assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
        }
        let verdict = policy([]).judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, Allow, "without a rule nothing is asked: {command}");
    }
}

#[test]
fn a_place_that_a_rule_protects_is_hidden_from_searches() {
    let hides = |policy: &Policy, real: &str| {
        policy.hides(Path::new(crate::CWD), Some(Path::new(crate::HOME)), Path::new(real))
    };
    let denying = policy([
        deny(User, &["read_file(**/.env)", "write_file(src/**)", "run_shell(cat *)"]),
        deny(Managed, &["grep(~/keys)"]),
        ask(Flags, &["list_dir(/etc/ssl/**)"]),
        allow(Flags, &["*"]),
    ]);
    for (real, expected) in [
        ("/srv/app/.env", true),
        ("/srv/app/deep/down/.env", true),
        ("/srv/app/.env/beneath", true),
        ("/srv/app/.envrc", false),
        ("/srv/app", false),
        ("/srv/app/src/a.rs", false),
        ("/home/me/keys", true),
        ("/home/me/keys/a", true),
        ("/home/me", false),
        ("/etc/ssl/a", true),
        ("/etc/hosts", false),
    ] {
        assert_eq!(hides(&denying, real), expected, "{real}");
        let read = on_path(&denying, Mode::FullAuto, "read_file", real);
        assert_eq!(read.decision != Allow, expected, "as for a read of it by name: {real}");
    }
    let search = on_path(&denying, Mode::FullAuto, "grep", "/srv/app");
    assert_eq!(search.decision, Allow, "the folder as a whole may be searched");
    for (rules, expected) in
        [("read_file", true), ("*", true), ("glob", false), ("write_file", false)]
    {
        assert_eq!(hides(&policy([deny(User, &[rules])]), "/srv/app/a"), expected, "{rules}");
    }
    assert!(!hides(&policy([ask(User, &["read_file", "*"])]), "/srv/app/a"), "no place is named");
    assert!(!hides(&Policy::default(), "/srv/app/a"));
    let no_home = denying.hides(Path::new(crate::CWD), None, Path::new("/srv/app/a"));
    assert!(no_home, "a place that cannot be compared is left out");
}

#[test]
fn a_redirection_under_an_allow_rule_is_judged_as_the_file_tool() {
    let policy = policy([
        allow(User, &["run_shell(echo *)", "run_shell(cat *)", "write_file(out/**)"]),
        allow(User, &["read_file(/etc/hosts)"]),
        deny(User, &["read_file(keys/**)"]),
    ]);
    for (command, in_ask, in_auto_edit) in [
        ("echo a > x", Ask, Allow),
        ("echo a > out/x", Allow, Allow),
        ("echo a >> ./out/../x", Ask, Allow),
        ("echo a > /dev/null 2>&1", Allow, Allow),
        ("echo a > ../x", Ask, Ask),
        ("echo a > .git/config", Ask, Ask),
        ("echo a > $X", Ask, Ask),
        ("echo a > out/x > y", Ask, Allow),
        ("cat < x", Allow, Allow),
        ("cat < /etc/hosts", Allow, Allow),
        ("cat < /etc/passwd", Ask, Ask),
        ("cat < keys/a", Deny, Deny),
        ("cat <<'E' > x\na\nE", Ask, Allow),
    ] {
        for (mode, expected) in [(Mode::Ask, in_ask), (Mode::AutoEdit, in_auto_edit)] {
            let verdict = policy.judge(mode, &shell(command));
            assert_eq!(verdict.decision, expected, "{mode} {command}: {}", verdict.reason);
        }
    }
    let link = [path("/srv/app", false), path("/etc/cron.d/x", true)];
    let call = policy::Call { paths: &link, ..shell("echo a > out/x") };
    assert_eq!(policy.judge(Mode::Ask, &call).decision, Ask, "the link leads elsewhere");
}

#[test]
fn wrappers_are_looked_through_and_cover_nothing_themselves() {
    for (rules, command, expected) in [
        (&["run_shell(npm test *)"][..], "timeout 60 npm test", Allow),
        (&["run_shell(npm test *)"], "env A=1 nice -n 5 npm test -- -w", Allow),
        (&["run_shell(timeout *)"], "timeout 60 npm test", Ask),
        (&["run_shell(timeout 60 npm *)"], "timeout 60 npm test", Allow),
        (&["run_shell(timeout 60 npm *)"], "timeout 60 nice npm test", Ask),
        (&["run_shell(timeout 60 *)"], "timeout 60 npm test", Ask),
        (&["run_shell(npm test *)"], "sudo npm test", Ask),
        (&["run_shell(sudo *)"], "sudo npm test", Ask),
        (&["run_shell(sudo *)", "run_shell(npm test *)"], "sudo npm test", Allow),
        (&["run_shell(sudo npm test *)"], "sudo npm test", Allow),
        (&["run_shell(sudo npm test *)"], "sudo -u x npm test", Ask),
        (&["run_shell(ls *)"], "bash -c 'ls; ls'", Allow),
        (&["run_shell(ls *)"], "bash -c 'ls; rm x'", Ask),
        (&["run_shell(bash *)"], "bash -c 'ls; rm x'", Ask),
        (&["run_shell(bash -c 'ls; rm x')"], "bash -c 'ls; rm x'", Allow),
        (&["run_shell(bash -c 'ls; rm x')"], "bash -c 'ls; rm y'", Ask),
        (&["run_shell(bash *)"], "bash build.sh", Allow),
        (&["run_shell(python3 *)"], "python3 -c 'print(1)'", Ask),
        (&["run_shell(python3 -c *)"], "python3 -c 'print(1)'", Ask),
        (&["run_shell(python3 -c 'print(1)')"], "python3 -c 'print(1)'", Allow),
        (&["run_shell(python3 -c 'print(1)')"], "python3 -c 'print(2)'", Ask),
        (&["run_shell(python3)"], "echo x | python3", Ask),
        (&["run_shell(ssh *)"], "ssh host ls", Ask),
        (&["run_shell(ssh host ls)"], "ssh host ls", Allow),
        (&["run_shell(find *)"], "find . -name x", Allow),
        (&["run_shell(find *)"], "find . -exec rm {} +", Ask),
        (&["run_shell(find *)", "run_shell(rm *)"], "find . -exec rm {} +", Allow),
        (&["run_shell(git *)"], "git -c x=y push", Ask),
        (&["run_shell(git push *)"], "git -C sub push", Allow),
        (&["run_shell(git push *)"], "git --no-pager push", Allow),
        (&["run_shell(git push *)"], "git -C ../other push", Ask),
        (&["run_shell(git push *)"], "git -c x=y push", Ask),
        (&["run_shell(rm *)"], "cat list | xargs rm", Ask),
        (&["run_shell(rm *)", "run_shell(cat *)"], "cat list | xargs rm", Allow),
    ] {
        let verdict = policy([allow(User, rules)]).judge(Mode::Ask, &shell(command));
        assert_eq!(verdict.decision, expected, "{command} {rules:?}: {}", verdict.reason);
    }
}

#[test]
fn a_denied_sub_command_is_found_behind_any_option() {
    let policy = policy([deny(User, &["run_shell(git push *)", "run_shell(npm publish *)"])]);
    for command in [
        "git -C . push",
        "git -c x=y push",
        "git --no-pager -C sub push origin",
        "git --git-dir=.git --work-tree . push",
        "git --frob x push",
        "git --frob push",
        "/usr/bin/git push",
        "./git push",
        "git 'push'",
        "npm --prefix x publish",
        "npm -s publish",
    ] {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        assert_eq!(verdict.decision, Deny, "{command}: {}", verdict.reason);
    }
    for command in
        ["git -C push status", "git log --grep push", "git commit -m \"$X\"", "git add *"]
    {
        let verdict = policy.judge(Mode::FullAuto, &shell(command));
        let expected = if command.contains("-C push") { Deny } else { Allow };
        assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
    }
}

#[test]
fn a_command_rule_does_not_speak_of_other_folders() {
    let policy = policy([allow(User, &["run_shell(make *)"])]);
    let outside = [path("/tmp/other", false)];
    let call = policy::Call { paths: &outside, ..shell("make") };
    assert_eq!(policy.judge(Mode::Ask, &call).decision, Ask);
    assert_eq!(policy.judge(Mode::Ask, &shell("make")).decision, Allow);
}

#[test]
fn managed_allow_rules_list_what_may_be_allowed() {
    let managed = allow(Managed, &["run_shell(npm *)"]);
    let policy = policy([managed, allow(User, &["run_shell(npm test *)", "run_shell(touch *)"])]);
    for (mode, command, expected) in [
        (Mode::Ask, "npm test", Allow),
        (Mode::Ask, "npm install", Ask),
        (Mode::Ask, "touch x", Ask),
        (Mode::FullAuto, "npm install", Allow),
        (Mode::FullAuto, "touch x", Ask),
    ] {
        let verdict = policy.judge(mode, &shell(command));
        assert_eq!(verdict.decision, expected, "{mode} {command}: {}", verdict.reason);
    }
    let read = on_path(&policy, Mode::Ask, "read_file", "/srv/app/a");
    assert_eq!(read.decision, Allow, "a list grants nothing and takes no read away");
    let alone = Policy::default().tighten(allow(Managed, &["*"]));
    assert_eq!(alone.judge(Mode::Ask, &shell("ls")).decision, Ask, "a policy layer grants nothing");
}

#[test]
fn a_host_that_is_not_known_is_not_decided() {
    let fetch = call("web_fetch", Effect::Network, &[]);
    let allowing = policy([allow(User, &["web_fetch(domain:example.com)"])]);
    assert_eq!(allowing.judge(Mode::Ask, &fetch).decision, Ask);
    let denying = policy([deny(User, &["web_fetch(domain:example.com)"])]);
    assert_eq!(denying.judge(Mode::FullAuto, &fetch).decision, Ask);
}

#[test]
fn suggestions_allow_the_call_narrowest_first() {
    for (command, expected) in [
        ("npm test -- -w", vec!["run_shell(npm test -- -w)", "run_shell(npm test *)"]),
        ("npm run build", vec!["run_shell(npm run build)", "run_shell(npm run build *)"]),
        (
            "npm run build:web --x",
            vec!["run_shell(npm run build:web --x)", "run_shell(npm run build:web *)"],
        ),
        ("cargo test", vec!["run_shell(cargo test)", "run_shell(cargo test *)"]),
        ("cargo +nightly fmt", vec!["run_shell(cargo +nightly fmt)", "run_shell(cargo fmt *)"]),
        ("git --no-pager diff", vec!["run_shell(git --no-pager diff)", "run_shell(git diff *)"]),
        ("git push origin x", vec!["run_shell(git push origin x)"]),
        ("touch made.txt", vec!["run_shell(touch made.txt)", "run_shell(touch *)"]),
        ("rm -rf build", vec!["run_shell(rm -rf build)"]),
        ("ls *.txt", vec![r"run_shell(ls \*.txt)", "run_shell(ls *)"]),
        ("git", vec!["run_shell(git)"]),
        ("./run.sh --fast", vec!["run_shell(./run.sh --fast)", "run_shell(./run.sh *)"]),
        ("cargo fmt && cargo fmt --check", vec!["run_shell(cargo fmt *)"]),
        // What only steers the shell or runs another goes along.
        ("cd src && RUST_LOG=debug make all", vec!["run_shell(make all)", "run_shell(make all *)"]),
        ("env make", vec!["run_shell(make)"]),
        ("timeout 60 npm test", vec!["run_shell(npm test)", "run_shell(npm test *)"]),
        ("set -e; [ -f a ] && wc -l a", vec!["run_shell(wc -l a)", "run_shell(wc *)"]),
        ("wc -l \"$X\"", vec![r#"run_shell(wc -l "$X")"#, "run_shell(wc *)"]),
        // Two programs need a rule each.
        ("ls | wc", vec!["run_shell(ls *)", "run_shell(wc *)"]),
        ("cargo test -p x 2>&1 | tail -20", vec!["run_shell(cargo test *)", "run_shell(tail *)"]),
        ("ls | rm -r x", vec![]),
        // No rule covers an interpreter, or what cannot be told.
        ("echo $(date)", vec!["run_shell(date *)", "run_shell(echo *)"]),
        ("python3 -c 'x'", vec![]),
        ("python3 tool.py", vec!["run_shell(python3 tool.py)"]),
        ("ssh host ls", vec![]),
        ("sudo make", vec!["run_shell(sudo make)"]),
        ("$X", vec![]),
        ("f() { make; }; f", vec![]),
        ("make > log", vec![]),
        ("cd / && make", vec![]),
        ("PATH=. make", vec![]),
        ("git -c core.pager=x log", vec![]),
    ] {
        let call = shell(command);
        let suggested = Policy::default().suggest(&call);
        assert_eq!(suggested, expected, "{command}");
        let is_of_parts = command.contains(" | ") || command.contains("$(");
        for rule in suggested.iter().filter(|_| !is_of_parts) {
            let policy = policy([allow(Session, &[rule.as_str()])]);
            let verdict = policy.judge(Mode::Ask, &call);
            assert_eq!(verdict.decision, Allow, "{command} under {rule}: {}", verdict.reason);
        }
        if is_of_parts && !suggested.is_empty() {
            let rules: Vec<&str> = suggested.iter().map(String::as_str).collect();
            let verdict = policy([allow(Session, &rules)]).judge(Mode::Ask, &call);
            assert_eq!(verdict.decision, Allow, "{command}: {}", verdict.reason);
            let first = policy([allow(Session, &rules[..1])]);
            assert_eq!(
                first.suggest(&call),
                suggested[1..],
                "what is covered is not offered again"
            );
        }
    }
}

#[test]
fn suggestions_for_files() {
    let suggest =
        |tool, paths: &[PathUse<'_>]| Policy::default().suggest(&call(tool, Effect::Write, paths));
    assert_eq!(
        suggest("write_file", &[path("/srv/app/src/a*.rs", true)]),
        [r"write_file(src/a\*.rs)", "write_file(src/**)"]
    );
    assert_eq!(
        suggest("write_file", &[path("/srv/app/a.rs", true)]),
        ["write_file(a.rs)", "write_file(**)"]
    );
    assert_eq!(
        suggest("edit_file", &[path("/etc/hosts", true)]),
        ["edit_file(/etc/hosts)", "edit_file(/etc/**)"]
    );
    assert_eq!(
        suggest("apply_patch", &[path("/srv/app/x/a", true), path("/srv/app/x/y/b", true)]),
        ["apply_patch(x/**)"]
    );
    assert_eq!(Policy::default().suggest(&call("todos", Effect::Read, &[])), ["todos"]);
}

#[test]
fn risks_are_told_apart() {
    let of = |command| risk(&shell(command));
    assert_eq!(of("ls -la | wc -l"), Risk::Low);
    assert_eq!(of("git status"), Risk::Low);
    assert_eq!(of("cargo test"), Risk::Medium);
    assert_eq!(of("echo a > b"), Risk::Medium);
    assert_eq!(of("ls; rm x"), Risk::High);
    assert_eq!(of("git push --force"), Risk::High);
    assert_eq!(of("$X"), Risk::High);
    let outside = [path("/etc/hosts", true)];
    assert_eq!(risk(&call("write_file", Effect::Write, &outside)), Risk::High);
    let inside = [path("/srv/app/a", true)];
    assert_eq!(risk(&call("write_file", Effect::Write, &inside)), Risk::Low);
}

#[test]
fn equal_texts_make_equal_rules() {
    assert_eq!(rules(&["bash(npm  test *)"]), rules(&["run_shell(npm test *)"]));
    let empty = Layer::new(Managed);
    assert_eq!(Policy::default().tighten(empty.clone()), policy([empty]));
}

/// `**` was not written with hooks of git in mind.
#[test]
fn a_wide_pattern_does_not_cover_what_other_programs_run() {
    let wide = policy([allow(User, &["write_file(**)", "apply_patch(src/**)"])]);
    let write = |name: &str| {
        let paths = [path(name, true)];
        wide.judge(Mode::Ask, &call("write_file", Effect::Write, &paths)).decision
    };
    assert_eq!(write("/srv/app/src/a.rs"), Allow);
    assert_eq!(write("/srv/app/.git/hooks/pre-commit"), Ask);
    assert_eq!(write("/srv/app/.narthex/hooks.json"), Ask);
    let named = policy([allow(User, &["write_file(.git/**)"])]);
    let paths = [path("/srv/app/.git/info/exclude", true)];
    assert_eq!(named.judge(Mode::Ask, &call("write_file", Effect::Write, &paths)).decision, Allow);
}

/// A rule that protects a file is heard where a command names it.
#[test]
fn a_command_that_names_a_protected_file_is_asked_for() {
    let guarded = policy([
        deny(User, &["read_file(**/.env)", "write_file(data/**)"]),
        allow(User, &["run_shell(cat *)", "run_shell(cp *)", "run_shell(rm *)", "run_shell(ls *)"]),
    ]);
    for (command, expected) in [
        ("cat .env", Ask),
        ("cat a/.env", Ask),
        ("cp --target-directory=/tmp ./.env", Ask),
        ("rm data/a", Ask),
        ("cat data/a", Allow),
        ("cat README.md", Allow),
        ("ls .envrc", Allow),
    ] {
        let verdict = guarded.judge(Mode::Ask, &shell(command));
        assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
    }
    let verdict = guarded.judge(Mode::FullAuto, &shell("grep SECRET .env"));
    assert_eq!(verdict.decision, Ask, "{}", verdict.reason);
}
