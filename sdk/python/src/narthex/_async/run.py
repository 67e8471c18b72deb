"""One prompt, from its sending to its end."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .._answers import (
    PermissionAnswer,
    PermissionDecision,
    PlanAnswer,
    QuestionAnswer,
    answer_body,
    default_answer,
    no_instead,
)
from .._backoff import Backoff
from .._errors import ApiError, ConnectionFailed, ServerDied, SessionClosed
from .._generated import (
    Attachment,
    Event,
    PermissionRequest,
    PlanRequest,
    PromptAccepted,
    QuestionRequest,
)
from .._results import RunResult
from .._turn import Request, Turn
from .events import AsyncEventStream
from .platform import (
    CANCELLED,
    AsyncEvents,
    Beside,
    Callback,
    EventGenerator,
    call,
    settle,
)
from .transport import Transport, segment

if TYPE_CHECKING:
    from .session import AsyncSession

INTERRUPT_SECONDS = 5.0
"""How long leaving a prompt early may wait for the server, for each attempt to tell it."""

REASON_CHARS_MAX = 1_000
"""Characters of a refusal that the model is shown."""

OnEvent = Callback[Event, object]
OnPermission = Callback[PermissionRequest, PermissionAnswer | PermissionDecision | None]
OnQuestion = Callback[QuestionRequest, QuestionAnswer | None]
OnPlan = Callback[PlanRequest, PlanAnswer | None]


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Who answers what; nobody means: denied, dismissed, rejected."""

    permission: OnPermission | None = None
    question: OnQuestion | None = None
    plan: OnPlan | None = None

    def of(self, kind: str) -> Callback[Any, object] | None:
        return cast("Callback[Any, object] | None", getattr(self, kind))


class AsyncRun(AsyncEvents[Event]):
    """The events of one prompt; leaving them early interrupts it."""

    # As with streams, the generator does not know this object.
    def __init__(
        self,
        session: AsyncSession,
        transport: Transport,
        prompt: tuple[str, Sequence[Attachment]],
        callbacks: Callbacks,
    ) -> None:
        self._follower = _Follower(session, transport, prompt, callbacks)
        super().__init__(self._follower.follow())

    @property
    def result(self) -> RunResult | None:
        """What came of the prompt, as soon as it is over."""
        return self._follower.turn.result

    def _wake(self) -> None:
        self._follower.leave()


