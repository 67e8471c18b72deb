"""Requests and their repetition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from .._backoff import Backoff
from .._errors import (
    ApiError,
    ClientClosed,
    ConnectionFailed,
    FrameTooLarge,
    NarthexError,
    ProtocolError,
    api_error,
)
from .._settings import BODY_BYTES_MAX, Settings
from .platform import in_thread, sleep

# Nothing of the request has reached the server, so that any request may be sent again.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """One HTTP client with the rules of v1."""

    def __init__(
        self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.settings = settings
        self._http = httpx.AsyncClient(transport=transport, **settings.client_arguments())

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
        backoff: Backoff | None = None,
    ) -> Any:
        """Sends a request and returns the JSON of the answer.

        A GET, one with an `Idempotency-Key` and one that is `repeatable` are sent again after
        trouble; any other only when it has surely not arrived. `timeout` is in seconds and for
        each attempt; `backoff` says how often and how long to try, in place of the client's.
        """
        headers = {} if key is None else {"idempotency-key": key}
        again = repeatable or key is not None or method == "GET"
        backoff = backoff or Backoff(self.settings.retries)
        request = self._http.build_request(
            method,
            path,
            json=body,
            params={name: value for name, value in (query or {}).items() if value is not None},
            headers=headers,
            timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )
        while True:
            try:
                return await self._once(request)
            except httpx.TransportError as error:
                trouble: NarthexError = await self.failure(error)
                if not isinstance(trouble, ConnectionFailed):
                    raise trouble from error
                wait = backoff.next_wait() if again or isinstance(error, _NOT_SENT) else None
            except ApiError as error:
                trouble = error
                may = error.retryable or (error.status == 500 and method == "GET")
                wait = backoff.next_wait(error.retry_after) if again and may else None
            if wait is None:
                raise trouble
            await sleep(wait)

    async def _once(self, request: httpx.Request) -> Any:
        response = await self._send(request)
        try:
            return reply(response, await read(response))
        finally:
            await response.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        if self._http.is_closed:
            raise ClientClosed
        return await self._http.send(request, stream=True)

    async def open_stream(self, path: str, headers: Mapping[str, str]) -> httpx.Response:
        """Opens a stream once. Raises `ApiError` for a refusal, `httpx.TransportError` else."""
        request = self._http.build_request(
            "GET",
            path,
            headers={"accept": "text/event-stream", "accept-encoding": "identity", **headers},
            timeout=self.settings.stream_timeout(),
        )
        response = await self._send(request)
        try:
            kind = response.headers.get("content-type", "").partition(";")[0].strip()
            if response.status_code != 200 or kind != "text/event-stream":
                reply(response, await read(response))
                raise ProtocolError(f"{path} sent {kind or 'no media type'}, no event stream")
        except BaseException:
            await response.aclose()
            raise
        return response

    async def failure(self, error: httpx.TransportError | None) -> NarthexError:
        """Returns what a broken connection means; for a server of ours, whether it has died."""
        if self.settings.death is not None:
            died = await in_thread(self.settings.death)
            if died is not None:
                return died
        told = "the stream ended" if error is None else str(error) or type(error).__name__
        return ConnectionFailed(f"no connection to {self.settings.url}: {told}")


async def read(response: httpx.Response) -> bytes:
    """Reads a whole body up to the limit."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise FrameTooLarge(f"an answer is longer than {BODY_BYTES_MAX} bytes")
    except httpx.DecodingError as error:
        raise ProtocolError(f"an answer cannot be unpacked: {error}") from error
    return bytes(body)


def reply(response: httpx.Response, body: bytes) -> Any:
    """Returns the JSON of a good answer; raises `ApiError` for any other."""
    try:
        value = json.loads(body) if body else None
    except ValueError as error:
        if response.is_success:
            raise ProtocolError(f"{response.request.url.path} did not answer JSON") from error
        value = None
    if not response.is_success:
        raise api_error(response.status_code, response.headers, value)
    return value


def segment(text: str) -> str:
    """Returns text as one segment of a path."""
    return quote(text, safe="")
