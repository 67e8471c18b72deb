//! Programs that run commands in ways that are not followed, and options that make others do so.

use crate::UNKNOWN;
use crate::script::Word;

/// Programs that run what their arguments or their input name in a way that is not followed.
pub(crate) const RUNNERS: &str = "\
    at batch busybox bwrap cgexec dbus-run-session entr firejail linux32 linux64 ltrace \
    numactl pkexec proot proxychains proxychains4 pwsh rlwrap rsh run0 screen setarch ssh \
    start-stop-daemon systemd-run tmux torsocks toybox unbuffer valgrind xvfb-run mosh \
    sshpass autossh dsh pdsh faketime daemonize softlimit setuidgid chpst runsv direnv \
    hyperfine entrypoint catchsegv ld.so ld-linux.so.2 ld-linux-x86-64.so.2 gosu su-exec \
    capsh";

/// An option that makes a program run or load what it names, or write where nobody looks.
struct Danger {
    program: &'static str,
    /// Whole words, or beginnings of words where they are short options or end in `=` or `:`.
    options: &'static [&'static str],
    /// Whether a word that is known only when it runs may be such an option. Not so for programs
    /// whose everyday arguments are such words, and which only the person's own files steer.
    is_strict: bool,
}

const fn danger(program: &'static str, options: &'static [&'static str]) -> Danger {
    Danger { program, options, is_strict: true }
}

const fn loose(program: &'static str, options: &'static [&'static str]) -> Danger {
    Danger { program, options, is_strict: false }
}

const DANGERS: [Danger; 51] = [
    danger(
        "tar",
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "-I",
            "-F",
        ],
    ),
    danger("bsdtar", &["--use-compress-program"]),
    danger("sort", &["--compress-program"]),
    danger("rg", &["--pre", "--hostname-bin"]),
    danger("ag", &["--pager"]),
    danger("ack", &["--pager"]),
    danger("split", &["--filter"]),
    danger("rsync", &["-e", "--rsh", "--rsync-path"]),
    danger("scp", &["-S", "-o", "-F"]),
    danger("sftp", &["-S", "-o", "-F", "-b"]),
    danger("zip", &["-T", "-TT", "--unzip-command"]),
    danger("man", &["-P", "--pager", "-H", "--html", "-C"]),
    danger("less", &["+", "-k", "-o", "-O", "--lesskey"]),
    danger("more", &["+"]),
    danger("wget", &["-e", "--execute", "--use-askpass", "--config"]),
    danger("curl", &["-K", "--config"]),
    danger("tcpdump", &["-z"]),
    danger("nc", &["-e", "-c", "--exec", "--sh-exec"]),
    danger("ncat", &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    danger("netcat", &["-e", "-c"]),
    danger("nmap", &["--script", "-sC", "-A"]),
    danger("make", &["--eval", "SHELL=", "MAKE=", ".SHELLFLAGS="]),
    danger("gmake", &["--eval", "SHELL=", "MAKE=", ".SHELLFLAGS="]),
    danger("vi", &["-c", "--cmd", "+", "-S", "-s", "-u", "-U"]),
    danger("vim", &["-c", "--cmd", "+", "-S", "-s", "-u", "-U", "--remote-expr"]),
    danger("nvim", &["-c", "--cmd", "+", "-S", "-s", "-u", "-l", "--remote-expr"]),
    danger("ex", &["-c", "--cmd", "+", "-S", "-s", "-u"]),
    danger("view", &["-c", "--cmd", "+", "-S", "-s", "-u"]),
    danger(
        "emacs",
        &["--eval", "-eval", "--execute", "-f", "--funcall", "-l", "--load", "--script"],
    ),
    danger("emacsclient", &["-e", "--eval"]),
    danger("gdb", &["-ex", "--eval-command", "-iex", "--args", "-x", "--command", "--init-"]),
    danger("lldb", &["-o", "-O", "-s", "-S", "-k", "--one-line", "--source"]),
    danger("gcc", &["-wrapper", "-fplugin", "-B", "-specs", "--specs", "@"]),
    danger("cc", &["-wrapper", "-fplugin", "-B", "-specs", "--specs", "@"]),
    danger("g++", &["-wrapper", "-fplugin", "-B", "-specs", "--specs", "@"]),
    danger("clang", &["-fplugin", "-Xclang", "-load", "-B", "@"]),
    danger("ld", &["-plugin", "--plugin"]),
    loose("cargo", &["--config"]),
    loose("go", &["-exec", "-toolexec", "-vettool", "-overlay", "--exec", "--toolexec"]),
    loose("npm", &["--script-shell", "--shell", "--node-options", "--git", "--editor", "--viewer"]),
    loose("pnpm", &["--script-shell", "--shell-emulator"]),
    loose("yarn", &["--script-shell"]),
    danger("hg", &["--config"]),
    danger(
        "svn",
        &["--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"],
    ),
    loose("docker", &["--config"]),
    danger("hash", &["-p"]),
    danger("enable", &["-f"]),
    danger("complete", &["-C", "-F"]),
    danger("compgen", &["-C", "-F"]),
    danger("mapfile", &["-C"]),
    danger("readarray", &["-C"]),
];

/// Tells whether a call of a program carries such an option.
pub(crate) fn has_danger(program: &str, arguments: &[Word]) -> bool {
    let Some(danger) = DANGERS.iter().find(|danger| danger.program == program) else {
        return false;
    };
    // Variables of make, for example, are set by words anywhere.
    let sets = danger.options.iter().any(|option| option.ends_with('='));
    let is_open = |word: &Word| {
        danger.is_strict
            && (word.may_be_option()
                || sets && word.text.split('=').next().is_some_and(|name| name.contains(UNKNOWN)))
    };
    let is_tar = |at: usize, word: &Word| {
        program == "tar" && (is_tar_cluster(&word.text) || at == 0 && word.is_unknown())
    };
    let options = arguments.iter().take_while(|word| word.text != "--" || sets);
    options
        .enumerate()
        .any(|(at, word)| is_open(word) || has_option(word, danger.options) || is_tar(at, word))
}

/// Tells whether `printf` sets more than a plain variable.
pub(crate) fn printf_sets(arguments: &[Word]) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match arguments {
        [first, ..] if first.may_be_option() => true,
        [first, name, ..] if first.text == "-v" => !name.text.chars().all(is_name),
        [first, ..] => first.text.starts_with("-v"),
        [] => false,
    }
}

/// `tar -xIf` and `tar xIf`: letters together, one of which names a program.
fn is_tar_cluster(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or(text);
    let is_cluster = letters.len() > 1
        && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        && (text.starts_with('-') || letters.starts_with(['c', 'x', 't', 'r', 'u', 'A']));
    is_cluster && !text.starts_with("--") && letters.contains(['I', 'F']) && letters.len() < 8
}

/// Tells whether a word is one of the options, alone or with its value attached. A long option
/// may be shortened, as many programs let it be.
pub(crate) fn has_option(word: &Word, options: &[&str]) -> bool {
    let text = word.text.as_str();
    let (name, has_value) = match text.split_once('=') {
        Some((name, _)) if text.starts_with("--") => (name, true),
        _ => (text, false),
    };
    options.iter().any(|option| {
        if option.starts_with("--") {
            let is_short = name.len() > 3 && option.starts_with(name) && name != "--checkpoint";
            return name == *option || is_short && (has_value || name.len() > 5);
        }
        text.strip_prefix(option).is_some_and(|rest| {
            let is_letter = option.len() == 2 && option.starts_with('-');
            rest.is_empty()
                || is_letter
                || option.ends_with(['=', '+', '@'])
                || rest.starts_with('=')
        })
    })
}