class _Follower:
    """Sends a prompt, reads the stream and answers what is asked."""

    def __init__(
        self,
        session: AsyncSession,
        transport: Transport,
        prompt: tuple[str, Sequence[Attachment]],
        callbacks: Callbacks,
    ) -> None:
        self.turn = Turn(session.id)
        self._session = session
        self._transport = transport
        self._path = f"/sessions/{segment(session.id)}"
        self._text, self._attachments = prompt
        self._key = uuid.uuid4().hex
        self._callbacks = callbacks
        self._beside = Beside()
        self._deciding: set[str] = set()
        self._failed: list[Request] = []
        self._stream: AsyncEventStream[Event] | None = None

    async def follow(self) -> EventGenerator[Event]:
        info = await self._session.info()
        stream = self._stream = self._session.events(info["lastEventId"])
        turn = self.turn
        try:
            # Subscribed before the prompt is sent, so that it fails before anything has begun.
            await stream.open()
            await self._send()
            while (event := await self._beside.next(stream)) is not None:
                request = turn.feed(cast(Mapping[str, Any], event))
                if event["type"] == "request_resolved":
                    self._resolved(str(event.get("requestId")))
                if turn.is_ours:
                    yield event
                if request is not None:
                    await self._beside.start(request.id, partial(self._decide, request))
                if turn.gap:
                    await self._catch_up()
                turn.check(stream.last_event_id)
                if turn.result is not None:
                    self._beside.check()
                    return
            if turn.closed:
                raise SessionClosed(turn.closed)
        except (ConnectionFailed, ServerDied, SessionClosed):
            # There is nobody to tell, unless a callback raised it: it may talk to others.
            turn.is_open = turn.is_open and bool(self._failed)
            raise
        finally:
            await settle(self._end)

    def leave(self) -> None:
        """Ends the wait of another thread for the next event."""
        if self._stream is not None:
            self._stream._wake()

    async def _send(self) -> None:
        self.turn.sending()
        try:
            await self._prompt(None)
        except ApiError:
            self.turn.refused()
            raise

    async def _prompt(self, timeout: float | None) -> None:
        body: dict[str, Any] = {"text": self._text}
        if self._attachments:
            body["attachments"] = list(self._attachments)
        accepted: PromptAccepted = await self._transport.request(
            "POST", f"{self._path}/prompt", body, key=self._key, timeout=timeout
        )
        self.turn.accepted(accepted["promptId"], accepted["queued"])

    async def _end(self) -> None:
        """Ends the callbacks, the stream, and the prompt where it is not over."""
        # What went wrong first is what the caller has to see.
        with suppress(Exception):
            await self._beside.end()
        if self._stream is not None:
            with suppress(Exception):
                await self._stream.close()
        for request in self._failed:
            with suppress(Exception):
                no = default_answer(request.kind)
                await self._post(request.id, no, Backoff(self._transport.settings.retries))
        if self.turn.is_open:
            with suppress(Exception):
                await self._interrupt()

    async def _interrupt(self) -> None:
        if not self.turn.prompt_id:
            # Cut off while it was sent: whether it has arrived cannot be told. The same key tells
            # its id, or makes it come, and it can be stopped by that.
            await self._prompt(INTERRUPT_SECONDS)
        await self._transport.request(
            "POST",
            f"{self._path}/interrupt",
            {"promptId": self.turn.prompt_id},
            repeatable=True,
            timeout=INTERRUPT_SECONDS,
        )

    async def _catch_up(self) -> None:
        """Looks for what a gap may have held: a request that waits, the end."""
        now = await self._session.info()
        self.turn.caught_up(now["state"] == "idle" and now["queued"] == 0, now["lastEventId"])
        if now["pendingRequests"] == 0:
            return
        for pending in await self._session.permissions():
            request = self.turn.feed(cast(Mapping[str, Any], pending))
            if request is not None:
                await self._beside.start(request.id, partial(self._decide, request))

    def _resolved(self, request_id: str) -> None:
        """Somebody has decided: whoever is still being asked need not answer any more."""
        if request_id in self._deciding:
            self._beside.cancel(request_id)

    async def _decide(self, request: Request) -> None:
        callback = self._callbacks.of(request.kind)
        body: Mapping[str, Any] = default_answer(request.kind)
        if callback is not None:
            self._deciding.add(request.id)
            try:
                body = answer_body(request.kind, await call(callback, request.event))
            except CANCELLED:
                # What is cancelled is decided already, or the interrupt decides against it.
                raise
            except BaseException:
                # Answered when the run ends, which is now: no event may come before the error.
                self._failed.append(request)
                raise
            finally:
                self._deciding.discard(request.id)
        await self._answer(request, body)

    async def _answer(self, request: Request, body: Mapping[str, Any]) -> None:
        """Answers for as long as the stream is tried; what the server does not take is a no."""
        patience = self._transport.settings.give_up_after
        try:
            await self._post(request.id, body, Backoff(seconds_max=patience))
        except ApiError as error:
            if error.status not in (400, 403):
                raise
            why = f"the answer could not be taken: {error.message}"[:REASON_CHARS_MAX]
            no = no_instead(request.kind, why)
            await self._post(request.id, no, Backoff(seconds_max=patience))

    async def _post(self, request_id: str, body: Mapping[str, Any], backoff: Backoff) -> None:
        """Answers; that somebody was faster, or the time is over, is no error of a run."""
        path = f"{self._path}/permissions/{segment(request_id)}"
        try:
            await self._transport.request("POST", path, body, repeatable=True, backoff=backoff)
        except ApiError as error:
            if error.code not in ("request_resolved", "request_not_found"):
                raise
