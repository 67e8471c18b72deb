"""Requests: what is repeated, what is not, and what errors say."""

from __future__ import annotations

import email.utils
import inspect
import json
import pathlib
import re
import time
from typing import get_type_hints

import httpx
import pytest

import narthex
from narthex import ApiError, ClientClosed, ConnectionFailed
from narthex._errors import seconds
from narthex._settings import Settings, is_loopback

from both import Half
from fake import SESSION, TOKEN, FakeServer

PATH = f"/v1/sessions/{SESSION}"


async def test_a_refusal_is_an_error_with_all_that_is_known(half: Half, fake: FakeServer) -> None:
    fake.refuse("POST", "/v1/sessions", 429, "too_many_sessions", x_request_id="r-1")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError) as raised:
            await client.create_session(cwd="/tmp")
    error = raised.value
    assert (error.status, error.code, error.request_id) == (429, "too_many_sessions", "r-1")
    assert error.message == "refused with too_many_sessions"
    assert not error.retryable
    assert fake.count("POST", "/v1/sessions") == 1


async def test_an_error_of_a_proxy_is_named_after_its_status(half: Half) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, html="<h1>no</h1>")

    transport = httpx.MockTransport(answer)
    async with half.connect("http://h", TOKEN, transport=transport) as client:
        with pytest.raises(ApiError) as raised:
            await client.sessions()
    assert (raised.value.status, raised.value.code) == (403, "forbidden")


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_get_is_repeated(half: Half, fake: FakeServer, status: int) -> None:
    for _ in range(4):
        fake.refuse("GET", PATH, status, "later")
    async with half.connect(fake.url, TOKEN) as client:
        assert (await client.session(SESSION).info())["id"] == SESSION
    assert fake.count("GET", PATH) == 5


async def test_it_is_given_up_after_five_attempts(half: Half, fake: FakeServer) -> None:
    for _ in range(9):
        fake.refuse("GET", PATH, 503, "shutting_down")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError, match="503 shutting_down"):
            await client.session(SESSION).info()
    assert fake.count("GET", PATH) == 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413])
async def test_a_clear_no_is_not_repeated(half: Half, fake: FakeServer, status: int) -> None:
    fake.refuse("GET", PATH, status, "no")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await client.session(SESSION).info()
    assert fake.count("GET", PATH) == 1


async def test_a_full_queue_is_waited_for_only_where_the_server_says_when(
    half: Half, fake: FakeServer
) -> None:
    fake.refuse("POST", f"{PATH}/prompt", 429, "queue_full", retry_after="0.2")
    fake.refuse("POST", f"{PATH}/prompt", 429, "queue_full")
    began = time.monotonic()
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError, match="queue_full"):
            await client.session(SESSION).prompt("hello")
    assert time.monotonic() - began >= 0.2
    assert fake.count("POST", "/prompt") == 2


async def test_a_date_to_wait_for_is_obeyed(half: Half, fake: FakeServer) -> None:
    soon = email.utils.formatdate(time.time() + 1.5, usegmt=True)
    fake.refuse("POST", f"{PATH}/prompt", 429, "queue_full", retry_after=soon)
    fake.refuse("POST", f"{PATH}/prompt", 429, "queue_full")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError, match="queue_full"):
            await client.session(SESSION).prompt("hello")
    assert fake.count("POST", "/prompt") == 2


@pytest.mark.parametrize(
    ("header", "read"),
    [("7", 7.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("-1", None), ("inf", None),
     ("soon", None), ("", None), (None, None)],
)  # fmt: skip
def test_what_a_server_may_ask_to_wait(header: str | None, read: float | None) -> None:
    assert seconds(header) == read


def test_a_date_is_as_far_as_it_is_ahead() -> None:
    ahead = seconds(email.utils.formatdate(time.time() + 30, usegmt=True))
    assert ahead is not None
    assert 28 < ahead <= 30


async def test_a_fault_is_repeated_for_reading_alone(half: Half, fake: FakeServer) -> None:
    fake.refuse("POST", f"{PATH}/prompt", 500, "internal_error")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError, match="internal_error"):
            await client.session(SESSION).prompt("hello")
    assert fake.count("POST", "/prompt") == 1


async def test_a_closed_client_says_so(half: Half, fake: FakeServer) -> None:
    client = half.connect(fake.url, TOKEN)
    await client.close()
    with pytest.raises(ClientClosed, match="this client is closed"):
        await client.health()
    with pytest.raises(ClientClosed):
        await client.session(SESSION).run("hello")
    assert issubclass(ClientClosed, narthex.NarthexError)


@pytest.mark.parametrize(
    ("url", "told"),
    [("127.0.0.1:7420", "has no scheme; expected for example 'http://127.0.0.1:7420'"),
     ("localhost", "has no scheme"), ("", "has no scheme"), ("ftp://h", "is no address"),
     ("http://", "is no address")],
)  # fmt: skip
def test_what_is_no_address_is_told_at_once(url: str, told: str) -> None:
    for connect in (narthex.connect, narthex.connect_async):
        with pytest.raises(ConnectionFailed, match=re.escape(told)):
            connect(url, TOKEN)


def test_all_that_is_offered_can_be_asked_for_its_types() -> None:
    for name in narthex.__all__:
        value = getattr(narthex, name)
        if inspect.isfunction(value):
            assert "return" in get_type_hints(value)
        elif inspect.isclass(value):
            for _, method in inspect.getmembers(value, inspect.isfunction):
                if "return" in method.__annotations__ and method.__name__ != "__init__":
                    get_type_hints(method)


