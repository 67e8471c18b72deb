"""The synchronous half behind an asynchronous face, so that one test drives both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import narthex

_END = object()


class Awaited:
    """An object of the synchronous half: its methods run in threads."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return face(value)
        # What only prepares a stream does not wait, in either half.
        if name in ("events", "session", "stream", "watch"):
            return lambda *args, **more: face(value(*args, **more))

        async def method(*args: Any, **more: Any) -> Any:
            return face(await asyncio.to_thread(value, *args, **more))

        return method

    async def __aenter__(self) -> Awaited:
        self.inner.__enter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.inner.__exit__, *error)


class Iterated(Awaited):
    """An iterator of the synchronous half."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._all()

    async def _all(self) -> AsyncIterator[Any]:
        while (value := await asyncio.to_thread(next, self.inner, _END)) is not _END:
            yield value

    async def aclose(self) -> None:
        await asyncio.to_thread(self.inner.close)


def face(value: Any) -> Any:
    """Returns what a test sees of a value."""
    if isinstance(value, narthex.Events):
        return Iterated(value)
    ours = (narthex.Client, narthex.Session, narthex.Agent, narthex.Server)
    return Awaited(value) if isinstance(value, ours) else value


class Half:
    """One half of the package, as its functions that make things."""

    def __init__(self, name: str) -> None:
        self.name = name

    def connect(self, *args: Any, **more: Any) -> Any:
        if self.name == "async":
            return narthex.connect_async(*args, **more)
        return face(narthex.connect(*args, **more))

    async def create_agent(self, **more: Any) -> Any:
        if self.name == "async":
            return await narthex.create_agent_async(**more)
        return face(await asyncio.to_thread(lambda: narthex.create_agent(**more)))

    async def start_server(self, **more: Any) -> Any:
        if self.name == "async":
            return await narthex.start_server_async(**more)
        return face(await asyncio.to_thread(lambda: narthex.start_server(**more)))


def drained(iterator: Iterator[Any]) -> list[Any]:
    return list(iterator)
