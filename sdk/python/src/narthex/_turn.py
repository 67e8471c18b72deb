"""What a run knows about its prompt while it reads the stream. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import ProtocolError
from ._results import RunResult, run_result

REQUESTS = {
    "permission_request": "permission",
    "question_request": "question",
    "plan_request": "plan",
}


@dataclass(frozen=True)
class Request:
    """A request that waits for an answer."""

    kind: str
    id: str
    event: Mapping[str, Any]


class Turn:
    """Follows one prompt. A session runs one prompt at a time; what names no prompt belongs to
    the one that runs.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._answered: set[str] = set()
        self._runs = False
        self._runs_next = False
        self._ends_by: int | None = None
        self.prompt_id = ""
        """The prompt, as soon as the server has told its id."""
        self.is_open = False
        """Whether the prompt may be with the server and is not over: it would have to be stopped.
        """
        self.is_ours = False
        """Whether the last event belongs to the prompt, or to all."""
        self.gap = False
        """Whether events were missed, so that the end may be among them."""
        self.closed = ""
        """Why the session was closed, where the last event says so."""
        self.result: RunResult | None = None

    def sending(self) -> None:
        """The prompt is on its way."""
        self.is_open = True

    def refused(self) -> None:
        """The server has not taken the prompt."""
        self.is_open = False

    def accepted(self, prompt_id: str, queued: bool) -> None:
        """The server has taken the prompt."""
        self.prompt_id = prompt_id
        self._runs_next = not queued

    def feed(self, event: Mapping[str, Any]) -> Request | None:
        """Takes the next event and returns the request in it that we have to answer.

        Raises `ProtocolError` where the event shows that the end of the prompt was missed.
        """
        kind = str(event.get("type"))
        named = event.get("promptId")
        self.closed = str(event.get("reason")) if kind == "session_closed" else ""
        self.is_ours = self._runs if named is None else named == self.prompt_id
        if kind == "replay_gap":
            self._missed_some()
        elif kind in ("prompt_started", "turn_start"):
            if self._runs and not self.is_ours:
                raise self._missed()
            self._runs = self.is_ours
        elif kind == "done" and self.is_ours:
            # What comes after it may be another prompt, even before `prompt_finished` is read.
            self.is_open = False
        elif kind == "prompt_finished" and self.is_ours:
            self.is_open = self._runs = False
            self.result = run_result(self._session_id, event["result"])
        elif kind in REQUESTS and self._runs:
            return self._request(kind, event)
        return None

    def _missed_some(self) -> None:
        self.gap = self.is_ours = True
        # A prompt that did not have to wait has begun, though its start was not shown.
        self._runs = self._runs or self._runs_next

    def _request(self, kind: str, event: Mapping[str, Any]) -> Request | None:
        request = Request(REQUESTS[kind], str(event.get("requestId")), event)
        if request.id in self._answered:
            return None
        self._answered.add(request.id)
        return request

    def caught_up(self, idle: bool, last_event_id: int) -> None:
        """Takes the state of the session after a gap: if it is idle, our end lies before."""
        self.gap = False
        self._ends_by = last_event_id if idle else None

    def check(self, last_event_id: int | None) -> None:
        """Raises `ProtocolError` where the end of the prompt was among the missed events."""
        if self.result is not None or self._ends_by is None or last_event_id is None:
            return
        if last_event_id >= self._ends_by:
            raise self._missed()

    def _missed(self) -> ProtocolError:
        self.is_open = False
        return ProtocolError(
            f"the end of prompt {self.prompt_id} was missed: more events came while the "
            "connection was down than the server replays; messages() has what was said"
        )