async def test_an_interrupt_may_name_its_prompt(half: Half, fake: FakeServer) -> None:
    async with half.connect(fake.url, TOKEN) as client:
        session = client.session(SESSION)
        await session.interrupt()
        await session.interrupt(prompt_id="p7")
        await session.interrupt(clear_queue=True)
    assert fake.interrupted() == [{}, {"promptId": "p7"}, {"clearQueue": True}]


async def test_a_post_without_a_key_is_not_repeated(half: Half, fake: FakeServer) -> None:
    fake.refuse("POST", f"{PATH}/undo", 503, "shutting_down")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await client.session(SESSION).undo()
    assert fake.count("POST", "/undo") == 1


async def test_a_lost_answer_does_not_start_a_prompt_twice(half: Half, fake: FakeServer) -> None:
    fake.lost_answers = 3
    async with half.connect(fake.url, TOKEN) as client:
        accepted = await client.session(SESSION).prompt("hello")
    assert accepted["promptId"] == "p1"
    keys = {s.headers["idempotency-key"] for s in fake.seen}
    assert (fake.count("POST", "/prompt"), len(keys), len(fake.keys)) == (4, 1, 1)


async def test_two_prompts_have_two_keys(half: Half, fake: FakeServer) -> None:
    async with half.connect(fake.url, TOKEN) as client:
        session = client.session(SESSION)
        first, second = await session.prompt("a"), await session.prompt("a")
        third = await session.prompt("b", idempotency_key="mine")
        again = await session.prompt("b", idempotency_key="mine")
    assert first["promptId"] != second["promptId"]
    assert third == again


async def test_nobody_there(half: Half, fake: FakeServer) -> None:
    url = fake.url
    fake.close()
    async with half.connect(url, TOKEN) as client:
        with pytest.raises(ConnectionFailed, match="no connection to http://127"):
            await client.session(SESSION).info()


async def test_bodies_hold_what_was_said_and_nothing_else(half: Half, fake: FakeServer) -> None:
    async with half.connect(fake.url, TOKEN) as client:
        await client.create_session(cwd=pathlib.Path("/tmp"), mode="ask", allow=["run_shell(ls)"])
        session = await client.create_session()
        await session.prompt("see", attachments=[{"type": "file", "path": "a.txt"}])
        await session.close()
    bodies = [s.body for s in fake.seen]
    assert bodies[0] == {"cwd": "/tmp", "mode": "ask", "allow": ["run_shell(ls)"]}
    assert bodies[1] == {}
    assert bodies[2] == {"text": "see", "attachments": [{"type": "file", "path": "a.txt"}]}
    assert fake.seen[3].method == "DELETE"


async def test_closing_twice_does_no_harm(half: Half, fake: FakeServer) -> None:
    fake.refuse("DELETE", PATH, 404, "session_not_found")
    async with half.connect(fake.url, TOKEN) as client:
        await client.session(SESSION).close()


async def test_the_first_error_is_the_one_that_is_seen(half: Half, fake: FakeServer) -> None:
    fake.refuse("DELETE", PATH, 400, "validation_error")
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(LookupError, match="mine"):
            async with await client.create_session():
                raise LookupError("mine")


async def test_ids_are_segments(half: Half) -> None:
    seen: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path)
        return httpx.Response(200, json={"ok": True})

    transport = httpx.MockTransport(answer)
    async with half.connect("http://h/base/", TOKEN, transport=transport) as client:
        await client.session("a/../b?c").answer("r#1", narthex.deny())
    assert seen == [b"/base/v1/sessions/a%2F..%2Fb%3Fc/permissions/r%231"]


def test_connect_reads_the_file_of_the_home_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path))
    monkeypatch.delenv("NARTHEX_SERVER_TOKEN", raising=False)
    with pytest.raises(ConnectionFailed, match="server.json cannot be read"):
        narthex.connect()
    file = tmp_path / "server.json"
    file.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t", "pid": 1}))
    with narthex.connect() as client:
        assert client.url == "http://127.0.0.1:1"
        assert client._transport.settings.token == "t"
    with narthex.connect("http://127.0.0.1:1/") as client:
        assert client._transport.settings.token == "t"
    with pytest.raises(ConnectionFailed, match="no token for http://elsewhere"):
        narthex.connect("http://elsewhere")
    monkeypatch.setenv("NARTHEX_SERVER_TOKEN", "from the environment")
    with narthex.connect("http://elsewhere") as client:
        assert client._transport.settings.token == "from the environment"
    with narthex.connect() as client:
        assert client._transport.settings.token == "t"
    file.write_text("[]")
    with pytest.raises(ConnectionFailed, match="not the file of a server"):
        narthex.connect()


@pytest.mark.parametrize("name", ["NARTHEX_HOME", "NEURALINVERSE_CONFIG_DIR"])
def test_both_names_of_the_home_folder_are_known(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NARTHEX_HOME", raising=False)
    monkeypatch.setenv("NEURALINVERSE_CONFIG_DIR", "/nowhere")
    monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    with narthex.connect() as client:
        assert client.url == "http://127.0.0.1:1"


def test_a_token_is_not_shown() -> None:
    assert "s3cret" not in repr(Settings(url="http://h", token="s3cret"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.1.2.3", True), ("::1", True), ("example.com", False),
     ("10.0.0.1", False), ("localhost.example.com", False)],
)  # fmt: skip
def test_no_proxy_stands_between_two_programs_of_one_machine(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    shown = f"[{host}]" if ":" in host else host
    arguments = Settings(url=f"http://{shown}:1", token="t").client_arguments()
    assert arguments["trust_env"] is not loopback
