"""An event stream that outlives its connections."""

from __future__ import annotations

import json
import time
from contextlib import aclosing
from typing import Any, Generic, TypeAlias, TypeVar, cast

import httpx

from .._backoff import WAIT_SECONDS_MAX, Backoff
from .._errors import ApiError, ConnectionFailed, NarthexError, ProtocolError
from .._sse import Frame, SseDecoder
from .platform import AsyncEvents, EventGenerator, sleep, wake
from .transport import Transport

E = TypeVar("E")

# The path of the session and the id of the event to go on after; None for "from now on".
Place: TypeAlias = tuple[str, int | None]


class AsyncEventStream(AsyncEvents[E]):
    """Events, each once, in order; iterate over it, or close it.

    After a broken connection it goes on behind the last event that it gave. It ends when the
    session is closed, but not when the server stops: that may come back. It raises `ApiError`
    where the server refuses to go on, and `ConnectionFailed` where it stays away.
    """

    # The generator knows the follower and not this object, so that both go, and with them the
    # connection, as soon as nobody holds this object any more.
    def __init__(self, transport: Transport, path: str, place: Place | None = None) -> None:
        self._follower: _Follower[E] = _Follower(transport, path, place)
        super().__init__(self._follower.follow())

    @property
    def last_event_id(self) -> int | None:
        """The id of the last event that was given: where another stream may go on."""
        return self._follower.last_event_id

    async def open(self) -> None:
        """Subscribes now, instead of when the first event is asked for."""
        await self._follower.open()

    async def close(self) -> None:
        """Leaves the stream; whoever waits for its next event is told that there is none."""
        await super().close()
        await self._follower.drop()

    def _wake(self) -> None:
        self._follower.leave()


class _Garbled(Exception):
    """A frame that holds no event."""


class _Follower(Generic[E]):
    """Connects, and connects again. Without a place there is nothing to go on after."""

    def __init__(self, transport: Transport, path: str, place: Place | None) -> None:
        self._session_path: str | None = None if place is None else place[0]
        self.last_event_id: int | None = None if place is None else place[1]
        self._transport = transport
        self._path = path
        self._backoff = Backoff(seconds_max=transport.settings.give_up_after)
        self._response: httpx.Response | None = None
        self._is_over = False
        self._is_left = False
        self._was_garbled = False

    async def open(self) -> None:
        while self._response is None:
            try:
                headers = await self._place()
                self._response = await self._transport.open_stream(self._path, headers)
            except httpx.TransportError as error:
                await self._wait(await self._transport.failure(error), None)
            except ConnectionFailed as error:
                await self._wait(error, None)
            except ApiError as error:
                # Opening reads only: after a fault (500) too it may be done again.
                if not error.retryable and error.status != 500:
                    raise
                await self._wait(error, error.retry_after)

    async def _place(self) -> dict[str, str]:
        """Returns the header that says where to go on."""
        if self.last_event_id is None and self._session_path is not None:
            # "From now on" has to mean the same now after a reconnect.
            info = await self._transport.request(
                "GET",
                self._session_path,
                timeout=self._transport.settings.silence,
                backoff=Backoff(0),
            )
            self.last_event_id = info["lastEventId"]
        if self.last_event_id is None:
            return {}
        return {"last-event-id": str(self.last_event_id)}

    async def follow(self) -> EventGenerator[E]:
        try:
            while True:
                await self.open()
                trouble: Exception | None = None
                try:
                    async with aclosing(self._connection()) as events:
                        async for event in events:
                            yield event
                except (httpx.TransportError, _Garbled) as error:
                    trouble = error
                await self.drop()
                # A log may hold the end of a former life: it is the end where nothing follows.
                if self._is_left or (self._is_over and trouble is None):
                    return
                await self._wait(await self._meaning(trouble), None)
        finally:
            await self.drop()

    async def _meaning(self, trouble: Exception | None) -> NarthexError:
        """Returns what the end of a connection means; an unreadable event may come whole again."""
        if not isinstance(trouble, _Garbled):
            failure = trouble if isinstance(trouble, httpx.TransportError) else None
            return await self._transport.failure(failure)
        if self._was_garbled:
            return ProtocolError(str(trouble))
        self._was_garbled = True
        return ConnectionFailed(str(trouble))

    async def _connection(self) -> EventGenerator[E]:
        """The events of one connection."""
        if self._response is None:
            return
        decoder = SseDecoder()
        opened = time.monotonic()
        chunks = self._response.aiter_bytes()
        try:
            async for chunk in chunks:
                # Heartbeats of a connection that lasts are progress too.
                if time.monotonic() - opened > WAIT_SECONDS_MAX:
                    self._backoff.progress()
                for frame in decoder.feed(chunk):
                    event = self._event(frame)
                    if self._is_new(frame):
                        self._is_over = _ends(event)
                        yield event
                if decoder.retry_ms is not None:
                    self._backoff.first_seconds = decoder.retry_ms / 1000
        finally:
            await cast(Any, chunks).aclose()

    def _is_new(self, frame: Frame) -> bool:
        """Tells whether a frame was not given before; one without an id always is new."""
        if frame.id is None or not frame.id.isdecimal():
            if self._session_path is None:
                self._progress()
            return True
        number = int(frame.id)
        if self.last_event_id is not None and number <= self.last_event_id:
            return False
        self.last_event_id = number
        self._progress()
        return True

    def _progress(self) -> None:
        self._was_garbled = False
        self._backoff.progress()

    def _event(self, frame: Frame) -> E:
        try:
            value = json.loads(frame.data)
        except ValueError as error:
            raise _Garbled(f"event {frame.id} of the stream is not JSON") from error
        if not isinstance(value, dict):
            raise _Garbled(f"event {frame.id} of the stream is no object")
        value.setdefault("type", frame.event)
        return cast(E, value)

    async def _wait(self, trouble: NarthexError, retry_after: float | None) -> None:
        """Waits before the next attempt, or raises the trouble where waiting is of no use."""
        wait = None
        if isinstance(trouble, (ConnectionFailed, ApiError)) and not self._is_left:
            wait = self._backoff.next_wait(retry_after)
        if wait is None:
            raise trouble
        await sleep(wait)

    def leave(self) -> None:
        """Ends the wait of another thread for the next event."""
        self._is_left = True
        if self._response is not None:
            wake(self._response)

    async def drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()


def _ends(event: Any) -> bool:
    """Tells whether an event ends its session for good; a server that stops may come back."""
    return bool(event["type"] == "session_closed" and event.get("reason") != "shutdown")
