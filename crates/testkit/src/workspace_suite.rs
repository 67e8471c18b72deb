//! The contract of `Workspace`, as a list that every driver passes.
//!
//! The workspace must be empty, writable, and able to run `bash`, `sh` and the core utilities.
//! Links and such are made by commands, so that nothing here needs the workspace to be local.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are the bodies of tests"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driver_api::{
    EntryKind, Exit, ExitStatus, Located, Output, Process, Spawn, Workspace, WorkspaceError,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// More than any case needs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMIT: u64 = 1 << 20;

/// Runs the whole list.
pub async fn run(workspace: Arc<dyn Workspace>) {
    files(&*workspace).await;
    processes(&workspace).await;
}

/// Everything about files.
pub async fn files(workspace: &dyn Workspace) {
    the_working_folder_is_beneath_the_first_root(workspace).await;
    what_is_written_is_read(workspace).await;
    missing_folders_are_made(workspace).await;
    permission_bits_are_kept(workspace).await;
    a_new_file_gets_the_bits_that_are_asked_for(workspace).await;
    paths_lead_where_they_really_lead(workspace).await;
    impossible_paths_are_refused(workspace).await;
    what_is_no_file_is_refused(workspace).await;
    large_files_are_refused(workspace).await;
    a_link_that_came_up_since_is_not_followed(workspace).await;
    files_are_removed(workspace).await;
}

/// Everything about processes.
pub async fn processes(workspace: &Arc<dyn Workspace>) {
    true_statuses_are_reported(&**workspace).await;
    a_command_runs_where_and_with_what_it_is_told(&**workspace).await;
    nothing_waits_on_standard_input(&**workspace).await;
    what_is_sent_is_read_and_ends(&**workspace).await;
    input_that_nobody_reads_is_no_problem(&**workspace).await;
    input_is_its_own_for_each_command(workspace).await;
    more_input_than_the_limit_is_refused(&**workspace).await;
    what_cannot_start_is_no_exit(&**workspace).await;
    a_full_queue_makes_the_command_wait(&**workspace).await;
    a_killed_tree_is_gone(&**workspace).await;
    leftovers_are_ended_and_counted(&**workspace).await;
    dropping_a_process_ends_its_tree(&**workspace).await;
    a_killed_command_ends_though_nobody_reads(&**workspace).await;
    commands_run_side_by_side(workspace).await;
}

/// A command that ran to its end.
#[derive(Debug)]
pub struct Ran {
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
    /// How it ended.
    pub exit: Exit,
}

/// Runs a script of bash in the working folder.
pub async fn bash(workspace: &dyn Workspace, script: &str) -> Ran {
    let (mut process, output) = start(workspace, script).await;
    let collected = collect(output);
    let (exit, (out, err)) =
        timeout(PATIENCE, async { tokio::join!(process.wait(), collected) }).await.unwrap();
    Ran { out, err, exit: exit.unwrap() }
}

/// Starts a script of bash in the working folder.
pub async fn start(
    workspace: &dyn Workspace,
    script: &str,
) -> (Box<dyn Process>, mpsc::Receiver<Output>) {
    let (sender, output) = mpsc::channel(16);
    let process = workspace.spawn(spawn(workspace, &["bash", "-c", script]), sender).await;
    (process.unwrap(), output)
}

fn spawn(workspace: &dyn Workspace, argv: &[&str]) -> Spawn {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Spawn { argv, cwd: workspace.cwd().to_owned(), env: Vec::new(), stdin: Vec::new() }
}

