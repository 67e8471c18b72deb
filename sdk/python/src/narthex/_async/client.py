"""A client of one server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, cast

import httpx

from .._backports import Self
from .._generated import FeedEvent, Health, Mode, Model, SessionInfo
from .._home import address
from .._settings import (
    GIVE_UP_SECONDS,
    REQUEST_RETRIES_MAX,
    REQUEST_SECONDS,
    SILENCE_SECONDS,
    Settings,
)
from .events import AsyncEventStream
from .session import AsyncSession
from .transport import Transport

Topic: TypeAlias = Literal["state", "interactions", "usage"]


class AsyncClient:
    """Sessions of a server; made by `connect_async`."""

    def __init__(
        self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._transport = Transport(settings, transport)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.settings.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create_session(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        mode: Mode | None = None,
        model: str | None = None,
        title: str | None = None,
        append_system_prompt: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        mcp: bool | None = None,
        resume: str | None = None,
    ) -> AsyncSession:
        """Makes a session, or with `resume` opens a stored one."""
        body = {
            "cwd": None if cwd is None else os.fspath(cwd),
            "mode": mode,
            "model": model,
            "title": title,
            "appendSystemPrompt": append_system_prompt,
            "allow": list(allow) or None,
            "deny": list(deny) or None,
            "mcp": mcp,
            "resume": resume,
        }
        told: dict[str, Any] = {name: value for name, value in body.items() if value is not None}
        got = await self._transport.request("POST", "/sessions", told, key=uuid.uuid4().hex)
        return AsyncSession(self._transport, got["id"])

    def session(self, session_id: str) -> AsyncSession:
        """Returns an open session by its id, without asking the server."""
        return AsyncSession(self._transport, session_id)

    async def sessions(
        self, *, state: Literal["idle", "running", "waiting", "stored"] | None = None
    ) -> list[SessionInfo]:
        """Returns the open sessions; with `stored` those that `resume` can open."""
        got = await self._transport.request("GET", "/sessions", query={"state": state})
        return cast(list[SessionInfo], got["sessions"])

    async def models(self) -> list[Model]:
        """Returns the models that sessions may use."""
        got = await self._transport.request("GET", "/models")
        return cast(list[Model], got["models"])

    async def health(self) -> Health:
        """Returns the state of the server."""
        return cast(Health, await self._transport.request("GET", "/health"))

    def watch(self, topics: Sequence[Topic] = ()) -> AsyncEventStream[FeedEvent]:
        """Gives what all open sessions do: states, requests that wait, usage; for user interfaces.

        It begins with a snapshot, and again after each reconnect, since nothing is replayed here:
        what a snapshot does not name is not open any more.
        """
        query = f"?topics={','.join(topics)}" if topics else ""
        return AsyncEventStream(self._transport, f"/events{query}")

    async def close(self) -> None:
        """Closes the connections; sessions and their prompts go on."""
        await self._transport.close()


def connect_async(
    url: str | None = None,
    token: str | None = None,
    *,
    timeout: float = REQUEST_SECONDS,
    silence: float = SILENCE_SECONDS,
    retries: int = REQUEST_RETRIES_MAX,
    give_up_after: float = GIVE_UP_SECONDS,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncClient:
    """Returns a client of a running server; nothing is sent yet.

    Without `url` the server is the one that `server.json` of `NARTHEX_HOME` (or `~/.narthex`)
    names. `timeout` is in seconds and for each request, `silence` for event streams: one that says
    nothing for so long is opened anew. `retries` counts repetitions of a request, and after
    `give_up_after` seconds without progress a stream is given up. `transport` is httpx's,
    for TLS of one's own or tests.
    """
    url, token = address(url, token)
    settings = Settings(
        url=url,
        token=token,
        timeout=timeout,
        silence=silence,
        retries=retries,
        give_up_after=give_up_after,
    )
    return AsyncClient(settings, transport)
