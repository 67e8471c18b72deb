"""Waiting without an event loop. The other half has the same names with one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

import httpx

from .._backports import Self
from .._errors import NarthexError

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

Callback: TypeAlias = Callable[[T], R]
"""A function of the caller's."""

EventGenerator: TypeAlias = Generator[T, None, None]
"""Events, one by one."""

CANCELLED: tuple[type[BaseException], ...] = ()
"""What is raised in work that is cancelled: here none can be."""


def call(callback: Callback[T, R], value: T) -> R:
    """Calls a function of the caller's."""
    return callback(value)


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def in_thread(work: Callable[[], R]) -> R:
    """Does work that blocks; here nobody minds."""
    return work()


def settle(work: Callable[[], None]) -> None:
    """Does last work."""
    work()


def wake(response: httpx.Response) -> None:
    """Ends a wait for bytes in another thread: closing the socket alone would not."""
    stream = response.extensions.get("network_stream")
    told = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(told, socket.socket):
        with suppress(OSError):
            told.shutdown(socket.SHUT_RDWR)


class Events(Generic[E]):
    """Events, one by one; iterate over them, and close them to leave early.

    They may be closed while another thread waits for the next one: its loop ends then.
    """

    def __init__(self, events: EventGenerator[E]) -> None:
        self._events = events
        self._turn = threading.RLock()
        self._is_running = False
        self._is_closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        with self._turn:
            if self._is_closed:
                raise StopIteration
            self._is_running = True
            try:
                return next(self._events)
            except NarthexError:
                if self._is_closed:
                    raise StopIteration from None
                raise
            finally:
                self._is_running = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        # What went wrong first is what the caller has to see.
        with suppress(Exception):
            self.close()

    def close(self) -> None:
        """Leaves the events; whoever waits for the next one is told that there is none."""
        self._is_closed = True
        self._wake()
        with self._turn:
            # A callback of a run is called while its events are read: they end after it.
            if not self._is_running:
                self._events.close()

    def _wake(self) -> None:
        """Ends the wait of another thread."""


class Beside:
    """Work that is done while events are read: without a loop, between them."""

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Does work."""
        work()

    def next(self, events: Iterator[T]) -> T | None:
        """Returns the next event, or None at their end."""
        return next(events, None)

    def check(self) -> None:
        """Raises what has failed: here it was raised already."""

    def cancel(self, name: str) -> None:
        """Cancels work: here none is left."""

    def end(self) -> None:
        """Cancels all work: here none is left."""
