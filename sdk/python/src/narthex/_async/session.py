"""One session of a server."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

from .._backports import Self
from .._errors import ApiError, SessionClosed
from .._generated import (
    Answer,
    Attachment,
    CheckpointInfo,
    Command,
    Event,
    Message,
    Messages,
    Mode,
    PendingRequest,
    PromptAccepted,
    RewindResult,
    RewindScope,
    SessionInfo,
    SessionUsage,
    Task,
    UndoResult,
)
from .._results import RunResult
from .events import AsyncEventStream
from .platform import call
from .run import AsyncRun, Callbacks, OnEvent, OnPermission, OnPlan, OnQuestion
from .transport import Transport, segment

MESSAGES_MAX = 1_000
"""Messages of one page."""


class AsyncSession:
    """A durable conversation. Leaving it as a context manager closes it on this server; its log
    stays, and `resume` opens it again.
    """

    def __init__(self, transport: Transport, session_id: str) -> None:
        self.id = session_id
        self._transport = transport
        self._path = f"/sessions/{segment(session_id)}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

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

    async def run(
        self,
        text: str,
        *,
        on_event: OnEvent | None = None,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_plan: OnPlan | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> RunResult:
        """Sends a prompt, answers its requests, and returns what came of it.

        Without callbacks permissions are denied, questions dismissed and plans rejected. A callback
        that raises ends the prompt: its request gets that same answer, the prompt is interrupted,
        and the error goes on to the caller. So does a cancellation, after the interrupt. A prompt
        that still waits in the queue is withdrawn.
        """
        callbacks = Callbacks(permission=on_permission, question=on_question, plan=on_plan)
        async with AsyncRun(self, self._transport, (text, attachments), callbacks) as events:
            async for event in events:
                if on_event is not None:
                    await call(on_event, event)
            if events.result is None:
                raise SessionClosed("left")
            return events.result

    def stream(
        self,
        text: str,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_plan: OnPlan | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> AsyncRun:
        """Sends a prompt and gives its events until it is over; leaving early interrupts it."""
        callbacks = Callbacks(permission=on_permission, question=on_question, plan=on_plan)
        return AsyncRun(self, self._transport, (text, attachments), callbacks)

    def events(self, last_event_id: int | None = None) -> AsyncEventStream[Event]:
        """Gives the events after `last_event_id`, or those from now on; connects by itself again.

        Where the server has not kept all of them, a `replay_gap` comes first.
        """
        path = f"{self._path}/events"
        return AsyncEventStream(self._transport, path, (self._path, last_event_id))

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        idempotency_key: str | None = None,
    ) -> PromptAccepted:
        """Sends a prompt and does not wait for it; on a busy session it is queued.

        The same `idempotency_key` never starts a second turn; one is made where none is given, so
        that a repetition after a lost answer is safe.
        """
        body: dict[str, Any] = {"text": text}
        if attachments:
            body["attachments"] = list(attachments)
        key = idempotency_key or uuid.uuid4().hex
        got = await self._transport.request("POST", f"{self._path}/prompt", body, key=key)
        return cast(PromptAccepted, got)

    async def interrupt(self, *, prompt_id: str | None = None, clear_queue: bool = False) -> bool:
        """Stops the running prompt, and with `clear_queue` the waiting ones; tells whether one
        was stopped.

        With `prompt_id` it stops or withdraws that prompt and no other.
        """
        body: dict[str, Any] = {"clearQueue": True} if clear_queue else {}
        if prompt_id is not None:
            body["promptId"] = prompt_id
        got = await self._transport.request(
            "POST", f"{self._path}/interrupt", body, repeatable=True
        )
        return bool(got["interrupted"])

    async def set_mode(self, mode: Mode) -> SessionInfo:
        """Changes the permission mode."""
        got = await self._transport.request(
            "POST", f"{self._path}/mode", {"mode": mode}, repeatable=True
        )
        return cast(SessionInfo, got)

    async def set_model(self, model: str) -> SessionInfo:
        """Changes the model, `provider/model`."""
        got = await self._transport.request(
            "POST", f"{self._path}/model", {"model": model}, repeatable=True
        )
        return cast(SessionInfo, got)

    async def info(self) -> SessionInfo:
        """Returns the session as it is now."""
        return cast(SessionInfo, await self._transport.request("GET", self._path))

    async def messages(
        self, *, after: str | None = None, limit: int | None = None
    ) -> list[Message]:
        """Returns the messages after the one named `after`, oldest first: at most `limit`, or all.

        A page of the server has 1,000 at most; several are asked for where that is needed.
        """
        found: list[Message] = []
        while True:
            left = None if limit is None else min(limit - len(found), MESSAGES_MAX)
            query = {"after": after, "limit": left}
            page: Messages = await self._transport.request(
                "GET", f"{self._path}/messages", query=query
            )
            found += page["messages"]
            if not page["messages"] or not page["hasMore"] or len(found) == limit:
                return found
            after = found[-1]["id"]

    async def permissions(self) -> list[PendingRequest]:
        """Returns the requests that wait for an answer: permissions, questions, plans."""
        got = await self._transport.request("GET", f"{self._path}/permissions")
        return cast(list[PendingRequest], got["requests"])

    async def answer(self, request_id: str, answer: Answer) -> None:
        """Answers a request: `allow_once()`, `choose("Postgres")`, `approve()` and their like.

        Raises `ApiError` with 409 `request_resolved` where it is decided already.
        """
        path = f"{self._path}/permissions/{segment(request_id)}"
        await self._transport.request("POST", path, answer)

    async def fork(self, message_id: str | None = None) -> AsyncSession:
        """Makes a new session that shares the conversation up to a message, or all of it."""
        body = {} if message_id is None else {"messageId": message_id}
        key = uuid.uuid4().hex
        got = await self._transport.request("POST", f"{self._path}/fork", body, key=key)
        return AsyncSession(self._transport, got["id"])

    async def checkpoints(self) -> list[CheckpointInfo]:
        """Returns the points that `rewind` can go back to."""
        got = await self._transport.request("GET", f"{self._path}/checkpoints")
        return cast(list[CheckpointInfo], got["checkpoints"])

    async def rewind(
        self,
        checkpoint_id: str,
        scope: RewindScope = "both",
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> RewindResult:
        """Goes back to a checkpoint, in the files, the conversation, or both.

        Files that hold something else than the agent left stay, unless `force` says otherwise.
        With `dry_run` nothing changes.
        """
        body = {"checkpointId": checkpoint_id, "scope": scope, "force": force, "dryRun": dry_run}
        got = await self._transport.request("POST", f"{self._path}/rewind", body)
        return cast(RewindResult, got)

    async def undo(self, *, force: bool = False, dry_run: bool = False) -> UndoResult:
        """Takes back the newest change of files; `force` and `dry_run` as in `rewind`."""
        body = {"force": force, "dryRun": dry_run}
        return cast(UndoResult, await self._transport.request("POST", f"{self._path}/undo", body))

    async def usage(self) -> SessionUsage:
        """Returns what the session has used."""
        got = await self._transport.request("GET", f"{self._path}/usage")
        return cast(SessionUsage, got)

    async def commands(self) -> list[Command]:
        """Returns the slash commands of the session."""
        got = await self._transport.request("GET", f"{self._path}/commands")
        return cast(list[Command], got["commands"])

    async def tasks(self) -> list[Task]:
        """Returns what runs beside the conversation."""
        got = await self._transport.request("GET", f"{self._path}/tasks")
        return cast(list[Task], got["tasks"])

    async def stop_task(self, task_id: str) -> bool:
        """Stops a task; tells whether it ran."""
        path = f"{self._path}/tasks/{segment(task_id)}/stop"
        got = await self._transport.request("POST", path, {}, repeatable=True)
        return bool(got["stopped"])

    async def close(self) -> None:
        """Closes the session on this server. The stored log stays; closing twice does no harm."""
        try:
            await self._transport.request("DELETE", self._path, repeatable=True)
        except ApiError as error:
            if error.code != "session_not_found":
                raise
