//! The queue of a viewer.

use protocol::PromptId;

use super::*;

fn frame(text: &str) -> Frame {
    let (session, run) = (SessionId::new("s"), PromptId::new("p"));
    Frame::delta("text_delta", (&session, &run), text)
}

fn told(bytes: &Bytes) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let value: serde_json::Value = serde_json::from_str(data).unwrap();
    match &value["dropped"] {
        serde_json::Value::Null => value["text"].as_str().unwrap_or("end").to_owned(),
        dropped => format!("lagged {dropped}"),
    }
}

fn all(receiver: &mut mpsc::Receiver<Bytes>) -> Vec<String> {
    std::iter::from_fn(|| receiver.try_recv().ok()).map(|bytes| told(&bytes)).collect()
}

#[tokio::test]
async fn the_newest_frames_are_dropped_and_told_in_their_place() {
    let (sender, mut receiver) = mpsc::channel(2);
    let mut queue = Queue { sender, dropped: 0, waiting: Arc::default() };
    for text in ["a", "b", "c", "d"] {
        queue.offer(&frame(text));
    }
    assert_eq!(all(&mut receiver), ["a", "b"]);
    queue.offer(&frame("e"));
    assert_eq!(all(&mut receiver), ["lagged 2", "e"]);
    queue.offer(&frame("f"));
    assert_eq!(all(&mut receiver), ["f"]);
}

#[tokio::test]
async fn a_frame_that_finds_no_room_after_the_gap_is_another_gap() {
    let (sender, mut receiver) = mpsc::channel(1);
    let mut queue = Queue { sender, dropped: 0, waiting: Arc::default() };
    for text in ["a", "b"] {
        queue.offer(&frame(text));
    }
    assert_eq!(all(&mut receiver), ["a"]);
    queue.offer(&frame("c"));
    assert_eq!(all(&mut receiver), ["lagged 1"]);
    queue.told().await;
    assert_eq!(all(&mut receiver), ["lagged 1"], "c");
}

#[tokio::test]
async fn a_gap_is_told_though_nothing_follows() {
    let (sender, mut receiver) = mpsc::channel(1);
    let mut queue = Queue { sender, dropped: 0, waiting: Arc::default() };
    for text in ["a", "b"] {
        queue.offer(&frame(text));
    }
    let waiting = async {
        queue.told().await;
        queue
    };
    let reading = async { told(&receiver.recv().await.unwrap()) };
    let (mut queue, first) = tokio::join!(waiting, reading);
    assert_eq!(first, "a");
    let end = Frame::end(&SessionId::new("s"));
    let sending = async { queue.send(&end).await };
    let reading = async {
        let mut texts = Vec::new();
        while texts.len() < 2 {
            texts.push(told(&receiver.recv().await.unwrap()));
        }
        texts
    };
    let ((), texts) = tokio::join!(sending, reading);
    assert_eq!(texts, ["lagged 1", "end"]);
}

#[tokio::test]
async fn large_frames_are_dropped_before_there_are_many_of_them() {
    let (sender, mut receiver) = mpsc::channel(FRAMES_MAX);
    let mut queue = Queue { sender, dropped: 0, waiting: Arc::default() };
    let large = "x".repeat(BYTES_MAX / 2);
    for text in [&large, "small", &large, "after"] {
        queue.offer(&frame(text));
    }
    let seen = all(&mut receiver);
    assert_eq!(seen.iter().map(String::len).collect::<Vec<_>>(), [BYTES_MAX / 2, 5]);
    // Once it was taken there is room to say so.
    queue.waiting.took(BYTES_MAX / 2);
    queue.offer(&frame("later"));
    assert_eq!(all(&mut receiver), ["lagged 2", "later"]);
    queue.waiting = Arc::default();
    let huge = "x".repeat(2 * BYTES_MAX);
    queue.offer(&frame(&huge));
    assert_eq!(all(&mut receiver), [huge], "what is alone goes through");
}
