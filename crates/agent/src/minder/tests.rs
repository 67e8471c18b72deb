//! What a minder hears between two commands, and during one.

use std::os::unix::net::UnixStream;

use super::*;
use crate::handover::hand_over;

fn post() -> (UnixStream, Post) {
    let (near, far) = UnixStream::pair().unwrap();
    let post = Post {
        control: Some(far.into()),
        signals: std::fs::File::open("/dev/null").unwrap().into(),
        inbox: Inbox::default(),
        files: Vec::new(),
        unsaid: Vec::new(),
        tree: Tree::of_self(),
    };
    (near, post)
}

fn frame(id: u32, request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(id, &mut bytes).unwrap();
    bytes
}

fn spawn() -> Spawn {
    Spawn { argv: vec![b"true".to_vec()], cwd: b"/".to_vec(), env: Vec::new(), stdin: Vec::new() }
}

#[test]
fn what_comes_late_is_left_behind_and_what_comes_early_is_kept() {
    let (near, mut post) = post();
    let kill = Request::Kill { grace_ms: 0 };
    write_all(&near, &frame(1, &kill)).unwrap();
    write_all(&near, &frame(1, &Request::Credit { bytes: 1 })).unwrap();
    let outputs = [near.as_fd(), near.as_fd()];
    hand_over(&near, &frame(2, &Request::Spawn(spawn())), &outputs).unwrap();
    write_all(&near, &frame(2, &kill)).unwrap();

    let task = post.wait_for_task().unwrap().unwrap();
    assert_eq!((task.id, task.spawn), (2, spawn()));
    assert!(post.files.is_empty());
    while post.inbox.next().unwrap().is_none_or(|frame| frame.header.id != 2) {
        post.inbox.fill(post.control.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn a_command_without_outputs_is_refused() {
    let (near, mut post) = post();
    write_all(&near, &frame(2, &Request::Spawn(spawn()))).unwrap();
    assert!(post.wait_for_task().unwrap().is_none());
    let mut inbox = Inbox::default();
    inbox.fill(&near).unwrap();
    let said = inbox.next().unwrap().unwrap();
    let errno = Errno::MFILE.raw_os_error();
    let expected = Reply::Failed { step: Step::Launch, errno };
    assert_eq!(Reply::decode(said.header.kind, said.payload), Ok(expected));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test needs a child of its own")]
fn a_kill_of_another_command_is_not_obeyed() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (near, mut post) = post();
    for id in [0, 1, 3, u32::MAX] {
        write_all(&near, &frame(id, &Request::Kill { grace_ms: 0 })).unwrap();
    }
    post.inbox.fill(post.control.as_ref().unwrap()).unwrap();
    let mut watch = Watch::new(&mut post, 2, Pid::from_child(&child));
    watch.obey();
    assert!(watch.is_undisturbed(), "expected no signal, got {watch:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
