"""A server of v1 that does what a test tells it, and breaks off where it is told to."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "a-token-of-the-tests"
SESSION = "01k0000000000000000000000a"
RESULT = {
    "reason": "completed",
    "usage": {"inputTokens": 5, "outputTokens": 7, "cacheReadTokens": 0, "cacheWriteTokens": 0},
    "costUsd": 0.25,
    "turns": 1,
    "durationMs": 12,
    "text": "done",
}
FAR = 30.0  # seconds; no test waits so long unless it has failed


@dataclass
class Connection:
    """How one connection to the event stream goes."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    frames: int | None = None  # after so many it breaks off; None: never
    reset: bool = False  # breaks off with a reset instead of an end
    ends: bool = False  # ends well instead of breaking off
    silent: bool = False  # stays open without a byte, after its frames
    from_start: bool = False  # repeats what the client has seen already
    before: bytes = b""  # sent before all frames
    split: int = 0  # bytes of each write; 0: whole frames


@dataclass
class Seen:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class FakeServer:
    """One session, one log."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.log: list[dict[str, Any]] = []
        self.seen: list[Seen] = []
        self.connections: deque[Connection] = deque()
        self.replies: dict[tuple[str, str], deque[tuple[int, dict[str, str], Any]]] = {}
        self.hold_prompts = threading.Event()  # while it is clear, prompts get no answer
        self.hold_prompts.set()
        self.lost_answers = 0  # so many prompts are taken in without an answer
        self.keys: dict[str, str] = {}
        self.on_prompt: Callable[[FakeServer, str], None] = lambda server, prompt: server.turn(
            prompt
        )
        self.answers: dict[str, Any] = {}
        self.session: dict[str, Any] = {"state": "idle", "queued": 0}
        self.queued = False  # whether prompts are
        self.pending: list[dict[str, Any]] = []
        self.open_streams = 0
        self._stop = threading.Event()
        fake = self

        class Handler(_Handler):
            server_of_test = fake

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that leaves is no error."""

        self._http = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self.hold_prompts.set()
        with self.changed:
            self.changed.notify_all()
        self._http.shutdown()
        self._thread.join(FAR)
        self._http.server_close()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def emit(self, kind: str, **fields: Any) -> int:
        """Adds an event and returns its id."""
        with self.changed:
            self.log.append({"type": kind, "sessionId": SESSION, "ts": "x", **fields})
            self.changed.notify_all()
            return len(self.log)

    def turn(self, prompt: str, texts: int = 3, **result: Any) -> None:
        """A whole turn without requests."""
        self.emit("prompt_started", promptId=prompt, messageId="m", content=[])
        for number in range(texts):
            self.emit("text_delta", text=f"{number} ")
        self.emit("prompt_finished", promptId=prompt, result={**RESULT, **result})

    def asks(self, prompt: str, kind: str, request: str, **fields: Any) -> Any:
        """Asks within a turn and returns the answer."""
        self.emit(kind, requestId=request, **fields)
        return self.answer_of(request)

    def answer_of(self, request: str) -> Any:
        with self.changed:
            if not self.changed.wait_for(lambda: request in self.answers or self.stopped, FAR):
                raise AssertionError(f"no answer to {request}")
            return self.answers.get(request)

    def wait_for(self, method: str, end: str, count: int = 1) -> Seen:
        """Waits until so many such requests have come; returns the last."""

        def found() -> list[Seen]:
            return [s for s in self.seen if s.method == method and s.path.endswith(end)]

        with self.changed:
            assert self.changed.wait_for(lambda: len(found()) >= count, FAR), (method, end)
            return found()[count - 1]

    def count(self, method: str, end: str) -> int:
        with self.changed:
            return sum(s.method == method and s.path.endswith(end) for s in self.seen)

    def wait_until_nobody_reads(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.open_streams == 0, FAR), "a stream is open"

    def interrupted(self) -> list[Any]:
        """The bodies of all interrupts."""
        with self.changed:
            return [s.body for s in self.seen if s.path.endswith("/interrupt")]

    def refuse(self, method: str, path: str, status: int, code: str, **headers: str) -> None:
        """The next such request is refused."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"error": {"code": code, "message": f"refused with {code}"}}
        self.replies.setdefault((method, path), deque()).append((status, named, body))


class _Handler(BaseHTTPRequestHandler):
    server_of_test: FakeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        fake = self.server_of_test
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(method, self.path, headers, json.loads(raw) if raw else None)
        with fake.changed:
            fake.seen.append(seen)
            fake.changed.notify_all()
            planned = fake.replies.get((method, self.path))
            reply = planned.popleft() if planned else None
        if headers.get("authorization") != f"Bearer {TOKEN}":
            reply = (401, {}, {"error": {"code": "unauthorized", "message": "no token"}})
        if reply is not None:
            self._json(*reply)
        elif self.path.partition("?")[0].endswith("/events"):
            self._stream(headers)
        else:
            self._json(*self._usual(seen))

    def _usual(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        fake = self.server_of_test
        base = f"/v1/sessions/{SESSION}"
        if (seen.method, seen.path) == ("POST", "/v1/sessions"):
            return 201, {}, self._info()
        if (seen.method, seen.path) == ("GET", base):
            return 200, {}, self._info()
        if (seen.method, seen.path) == ("DELETE", base):
            return 204, {}, None
        if seen.path == f"{base}/prompt":
            return self._prompt(seen)
        if seen.path == f"{base}/interrupt":
            return 200, {}, {"interrupted": True}
        if seen.path == f"{base}/permissions":
            return 200, {}, {"requests": fake.pending}
        if "/permissions/" in seen.path:
            request = seen.path.rpartition("/")[2]
            with fake.changed:
                if request in fake.answers:
                    error = {"code": "request_resolved", "message": "decided already"}
                    return 409, {}, {"error": error}
                fake.answers[request] = seen.body
                fake.changed.notify_all()
            return 200, {}, {"ok": True}
        return 404, {}, {"error": {"code": "not_found", "message": "no such route"}}

    def _info(self) -> dict[str, Any]:
        fake = self.server_of_test
        return {
            "id": SESSION,
            "cwd": "/",
            "mode": "ask",
            "model": "a/b",
            "lastEventId": len(fake.log),
            "pendingRequests": 0,
            **fake.session,
        }

    def _prompt(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        fake = self.server_of_test
        key = seen.headers["idempotency-key"]
        with fake.changed:
            new = key not in fake.keys
            prompt = fake.keys.setdefault(key, f"p{len(fake.keys) + 1}")
            lost = fake.lost_answers > 0
            fake.lost_answers -= lost
        if new:
            work = threading.Thread(target=fake.on_prompt, args=(fake, prompt), daemon=True)
            work.start()
        if not new:
            fake.hold_prompts.set()
        fake.hold_prompts.wait(FAR)
        if lost:
            self._break(reset=True)
        return 202, {}, {"promptId": prompt, "queued": fake.queued, "position": int(fake.queued)}

    def _json(self, status: int, headers: dict[str, str], body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _break(self, reset: bool) -> None:
        """Ends the connection, as a dying server does."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()
        raise ConnectionAbortedError("told to")

    def _stream(self, headers: dict[str, str]) -> None:
        fake = self.server_of_test
        with fake.changed:
            plan = fake.connections.popleft() if fake.connections else Connection()
        if plan.status != 200:
            error = {"error": {"code": "shutting_down", "message": "not now"}}
            self._json(plan.status, plan.headers, error)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        last = headers.get("last-event-id")
        at = len(fake.log) if last is None else 0 if plan.from_start else int(last)
        with fake.changed:
            fake.open_streams += 1
        try:
            self._send(plan, at)
        finally:
            with fake.changed:
                fake.open_streams -= 1
                fake.changed.notify_all()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _send(self, plan: Connection, at: int) -> None:
        fake = self.server_of_test
        if plan.before:
            self._chunk(plan.before)
        sent = 0
        while not fake.stopped:
            if plan.frames is not None and sent >= plan.frames:
                if plan.ends:
                    self._chunk(b"")
                    return
                if not plan.silent:
                    self._break(plan.reset)
                if self._gone():
                    return
                continue
            with fake.changed:
                fresh = fake.changed.wait_for(lambda at=at: len(fake.log) > at, 0.02)
                event = fake.log[at] if fresh and len(fake.log) > at else None
            if event is None:
                if not plan.silent:
                    self._chunk(b": heartbeat\n\n")
                if self._gone():
                    return
                continue
            at += 1
            sent += 1
            text = f"id: {at}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            for start in range(0, len(text), plan.split or len(text)):
                self._chunk(text[start : start + (plan.split or len(text))])
            if event["type"] == "session_closed" and at == len(fake.log):
                self._chunk(b"")
                return

    def _gone(self) -> bool:
        """Tells whether the client has left; waits a moment for it."""
        self.connection.settimeout(0.02)
        try:
            return self.connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(None)


def until(test: Callable[[], bool], what: str) -> None:
    """Polls for what no condition tells."""
    end = time.monotonic() + FAR
    while not test():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.01)
