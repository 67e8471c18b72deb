"""Server-sent events from bytes, however they are cut. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._errors import FrameTooLarge

FRAME_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of one frame: the largest prompt (25 MiB) fits; a runaway peer does not."""

_END_OF_LINE = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Frame:
    """One event of a stream. `id` is the one that came with this very frame."""

    id: str | None
    event: str
    data: str


class SseDecoder:
    """Decodes one connection. What has come of a frame when the connection ends is dropped."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._line = bytearray()
        self._line_feed_may_follow = False
        self._at_start = True
        self._size = 0
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self.retry_ms: int | None = None
        """The reconnection time that the server asked for, in milliseconds."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Returns the frames that end within these bytes.

        Raises `FrameTooLarge` where one is longer than the limit.
        """
        if self._line_feed_may_follow and chunk:
            self._line_feed_may_follow = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        frames: list[Frame] = []
        start = 0
        for end in _END_OF_LINE.finditer(chunk):
            piece = chunk[start : end.start()]
            start = end.end()
            self._count(len(piece) + 1)
            if self._line:
                piece = bytes(self._line) + piece
                self._line.clear()
            self._take(piece, frames)
        self._line_feed_may_follow = chunk.endswith(b"\r")
        if start < len(chunk):
            self._count(len(chunk) - start)
            self._line += chunk[start:]
        return frames

    def _count(self, more: int) -> None:
        self._size += more
        if self._size > self._max:
            raise FrameTooLarge(f"a frame of the event stream is longer than {self._max} bytes")

    def _take(self, line: bytes, frames: list[Frame]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._end_frame(frames)
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)

    def _end_frame(self, frames: list[Frame]) -> None:
        if self._data:
            frames.append(Frame(self._id, self._event or "message", "\n".join(self._data)))
        self._event, self._data, self._id, self._size = "", [], None, 0
