"""What can go wrong, as exceptions."""

from __future__ import annotations

import datetime
import email.utils
import time
from collections.abc import Mapping
from typing import Any

import httpx


class NarthexError(Exception):
    """The base of all errors of this package."""


class ApiError(NarthexError):
    """The server refused a request.

    `status` is the HTTP status and `code` the stable word for programs, for example
    `session_not_found`; `request_id` names the request in the logs of the server, `retry_after` is
    in seconds, where the server asks for it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed a moment later.

        A refusal for want of room (429) is, where the server says when.
        """
        if self.status == 429:
            return self.retry_after is not None
        return self.status in {502, 503, 504}


class ConnectionFailed(NarthexError):
    """The server could not be reached, or went away before it answered."""


class FrameTooLarge(NarthexError):
    """The event stream sent a frame, or a reply a body, beyond the limit of this package."""


class ProtocolError(NarthexError):
    """The server sent something that is not the v1 protocol."""


class SessionClosed(NarthexError):
    """The session was closed before the prompt was over; `reason` is the server's word for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session was closed ({reason}) before the prompt was over")
        self.reason = reason


class ClientClosed(NarthexError):
    """The client was used after its `close()`."""

    def __init__(self) -> None:
        super().__init__("this client is closed; make another one")


class ServerDied(NarthexError):
    """The program that this package started has ended.

    `exit_code` is negative for a signal; `stderr` holds its last lines.
    """

    def __init__(self, exit_code: int | None, stderr: str) -> None:
        how = "has not become ready" if exit_code is None else f"ended with {exit_code}"
        said = f"; its last lines:\n{stderr}" if stderr else ", without a word on standard error"
        super().__init__(f"the narthex server {how}{said}")
        self.exit_code = exit_code
        self.stderr = stderr


class BinaryNotFound(NarthexError):
    """There is no narthex program, or none that can be started."""


def api_error(status: int, headers: Mapping[str, str], body: Any) -> ApiError:
    """Returns the error of a reply; one without our envelope is named after its status."""
    told = body.get("error") if isinstance(body, dict) else None
    told = told if isinstance(told, dict) else {}
    usual = httpx.codes.get_reason_phrase(status) or "an unknown status"
    code = str(told.get("code") or usual.lower().replace(" ", "_"))
    message = str(told.get("message") or usual)
    request_id = headers.get("x-request-id") or told.get("requestId")
    return ApiError(
        status,
        code,
        message,
        request_id=str(request_id) if request_id else None,
        retry_after=seconds(headers.get("retry-after")),
    )


def seconds(header: str | None) -> float | None:
    """Reads `Retry-After`, in seconds or as a date; returns seconds from now."""
    try:
        value = float(header or "")
    except ValueError:
        return seconds_until(header or "")
    return value if 0 <= value < float("inf") else None


def seconds_until(date: str) -> float | None:
    """Returns how far a date of HTTP is ahead; one that is past is now."""
    try:
        when = email.utils.parsedate_to_datetime(date)
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.timezone.utc)
        return max(0.0, when.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
