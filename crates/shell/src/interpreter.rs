//! Interpreters: whether a command gives one a program in its arguments or on its input.
//!
//! A script in a file is a program like any other. The text of a program on the command line may
//! run any command, and it is not read.

use crate::script::Word;

/// The options of an interpreter. Letters stand for short options.
#[derive(Clone, Copy)]
struct Interpreter {
    /// Without a version: `python` for `python3.11` too.
    name: &'static str,
    /// Letters whose value is a program.
    code: &'static str,
    /// Long options and sub-commands whose value is a program.
    code_words: &'static [&'static str],
    /// Letters whose value is the rest of the word or else the next word.
    valued: &'static str,
    /// Letters whose value is the rest of the word, which may be empty.
    attached: &'static str,
    /// Letters after which nothing is an option of the interpreter.
    last: &'static str,
}

const NONE: Interpreter =
    Interpreter { name: "", code: "", code_words: &[], valued: "", attached: "", last: "" };

const INTERPRETERS: [Interpreter; 22] = [
    Interpreter { name: "python", code: "c", valued: "WXQ", last: "m", ..NONE },
    Interpreter { name: "pypy", code: "c", valued: "WXQ", last: "m", ..NONE },
    Interpreter { name: "ipython", code: "c", code_words: &["--code"], last: "m", ..NONE },
    Interpreter { name: "perl", code: "eE", valued: "I", attached: "iMmxDdFV", ..NONE },
    Interpreter { name: "ruby", code: "e", valued: "IrCXE", attached: "iKFWTx", ..NONE },
    Interpreter { name: "node", code: "ep", code_words: NODE_WORDS, valued: "rC", ..NONE },
    Interpreter { name: "nodejs", code: "ep", code_words: NODE_WORDS, valued: "rC", ..NONE },
    Interpreter { name: "bun", code: "ep", code_words: BUN_WORDS, valued: "r", ..NONE },
    Interpreter { name: "deno", code_words: &["eval", "repl"], ..NONE },
    Interpreter { name: "php", code: "rBRE", valued: "dczStfF", ..NONE },
    Interpreter { name: "lua", code: "e", valued: "l", ..NONE },
    Interpreter { name: "luajit", code: "e", valued: "lj", attached: "Ob", ..NONE },
    Interpreter { name: "tclsh", ..NONE },
    Interpreter { name: "osascript", code: "e", valued: "ls", ..NONE },
    Interpreter { name: "julia", code: "eE", code_words: &["--eval", "--print"], ..NONE },
    Interpreter { name: "elixir", code: "e", code_words: &["--eval", "--rpc-eval"], ..NONE },
    Interpreter { name: "groovy", code: "e", ..NONE },
    Interpreter { name: "scala", code: "e", ..NONE },
    Interpreter { name: "guile", code: "c", ..NONE },
    Interpreter { name: "expect", code: "c", ..NONE },
    Interpreter { name: "Rscript", code: "e", ..NONE },
    Interpreter { name: "erl", code_words: &["-eval", "-run", "-s"], ..NONE },
];

const NODE_WORDS: &[&str] = &["--eval", "--print"];
const BUN_WORDS: &[&str] = &["--eval", "--print", "exec"];

/// Words after which an interpreter only says something about itself.
const ABOUT: [&str; 9] =
    ["--version", "--help", "-V", "-VV", "-v", "-h", "-help", "-version", "--versions"];

/// Where the program that an interpreter runs comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// From a file, or there is none.
    None,
    /// From its arguments.
    Argument,
    /// From its input.
    Input,
}

/// Tells whether a call of a program gives it the text of a program to run.
pub(crate) fn code(program: &str, arguments: &[Word]) -> Code {
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let found = INTERPRETERS.iter().find(|it| it.name == program || it.name == bare);
    let Some(interpreter) = found else { return Code::None };
    let mut rest = arguments;
    let mut may_be_value = false;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        // Where its beginning is known only when it runs, it may be the option itself.
        if first.may_be_option() || interpreter.code_words.iter().any(|word| is_word(text, word)) {
            return Code::Argument;
        }
        rest = after;
        match text {
            "-" | "/dev/stdin" => return Code::Input,
            "--" if after.is_empty() => return Code::Input,
            "--" => return Code::None,
            long if long.starts_with("--") => may_be_value = !long.contains('='),
            short if short.starts_with('-') => match interpreter.letters(short) {
                Letters::Code => return Code::Argument,
                Letters::Last => return Code::None,
                Letters::Value => rest = after.get(1..).unwrap_or_default(),
                Letters::Flags => {}
            },
            // The value of a long option that is not known.
            _ if may_be_value => may_be_value = false,
            _ => return Code::None,
        }
    }
    // Without a script the program comes from the input.
    let is_about = |word: &Word| ABOUT.contains(&word.text.as_str()) || word.text.starts_with("--");
    if arguments.iter().any(is_about) { Code::None } else { Code::Input }
}

fn is_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// What a word of short options says.
enum Letters {
    /// A program follows.
    Code,
    /// Nothing that follows is an option.
    Last,
    /// The next word is a value.
    Value,
    /// No more than it says.
    Flags,
}

impl Interpreter {
    fn letters(&self, word: &str) -> Letters {
        let mut letters = word.chars();
        let _dash = letters.next();
        while let Some(letter) = letters.next() {
            if self.code.contains(letter) {
                return Letters::Code;
            }
            if self.last.contains(letter) {
                return Letters::Last;
            }
            if self.attached.contains(letter) {
                return Letters::Flags;
            }
            if self.valued.contains(letter) {
                let is_last = letters.as_str().is_empty();
                return if is_last { Letters::Value } else { Letters::Flags };
            }
        }
        Letters::Flags
    }
}