async fn collect(mut output: mpsc::Receiver<Output>) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(piece) = output.recv().await {
        match piece {
            Output::Stdout(bytes) => out.extend_from_slice(&bytes),
            Output::Stderr(bytes) => err.extend_from_slice(&bytes),
        }
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

async fn locate(workspace: &dyn Workspace, path: &str) -> Located {
    workspace.locate(path).await.unwrap()
}

async fn read(workspace: &dyn Workspace, path: &str) -> Result<Vec<u8>, WorkspaceError> {
    let file = locate(workspace, path).await;
    workspace.read(&file, LIMIT).await.map(|contents| contents.bytes)
}

async fn write(workspace: &dyn Workspace, path: &str, text: &str) {
    let file = locate(workspace, path).await;
    let stat = workspace.write(&file, text.as_bytes()).await.unwrap();
    assert_eq!((stat.kind, stat.size), (EntryKind::File, text.len() as u64), "{path}");
}

async fn the_working_folder_is_beneath_the_first_root(workspace: &dyn Workspace) {
    assert!(workspace.cwd().is_absolute());
    assert!(workspace.cwd().starts_with(&workspace.roots()[0]), "{workspace:?}");
    let own = locate(workspace, ".").await;
    assert_eq!(own.real, workspace.cwd());
    assert_eq!(own.stat.unwrap().kind, EntryKind::Folder);
}

async fn what_is_written_is_read(workspace: &dyn Workspace) {
    for text in ["first", "", "third, and longer than the first"] {
        write(workspace, "file.txt", text).await;
        let file = locate(workspace, "file.txt").await;
        let contents = workspace.read(&file, LIMIT).await.unwrap();
        assert_eq!(contents.bytes, text.as_bytes());
        assert_eq!(Some(contents.stat), file.stat);
        assert!(contents.stat.modified_ns > 0);
    }
    let names = bash(workspace, "ls -A").await.out;
    assert_eq!(names, "file.txt\n", "expected no temporary file beside it");
}

async fn missing_folders_are_made(workspace: &dyn Workspace) {
    let before = locate(workspace, "a/b/c.txt").await;
    assert_eq!((before.stat, before.shown().as_str()), (None, "a/b/c.txt"));
    write(workspace, "a/b/c.txt", "deep").await;
    assert_eq!(read(workspace, "a/b/c.txt").await.unwrap(), b"deep");
}

async fn permission_bits_are_kept(workspace: &dyn Workspace) {
    bash(workspace, "echo '#!/bin/sh' > run.sh && chmod 750 run.sh").await;
    write(workspace, "run.sh", "#!/bin/sh\nexit 3\n").await;
    let mode = locate(workspace, "run.sh").await.stat.unwrap().mode;
    assert_eq!(mode, 0o750);
    assert_eq!(bash(workspace, "./run.sh").await.exit.status, ExitStatus::Code(3));
    bash(workspace, "touch plain.new").await;
    let expected = locate(workspace, "plain.new").await.stat.unwrap().mode;
    write(workspace, "ours.new", "x").await;
    assert_eq!(locate(workspace, "ours.new").await.stat.unwrap().mode, expected);
}

async fn a_new_file_gets_the_bits_that_are_asked_for(workspace: &dyn Workspace) {
    for (mode, expected) in [(0o755, 0o755), (0o600, 0o755)] {
        let file = locate(workspace, "bits.sh").await;
        workspace.write_with_mode(&file, b"true\n", mode).await.unwrap();
        let stat = locate(workspace, "bits.sh").await.stat.unwrap();
        assert_eq!(stat.mode & 0o777, expected, "a file that is there keeps its own");
    }
}

async fn paths_lead_where_they_really_lead(workspace: &dyn Workspace) {
    let script = "mkdir -p real/inner && echo text > real/file && ln -s real link && \
        ln -s inner/new real/dangling && ln -s / top && ln -s loop2 loop1 && ln -s loop1 loop2";
    assert_eq!(bash(workspace, script).await.exit.status, ExitStatus::Code(0));
    let cwd = workspace.cwd();
    let cases = [
        ("real/file", "real/file"),
        ("./real//inner/../file", "real/file"),
        ("link/file", "real/file"),
        // A link is followed before the parent is taken.
        ("link/inner/../../file.txt", "file.txt"),
        ("link/dangling", "real/inner/new"),
        ("link/none/deeper", "real/none/deeper"),
        ("link/none/../file", "real/file"),
    ];
    for (path, real) in cases {
        assert_eq!(locate(workspace, path).await.real, cwd.join(real), "{path}");
    }
    let absolute = cwd.join("link/file").display().to_string();
    assert_eq!(locate(workspace, &absolute).await.real, cwd.join("real/file"));
    let outside = locate(workspace, "top/no-such-folder/file").await;
    assert_eq!(outside.real.to_str(), Some("/no-such-folder/file"));
    assert_eq!((outside.root, outside.stat), (None, None));
    // Writing to a dangling link makes its target, as a shell's redirection does.
    write(workspace, "link/dangling", "through").await;
    assert_eq!(read(workspace, "real/inner/new").await.unwrap(), b"through");
    assert_eq!(bash(workspace, "readlink real/dangling").await.out, "inner/new\n");
    let looped = workspace.locate("loop1").await;
    assert!(matches!(looped, Err(WorkspaceError::Unfit(_))), "got {looped:?}");
}

async fn impossible_paths_are_refused(workspace: &dyn Workspace) {
    let long = "x/".repeat(4_000);
    for path in ["", "a\0b", &long] {
        let refused = workspace.locate(path).await;
        assert!(matches!(refused, Err(WorkspaceError::Unfit(_))), "{path:.20?}: {refused:?}");
    }
}

async fn what_is_no_file_is_refused(workspace: &dyn Workspace) {
    bash(workspace, "mkfifo pipe; mkdir -p folder").await;
    for path in ["pipe", "folder", ".", "file.txt/below"] {
        let file = locate(workspace, path).await;
        let read = workspace.read(&file, LIMIT).await;
        assert!(matches!(read, Err(WorkspaceError::Unfit(_))), "read {path}: {read:?}");
        let written = workspace.write(&file, b"x").await;
        assert!(matches!(written, Err(WorkspaceError::Unfit(_))), "write {path}: {written:?}");
        let removed = workspace.remove(&file).await;
        assert!(matches!(removed, Err(WorkspaceError::Unfit(_))), "remove {path}: {removed:?}");
    }
    let missing = read(workspace, "none/at/all").await;
    assert!(matches!(missing, Err(WorkspaceError::NotFound(_))), "got {missing:?}");
}

async fn large_files_are_refused(workspace: &dyn Workspace) {
    write(workspace, "ten.txt", "0123456789").await;
    let file = locate(workspace, "ten.txt").await;
    assert_eq!(workspace.read(&file, 10).await.unwrap().bytes.len(), 10);
    match workspace.read(&file, 9).await {
        Err(WorkspaceError::TooLarge { size: 10, limit: 9, .. }) => {}
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn a_link_that_came_up_since_is_not_followed(workspace: &dyn Workspace) {
    bash(workspace, "mkdir -p swap secret && echo a > swap/f && echo secret > secret/f").await;
    let through_folder = locate(workspace, "swap/f").await;
    let itself = locate(workspace, "file.txt").await;
    let swap = "mv swap swap.old && ln -s secret swap && mv file.txt file.old && \
        ln -s secret/f file.txt";
    bash(workspace, swap).await;
    for file in [&through_folder, &itself] {
        let read = workspace.read(file, LIMIT).await;
        assert!(matches!(read, Err(WorkspaceError::Raced(_))), "read {file:?}: {read:?}");
        let written = workspace.write(file, b"x").await;
        assert!(matches!(written, Err(WorkspaceError::Raced(_))), "write {file:?}: {written:?}");
        let removed = workspace.remove(file).await;
        assert!(matches!(removed, Err(WorkspaceError::Raced(_))), "remove {file:?}: {removed:?}");
    }
    assert_eq!(bash(workspace, "cat secret/f").await.out, "secret\n");
    bash(workspace, "rm swap file.txt && mv swap.old swap && mv file.old file.txt").await;
}

async fn files_are_removed(workspace: &dyn Workspace) {
    let file = locate(workspace, "ten.txt").await;
    workspace.remove(&file).await.unwrap();
    assert_eq!(locate(workspace, "ten.txt").await.stat, None);
    let again = workspace.remove(&file).await;
    assert!(matches!(again, Err(WorkspaceError::NotFound(_))), "got {again:?}");
}

async fn true_statuses_are_reported(workspace: &dyn Workspace) {
    let cases = [
        ("exit 0", ExitStatus::Code(0)),
        ("echo out; echo err >&2; exit 7", ExitStatus::Code(7)),
        ("kill -SEGV $$", ExitStatus::Signal(11)),
        ("kill -KILL $$", ExitStatus::Signal(9)),
        ("sh -c 'kill -TERM $$'; exit $?", ExitStatus::Code(143)),
    ];
    for (script, status) in cases {
        let exit = bash(workspace, script).await.exit;
        assert_eq!(exit, Exit { status, leftovers: 0, killed: false }, "{script}");
    }
    let ran = bash(workspace, cases[1].0).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("out\n", "err\n"));
}

async fn a_command_runs_where_and_with_what_it_is_told(workspace: &dyn Workspace) {
    bash(workspace, "mkdir -p sub").await;
    let script = "pwd; echo $PWD ${ADDED-none} ${PATH:+path}";
    let mut wanted = spawn(workspace, &["bash", "-c", script]);
    wanted.cwd = workspace.cwd().join("sub");
    wanted.env = vec![("ADDED".to_owned(), Some("here".to_owned()))];
    let (sender, output) = mpsc::channel(16);
    let mut process = workspace.spawn(wanted, sender).await.unwrap();
    let (out, _) = collect(output).await;
    let sub = workspace.cwd().join("sub").display().to_string();
    assert_eq!(out, format!("{sub}\n{sub} here path\n"));
    process.wait().await.unwrap();
}

async fn nothing_waits_on_standard_input(workspace: &dyn Workspace) {
    let ran = bash(workspace, "cat; read -r x; echo $?; [ -t 0 ] || echo no terminal").await;
    assert_eq!(ran.out, "1\nno terminal\n");
}

/// Runs a command with this on standard input, and returns the bytes that it wrote.
async fn fed(workspace: &dyn Workspace, argv: &[&str], stdin: &[u8]) -> (Vec<u8>, Exit) {
    let mut wanted = spawn(workspace, argv);
    wanted.stdin = stdin.to_vec();
    let (sender, mut output) = mpsc::channel(16);
    let mut process = workspace.spawn(wanted, sender).await.unwrap();
    let collected = async {
        let mut all = Vec::new();
        while let Some(piece) = output.recv().await {
            match piece {
                Output::Stdout(bytes) => all.extend_from_slice(&bytes),
                Output::Stderr(bytes) => panic!("expected nothing there, got {bytes:?}"),
            }
        }
        all
    };
    let (exit, out) =
        timeout(PATIENCE, async { tokio::join!(process.wait(), collected) }).await.unwrap();
    (out, exit.unwrap())
}

/// Bytes of every value in no simple order, so that a piece that is lost or doubled shows.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    (0..len).map(next).collect()
}

async fn what_is_sent_is_read_and_ends(workspace: &dyn Workspace) {
    let done = Exit { status: ExitStatus::Code(0), leftovers: 0, killed: false };
    // A page, what a pipe holds, and what one frame carries are where an error would show.
    for len in [0, 1, 4_096, 65_536, 65_537, 1 << 20, Spawn::STDIN_MAX] {
        let sent = noise(len);
        let (out, exit) = fed(workspace, &["cat"], &sent).await;
        assert!(out == sent, "expected all {len} bytes, got {}", out.len());
        assert_eq!(exit, done, "{len} bytes");
    }
    // The end of input is one for every reader, and what one reads the next one does not.
    let script = "read -r first; echo \"1 $first\"; cat; read -r more; echo \"end $?\"; \
        [ -t 0 ] || echo no terminal";
    let (out, _) = fed(workspace, &["bash", "-c", script], b"one\ntwo\n\0three\n").await;
    assert_eq!(out, b"1 one\ntwo\n\0three\nend 1\nno terminal\n");
    let (out, _) = fed(workspace, &["bash", "-c", "cat /dev/stdin"], b"by name").await;
    assert_eq!(out, b"by name");
}

async fn input_that_nobody_reads_is_no_problem(workspace: &dyn Workspace) {
    let sent = noise(Spawn::STDIN_MAX);
    for (argv, code) in [
        (["bash", "-c", "exit 0"], 0),
        (["bash", "-c", "exec <&-; exit 3"], 3),
        (["bash", "-c", "head -c 5 >/dev/null; exit 4"], 4),
        (["bash", "-c", "{ echo x >&0; } 2>/dev/null && exit 1; exit 5"], 5),
    ] {
        let (out, exit) = fed(workspace, &argv, &sent).await;
        let expected = Exit { status: ExitStatus::Code(code), leftovers: 0, killed: false };
        assert_eq!((out.len(), exit), (0, expected), "{argv:?}");
    }
    // The next command has nothing of it.
    assert_eq!(bash(workspace, "cat | wc -c").await.out.trim(), "0");
}

async fn input_is_its_own_for_each_command(workspace: &Arc<dyn Workspace>) {
    let all = (1..=8_usize).map(|number| {
        let workspace = Arc::clone(workspace);
        async move {
            let sent = vec![b'0' + u8::try_from(number).unwrap(); number * 50_000];
            let (out, _) = fed(&*workspace, &["bash", "-c", "sleep 0.05; cat"], &sent).await;
            assert!(out == sent, "command {number} got other input: {} bytes", out.len());
        }
    });
    futures_util::future::join_all(all).await;
}

async fn more_input_than_the_limit_is_refused(workspace: &dyn Workspace) {
    let mut wanted = spawn(workspace, &["touch", "never"]);
    wanted.stdin = noise(Spawn::STDIN_MAX + 1);
    let (sender, _output) = mpsc::channel(16);
    let refused = workspace.spawn(wanted, sender).await;
    let limit = Spawn::STDIN_MAX as u64;
    match refused {
        Err(WorkspaceError::TooLarge { size, limit: told, .. }) => {
            assert_eq!((size, told), (limit + 1, limit));
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    assert_eq!(locate(workspace, "never").await.stat, None);
}

async fn what_cannot_start_is_no_exit(workspace: &dyn Workspace) {
    let (sender, _output) = mpsc::channel(16);
    let failed = workspace.spawn(spawn(workspace, &["no-such-program"]), sender.clone()).await;
    assert!(matches!(failed, Err(WorkspaceError::NotFound(_))), "got {failed:?}");
    let mut wanted = spawn(workspace, &["true"]);
    wanted.cwd = workspace.cwd().join("no-such-folder");
    let failed = workspace.spawn(wanted, sender.clone()).await;
    assert!(matches!(failed, Err(WorkspaceError::NotFound(_))), "got {failed:?}");
    let failed = workspace.spawn(spawn(workspace, &["true", "a\0b"]), sender).await;
    assert!(matches!(failed, Err(WorkspaceError::Unfit(_))), "got {failed:?}");
}

async fn a_full_queue_makes_the_command_wait(workspace: &dyn Workspace) {
    let (mut process, mut output) = start(workspace, "yes & wait").await;
    let mut pieces = 0;
    // It stays full: the command has far more to say than may be on its way.
    while timeout(PATIENCE, output.recv()).await.unwrap().is_some() && pieces < 100 {
        pieces += 1;
    }
    process.kill(Duration::ZERO);
    let drained = async { while output.recv().await.is_some() {} };
    let (exit, ()) =
        timeout(PATIENCE, async { tokio::join!(process.wait(), drained) }).await.unwrap();
    assert!(exit.unwrap().killed);
    // The end can be asked for again.
    assert!(process.wait().await.unwrap().killed);
}

/// A tree that tries all ways to get away and writes the ids of its processes to a file.
const STUBBORN: &str = "rm -f pids; say() { echo $BASHPID >> pids; }; \
    (say; exec setsid sleep 9991) & (say; exec nohup sleep 9992 >/dev/null 2>&1) & \
    (say; trap '' TERM INT HUP; sleep 9993; sleep 9994) & \
    setsid bash -c 'echo $$ >> pids; (echo $BASHPID >> pids; exec setsid sleep 9995) & \
    exec sleep 9996' & \
    disown -a; while [ $(wc -l < pids) -lt 5 ]; do sleep 0.01; done; ";

async fn assert_gone(workspace: &dyn Workspace, when: &str) {
    let script = "for p in $(cat pids); do [ -d /proc/$p ] && cat /proc/$p/cmdline; done; exit 0";
    let ran = bash(workspace, script).await;
    assert_eq!(ran.out, "", "expected no survivor {when}");
}

async fn a_killed_tree_is_gone(workspace: &dyn Workspace) {
    for grace in [Duration::ZERO, Duration::from_millis(300)] {
        let script = format!("{STUBBORN} echo up; sleep 9997");
        let (mut process, mut output) = start(workspace, &script).await;
        let up = timeout(PATIENCE, output.recv()).await.unwrap();
        assert_eq!(up, Some(Output::Stdout(Bytes::from_static(b"up\n"))));
        process.kill(grace);
        let exit = timeout(PATIENCE, process.wait()).await.unwrap().unwrap();
        assert!(exit.killed && matches!(exit.status, ExitStatus::Signal(_)), "got {exit:?}");
        assert_gone(workspace, "when the end is reported").await;
    }
}

async fn leftovers_are_ended_and_counted(workspace: &dyn Workspace) {
    let ran = bash(workspace, &format!("{STUBBORN} echo bye; exit 6")).await;
    assert_gone(workspace, "when the end is reported").await;
    assert_eq!((ran.out.as_str(), ran.exit.status), ("bye\n", ExitStatus::Code(6)));
    assert!(ran.exit.leftovers >= 5 && !ran.exit.killed, "got {:?}", ran.exit);
}

async fn dropping_a_process_ends_its_tree(workspace: &dyn Workspace) {
    let (process, mut output) = start(workspace, &format!("{STUBBORN} echo up; sleep 9997")).await;
    timeout(PATIENCE, output.recv()).await.unwrap();
    drop(process);
    // Nobody reports this end, but the queue closes with it.
    timeout(PATIENCE, async { while output.recv().await.is_some() {} }).await.unwrap();
    assert_gone(workspace, "when the queue closes").await;
}

async fn a_killed_command_ends_though_nobody_reads(workspace: &dyn Workspace) {
    let (mut process, output) = start(workspace, "yes").await;
    process.kill(Duration::ZERO);
    let exit = timeout(PATIENCE, process.wait()).await.unwrap().unwrap();
    assert!(exit.killed, "got {exit:?}");
    drop(output);
}

async fn commands_run_side_by_side(workspace: &Arc<dyn Workspace>) {
    // Each waits for all the others: one after the other they would never end.
    let script = |number: usize| {
        format!("touch side.{number}; while [ $(ls side.* | wc -l) -lt 8 ]; do sleep 0.01; done")
    };
    let all = (0..8).map(|number| {
        let (workspace, script) = (Arc::clone(workspace), script(number));
        async move { bash(&*workspace, &script).await.exit.status }
    });
    let statuses = futures_util::future::join_all(all).await;
    assert_eq!(statuses, vec![ExitStatus::Code(0); 8]);
}
