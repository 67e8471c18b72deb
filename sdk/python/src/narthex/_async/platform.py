"""Waiting with an event loop. The other half has the same names without one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

import anyio
import httpx

from .._backports import Self

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

Callback: TypeAlias = Callable[[T], R | Awaitable[R]]
"""A function of the caller's, plain or asynchronous."""

EventGenerator: TypeAlias = AsyncGenerator[T, None]
"""Events, one by one."""

CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError,)
"""What is raised in work that is cancelled."""

CALLBACK_SECONDS = 5.0
"""How long a callback may take to end after it was cancelled; then it is left to itself."""

# The loop itself holds tasks weakly.
_settling: set[asyncio.Task[None]] = set()


async def call(callback: Callback[T, R], value: T) -> R:
    """Calls a function of the caller's."""
    got = callback(value)
    if inspect.isawaitable(got):
        return await got
    return got


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def in_thread(work: Callable[[], R]) -> R:
    """Does work that blocks."""
    return await asyncio.to_thread(work)


async def settle(work: Callable[[], Awaitable[None]]) -> None:
    """Does last work that a second cancellation does not stop."""

    async def whole() -> None:
        await work()

    task = asyncio.ensure_future(whole())
    _settling.add(task)
    task.add_done_callback(_settling.discard)
    # Shielded from the scopes below as well: those of a wait that was ended by `close`.
    with anyio.CancelScope(shield=True):
        await asyncio.shield(task)


def wake(response: httpx.Response) -> None:
    """Ends a wait for bytes in another thread; here the waiting task is cancelled instead."""


class AsyncEvents(Generic[E]):
    """Events, one by one; iterate over them, and close them to leave early.

    They may be closed while another task waits for the next one: its loop ends then.
    """

    def __init__(self, events: EventGenerator[E]) -> None:
        self._events = events
        self._turn = asyncio.Lock()
        self._waiting: anyio.CancelScope | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        async with self._turn:
            if self._is_closed:
                raise StopAsyncIteration
            self._waiting = anyio.CancelScope()
            try:
                with self._waiting:
                    return await self._events.__anext__()
            finally:
                self._waiting = None
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        # What went wrong first is what the caller has to see.
        with suppress(Exception):
            await self.close()

    async def close(self) -> None:
        """Leaves the events; whoever waits for the next one is told that there is none."""
        self._is_closed = True
        self._wake()
        if self._waiting is not None:
            self._waiting.cancel()
        async with self._turn:
            await self._events.aclose()

    def _wake(self) -> None:
        """Ends the wait of another thread; here its task is cancelled."""

    async def aclose(self) -> None:
        """The same, under the name that `contextlib.aclosing` knows."""
        await self.close()


class Beside:
    """Work that is done while events are read."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dropped: set[str] = set()
        self._waiting: anyio.CancelScope | None = None
        self._failure: BaseException | None = None

    async def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Starts work."""

        async def whole() -> None:
            await work()

        task = asyncio.ensure_future(whole())
        self._tasks[name] = task
        task.add_done_callback(partial(self._done, name))

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if task.cancelled():
            if name in self._dropped:
                return
            failure: BaseException | None = asyncio.CancelledError()
        else:
            failure = task.exception()
        if failure is not None and self._failure is None:
            self._failure = failure
            if self._waiting is not None:
                self._waiting.cancel()

    async def next(self, events: AsyncIterator[T]) -> T | None:
        """Returns the next event, or None at their end; raises what has failed beside them."""
        self.check()
        self._waiting = anyio.CancelScope()
        try:
            with self._waiting:
                return await events.__anext__()
        except StopAsyncIteration:
            return None
        finally:
            self._waiting = None
        self.check()
        return None

    def check(self) -> None:
        """Raises what has failed."""
        if self._failure is not None:
            raise self._failure

    def cancel(self, name: str) -> None:
        """Cancels work, where it is not done."""
        task = self._tasks.get(name)
        if task is not None:
            self._dropped.add(name)
            task.cancel()

    async def end(self) -> None:
        """Cancels all work, and waits a moment for its end."""
        tasks = list(self._tasks.values())
        for name in list(self._tasks):
            self.cancel(name)
        if tasks:
            await asyncio.wait(tasks, timeout=CALLBACK_SECONDS)
