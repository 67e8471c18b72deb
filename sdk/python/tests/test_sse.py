"""The decoder: every form of the format, cut at every byte."""

from __future__ import annotations

import itertools

import pytest

from narthex._errors import FrameTooLarge
from narthex._sse import Frame, SseDecoder

# (name, bytes, frames)
CORPUS: list[tuple[str, bytes, list[Frame]]] = [
    ("a plain frame", b"id: 1\nevent: a\ndata: x\n\n", [Frame("1", "a", "x")]),
    ("cr", b"id: 1\revent: a\rdata: x\r\r", [Frame("1", "a", "x")]),
    ("crlf", b"id: 1\r\nevent: a\r\ndata: x\r\n\r\n", [Frame("1", "a", "x")]),
    ("mixed ends", b"id: 1\r\nevent: a\rdata: x\n\r\n", [Frame("1", "a", "x")]),
    ("cr then lf is one end", b"data: x\r\ndata: y\r\n\r\n", [Frame(None, "message", "x\ny")]),
    ("several lines of data", b"data: a\ndata\ndata: b\n\n", [Frame(None, "message", "a\n\nb")]),
    ("no space", b"data:x\nid:7\n\n", [Frame("7", "message", "x")]),
    ("only one space goes", b"data:  x\n\n", [Frame(None, "message", " x")]),
    ("colons in the value", b"data: a:b: c\n\n", [Frame(None, "message", "a:b: c")]),
    ("comments", b": heartbeat\n\n:\ndata: x\n: y\n\n", [Frame(None, "message", "x")]),
    ("unknown fields", b"foo: 1\nfoo\ndata: x\n\n", [Frame(None, "message", "x")]),
    ("no data, no frame", b"event: a\nid: 3\n\ndata: x\n\n", [Frame(None, "message", "x")]),
    ("empty data", b"data\n\n", [Frame(None, "message", "")]),
    ("a byte order mark", b"\xef\xbb\xbfdata: x\n\n", [Frame(None, "message", "x")]),
    ("a second mark is text", b"data: 1\n\n\xef\xbb\xbfdata: x\n\n", [Frame(None, "message", "1")]),
    ("an id with nul", b"id: 1\x002\ndata: x\n\n", [Frame(None, "message", "x")]),
    ("an empty id", b"id\ndata: x\n\n", [Frame("", "message", "x")]),
    ("utf-8", "data: grüße 🦉\n\n".encode(), [Frame(None, "message", "grüße 🦉")]),
    ("broken utf-8", b"data: a\xffb\n\n", [Frame(None, "message", "a\ufffdb")]),
    ("an unfinished frame", b"data: x\n\ndata: y\n", [Frame(None, "message", "x")]),
    ("line separators of unicode", "data: a\u2028b\x0b\x85c\n\n".encode(),
     [Frame(None, "message", "a\u2028b\x0b\x85c")]),
    ("two frames", b"id: 1\ndata: x\n\nid: 2\ndata: y\n\n",
     [Frame("1", "message", "x"), Frame("2", "message", "y")]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "frames"), [c[1:] for c in CORPUS], ids=[c[0] for c in CORPUS])
def test_it_decodes_the_format_however_it_is_cut(data: bytes, frames: list[Frame]) -> None:
    assert SseDecoder().feed(data) == frames
    single = SseDecoder()
    assert [f for byte in data for f in single.feed(bytes([byte]))] == frames
    for first, second in itertools.combinations(range(len(data) + 1), 2):
        decoder = SseDecoder()
        parts = (data[:first], data[first:second], data[second:])
        assert [f for part in parts for f in decoder.feed(part)] == frames, (first, second)


def test_it_gives_a_frame_as_soon_as_its_last_byte_is_there() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: x\r\r") == [Frame(None, "message", "x")]
    assert decoder.feed(b"\ndata: y\n\n") == [Frame(None, "message", "y")]


def test_it_reads_the_time_that_the_server_asks_for() -> None:
    decoder = SseDecoder()
    decoder.feed(b"retry: 1500\n\nretry: soon\n\nretry: -1\n\n")
    assert decoder.retry_ms == 1500


@pytest.mark.parametrize("data", [b"data: " + b"x" * 40, b"data: x\n" * 6, b":" + b"x" * 50])
def test_it_refuses_a_frame_beyond_the_limit(data: bytes) -> None:
    with pytest.raises(FrameTooLarge, match="longer than 32 bytes"):
        decoder = SseDecoder(frame_bytes_max=32)
        for byte in data:
            decoder.feed(bytes([byte]))


def test_heartbeats_never_add_up_to_the_limit() -> None:
    decoder = SseDecoder(frame_bytes_max=32)
    for _ in range(100):
        assert decoder.feed(b": heartbeat\n\n") == []
    assert decoder.feed(b"data: x\n\n") == [Frame(None, "message", "x")]
