//! Words as the shell resolves them.

use shell::read;

use crate::parts;

#[test]
fn words_are_resolved() {
    for (line, expected) in [
        (r#"a 'b;c' "d|e" f\;g"#, "a b;c d|e f;g"),
        (r#"a "b\"c\d\$e""#, r#"a b"c\d$e"#),
        ("a''b \"\"c d", "ab c d"),
        ("a\\\nb c", "ab c"),
        ("'X=1' a", "X=1 a"),
        ("'a' \\b", "a b"),
        (r"a $'b\x63\144\u0065\n'", "a bcde\n"),
        (r"a $'it\'s'", "a it's"),
        (r"a $'b\0c'", "a b"),
        ("a $\"b\"", "a b"),
        ("a {b,c}d {1..3} {x}", "a bd cd 1 2 3 {x}"),
        ("a {b,{c,d}}e", "a be ce de"),
        ("a '{b,c}' {b,'c,d'}", "a {b,c} b c,d"),
        ("a {c..a} {1..7..3}", "a a b c 1 4 7"),
        ("a stash@{0} HEAD^{} x{", "a stash@{0} HEAD^{} x{"),
        ("a *.b [cd] e?", "a *.b [cd] e?"),
        ("a ~/b", "a ~/b"),
        ("a $ b$", "a $ b$"),
        ("a $X${Y}z", "a ??z"),
        ("a {$X,b}", "a ? b"),
        ("a b=c --d={e,f}", "a b=c --d=e --d=f"),
    ] {
        assert_eq!(parts(line), [expected], "{line}");
    }
}

#[test]
fn what_is_unknown_in_a_word_is_marked() {
    let words = read("a *.b \"$X\" $X 'c*' d{e,f}").parts[0].words.clone();
    let marks: Vec<_> = words.iter().map(|word| (word.is_unknown(), word.may_split)).collect();
    assert_eq!(
        marks,
        [
            (false, false),
            (true, true),
            (true, false),
            (true, true),
            (false, false),
            (false, false),
            (false, false)
        ]
    );
}

#[test]
fn programs_are_known_by_their_place() {
    for (line, trusted) in [
        ("cat", "cat"),
        ("/bin/cat", "cat"),
        ("/usr/local/bin/cat", "cat"),
        ("./cat", "./cat"),
        ("/tmp/cat", "/tmp/cat"),
        ("/bin/../tmp/cat", "/bin/../tmp/cat"),
        ("~/cat", "~/cat"),
    ] {
        let part = read(line).parts[0].clone();
        assert_eq!((part.trusted_name(), part.base_name()), (trusted, "cat"), "{line}");
    }
}

#[test]
fn sub_commands_are_found_behind_options() {
    let readings = |line: &str| -> Vec<String> {
        let part = read(line).parts[0].clone();
        let spell = |words: Vec<&shell::Word>| {
            words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
        };
        part.readings().into_iter().map(spell).collect()
    };
    assert!(readings("git -C x push").contains(&"git push".to_owned()));
    assert!(readings("git --frob x push").contains(&"git push".to_owned()));
    assert!(readings("npm --prefix x -s publish").contains(&"npm publish".to_owned()));
    assert!(!readings("git log push").contains(&"git push".to_owned()));
    assert_eq!(readings("ls -l a"), ["ls -l a"]);
}
