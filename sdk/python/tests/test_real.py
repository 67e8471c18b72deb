"""The package against the real program.

Needs NARTHEX_BIN and NARTHEX_MODEL_SERVER. CI sets NARTHEX_REAL=require, so that their absence
is an error there and a skip everywhere else.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import narthex
from narthex import ApiError, ServerDied
from test_process import is_alive

from both import Half
from fake import FAR, until
from real import MODEL, Daemon, ModelServer, Place, wait_for

NEEDED = ("NARTHEX_BIN", "NARTHEX_MODEL_SERVER")
MISSING = [name for name in NEEDED if not os.environ.get(name)]
if MISSING and os.environ.get("NARTHEX_REAL") == "require":
    raise RuntimeError(f"{' and '.join(MISSING)} must be set: NARTHEX_REAL=require")

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(MISSING), reason=f"NOT RUN: {' and '.join(MISSING)} not set"),
]


@pytest.fixture
def model(tmp_path: pathlib.Path) -> Iterator[ModelServer]:
    server = ModelServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def place(tmp_path: pathlib.Path, model: ModelServer) -> Place:
    return Place(tmp_path, model)


@pytest.fixture
def daemon(place: Place) -> Iterator[Daemon]:
    daemon = Daemon(place)
    yield daemon
    if daemon.child.poll() is None:
        daemon.stop()


def agent_options(place: Place, **more: Any) -> dict[str, Any]:
    return place.options(cwd=place.project, model=MODEL, mode="ask", **more)


async def test_the_example_of_an_agent(half: Half, place: Place, model: ModelServer) -> None:
    (place.project / "parser.ts").write_text("let x = 1\n")
    model.call("write_file", path="notes.md", content="one\n")
    model.call("run_shell", command="touch made")
    model.push(text="Fixed it.", deltas=3)
    asked: list[str] = []

    def on_permission(req: narthex.PermissionRequest) -> Any:
        asked.append(f"{req['toolName']}: {req['target']['summary']}")
        if req["target"]["effect"] == "write":
            return {"kind": "allow_once"}
        return {"kind": "deny", "feedback": "read-only please"}

    said: list[str] = []

    def on_event(e: narthex.Event) -> None:
        if e["type"] == "text_delta":
            said.append(e["text"])

    agent = await half.create_agent(**agent_options(place, on_permission=on_permission))
    try:
        result = await agent.prompt("Fix the failing test in parser.ts", on_event=on_event)
    finally:
        await agent.close()
    assert result.reason == "completed"
    assert result.usage.output_tokens > 0
    assert "".join(said) == result.text == "Fixed it."
    assert asked[0].startswith("write_file: ")
    assert "notes.md" in asked[0]
    assert "touch made" in asked[1]
    assert (place.project / "notes.md").read_text() == "one\n"
    assert not (place.project / "made").exists()


async def test_the_example_of_a_stream(half: Half, place: Place, model: ModelServer) -> None:
    model.push(text="It is about a narthex.", deltas=4)
    agent = await half.create_agent(**agent_options(place))
    async with agent:
        text = ""
        async for e in agent.stream("Summarize the README"):
            if e["type"] == "text_delta":
                text += e["text"]
        messages = await agent.messages()
    assert text == "It is about a narthex."
    assert [m["role"] for m in messages] == ["user", "assistant"]


async def test_without_a_callback_calls_are_denied(
    half: Half, place: Place, model: ModelServer
) -> None:
    model.call("run_shell", command="touch made")
    model.push(text="I may not.")
    async with await half.create_agent(**agent_options(place)) as agent:
        kinds = [e async for e in agent.stream("go")]
    denied = [e for e in kinds if e["type"] == "tool_denied"]
    assert [e["by"] for e in denied] == ["user"]
    assert not (place.project / "made").exists()


async def test_leaving_the_loop_early_interrupts(
    half: Half, place: Place, model: ModelServer
) -> None:
    model.push(text="word " * 200, deltas=200, delayMs=50)
    model.push(text="And now to something else.")
    async with await half.create_agent(**agent_options(place)) as agent:
        events = agent.stream("Tell me a long story")
        async for e in events:
            if e["type"] == "text_delta":
                break
        await events.aclose()
        result = await agent.prompt("Stop that")
        assert result.text == "And now to something else."
        infos = [e async for e in _replayed(agent.session, result)]
    assert [e["result"]["reason"] for e in infos] == ["interrupted", "completed"]


async def _replayed(session: Any, result: narthex.RunResult) -> Any:
    """All ends of prompts, from the log."""
    async with session.events(last_event_id=0) as events:
        async for event in events:
            if event["type"] == "prompt_finished":
                yield event
                if event["result"]["text"] == result.text:
                    return


async def test_an_agent_goes_on_with_a_stored_session_from_any_folder(
    half: Half, place: Place, model: ModelServer, tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model.push(text="Noted.")
    model.push(text="You said something.")
    monkeypatch.chdir(place.project.parent)
    options = agent_options(place)
    options["cwd"] = os.path.relpath(place.project)
    async with await half.create_agent(**options) as agent:
        assert (await agent.session.info())["cwd"] == str(place.project)
        await agent.prompt("Remember this")
        known = agent.session.id
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    del options["cwd"]
    async with await half.create_agent(**options, resume=known) as agent:
        assert (await agent.session.info())["cwd"] == str(place.project)
        assert (await agent.prompt("What did I say?")).text == "You said something."
        assert len(await agent.messages()) == 4
    with pytest.raises(ApiError, match="session_not_found"):
        await half.create_agent(**options, resume="01k0000000000000000000000a")


async def test_a_prompt_that_waits_is_withdrawn_and_no_other_is_met(
    half: Half, daemon: Daemon, model: ModelServer
) -> None:
    model.push(text="word " * 40, deltas=40, delayMs=50)
    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session()
        first = session.stream("first")
        assert (await first.__aiter__().__anext__())["type"] == "prompt_started"
        second = session.stream("second")
        async for event in second:
            assert event["type"] == "prompt_queued"
            break
        await second.close()
        rest = [e async for e in first]
        assert rest[-1]["result"]["reason"] == "completed"
        assert (await session.info())["queued"] == 0


async def test_a_run_outlives_a_server_that_is_stopped_and_started_again(
    half: Half, daemon: Daemon, place: Place, model: ModelServer
) -> None:
    model.call("run_shell", command="touch one")
    model.push(text="Finished in the next life.")

    def on_permission(req: Any) -> Any:
        daemon.stop()
        daemon.start()
        return narthex.allow_once()

    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="ask")
        events: list[Any] = []
        result = await asyncio.wait_for(
            session.run("go", on_event=events.append, on_permission=on_permission), FAR * 2
        )
    assert (result.reason, result.text) == ("completed", "Finished in the next life.")
    assert [e["reason"] for e in events if e["type"] == "session_closed"] == ["shutdown"]
    assert (place.project / "one").exists()


async def test_the_example_of_a_remote_client(
    half: Half, daemon: Daemon, place: Place, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.push(
        calls=[
            {
                "name": "ask_question",
                "args": {
                    "question": "Which database?",
                    "options": [
                        {"id": "pg", "label": "Postgres", "description": "the elephant"},
                        {"id": "my", "label": "MySQL"},
                    ],
                },
            }
        ]
    )
    model.call("write_file", path="form.ts", content="ok\n")
    model.push(text="Done.")
    monkeypatch.setenv("NARTHEX_HOME", str(place.home))
    async with half.connect() as client:
        assert client.url == daemon.url
        session = await client.create_session(cwd=place.project, mode="ask")
        result = await session.run(
            "Add input validation to the signup form",
            on_permission=lambda req: (
                {"answer": "allow_once"} if req["effect"] == "write" else {"answer": "deny"}
            ),
            on_question=lambda q: {"answer": {"answers": [q["options"][0]["label"]]}},
        )
        await session.close()
        with pytest.raises(ApiError) as gone:
            await session.info()
    assert result.reason == "completed"
    assert (place.project / "form.ts").exists()
    assert (gone.value.status, gone.value.code) == (404, "session_not_found")
    assert gone.value.request_id


async def test_rules_that_are_allowed_for_good_are_not_asked_for_again(
    half: Half, daemon: Daemon, place: Place, model: ModelServer
) -> None:
    for name in ("one", "two"):
        model.call("run_shell", command=f"touch {name}")
    model.push(text="Done.")
    asked: list[Any] = []

    def on_permission(req: Any) -> Any:
        asked.append(req)
        return narthex.allow_always("run_shell(touch *)")

    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="ask")
        await session.run("go", on_permission=on_permission)
    assert len(asked) == 1
    assert (place.project / "two").exists()


async def test_plans(half: Half, daemon: Daemon, place: Place, model: ModelServer) -> None:
    model.call("exit_plan", plan="# Plan\n\n1. write the file\n")
    model.call("write_file", path="new.txt", content="x\n")
    model.push(text="Done.")
    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="plan")
        await session.run("plan it", on_plan=lambda plan: narthex.approve("auto-edit"))
        assert (await session.info())["mode"] == "auto-edit"
    assert (place.project / "new.txt").exists()


async def test_a_callback_that_raises_leaves_an_idle_session(
    half: Half, daemon: Daemon, place: Place, model: ModelServer
) -> None:
    model.call("run_shell", command="touch made")
    model.push(text="never heard")

    def on_permission(req: Any) -> Any:
        raise LookupError("mine")

    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="ask")
        with pytest.raises(LookupError, match="mine"):
            await session.run("go", on_permission=on_permission)
        for _ in range(1000):
            if (await session.info())["state"] == "idle":
                break
            await asyncio.sleep(0.01)
        assert (await session.info())["state"] == "idle"
        assert await session.permissions() == []
    assert not (place.project / "made").exists()


async def test_everything_else_a_session_can_do(
    half: Half, daemon: Daemon, place: Place, model: ModelServer
) -> None:
    model.call("write_file", path="a.txt", content="first\n")
    model.push(text="Written.")
    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="auto-edit", title="all of it")
        await session.run("write")
        assert (await session.set_mode("ask"))["mode"] == "ask"
        assert (await session.set_model(MODEL))["model"] == MODEL
        assert (await session.messages())[0]["role"] == "user"
        everything = await session.messages()
        assert len(await session.messages(limit=1)) == 1
        assert await session.messages(after=everything[0]["id"]) == everything[1:]
        assert (await session.usage())["prompts"] == 1
        assert any(c["name"] == "undo" for c in await session.commands())
        assert await session.tasks() == []
        assert await session.interrupt() is False
        points = await session.checkpoints()
        assert len(points) == 1
        tried = await session.rewind(points[0]["id"], dry_run=True)
        assert len(tried["filesChanged"]) == 1
        fork = await session.fork()
        assert (await fork.info())["id"] != session.id
        assert (await session.undo())["undone"] is True
        assert not (place.project / "a.txt").exists()
        assert {s["id"] for s in await client.sessions()} == {session.id, fork.id}
        assert any(m["id"] for m in await client.models())
        assert (await client.health())["status"] == "ok"
        await session.close()
        again = await client.create_session(resume=session.id)
        assert again.id == session.id


async def test_stored_sessions_are_those_that_resume_can_open(half: Half, daemon: Daemon) -> None:
    async def stored() -> set[str]:
        return {s["id"] for s in await client.sessions(state="stored")}

    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session()
        assert session.id not in await stored()
        await session.close()
        assert session.id in await stored()
        await client.create_session(resume=session.id)
        assert session.id not in await stored()


async def test_what_all_sessions_do(half: Half, daemon: Daemon, model: ModelServer) -> None:
    model.push(text="Hello.")
    async with half.connect(daemon.url, daemon.token) as client, client.watch() as events:
        await events.open()
        session = await client.create_session()
        await session.prompt("go")
        seen: list[Any] = []
        async for event in events:
            seen.append(event)
            if event["type"] == "usage":
                break
    assert seen[0]["type"] == "snapshot_start"
    states = [e["state"] for e in seen if e["type"] == "session_state"]
    assert "running" in states
    assert {e["sessionId"] for e in seen if "sessionId" in e} == {session.id}


async def test_the_same_key_starts_one_prompt(
    half: Half, daemon: Daemon, model: ModelServer
) -> None:
    model.push(text="Once.")
    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session()
        async with session.events() as events:
            await events.open()
            first = await session.prompt("go", idempotency_key="k-1")
            second = await session.prompt("go", idempotency_key="k-1")
            assert first == second
            async for event in events:
                if event["type"] == "prompt_finished":
                    break
        assert (await session.usage())["prompts"] == 1


async def test_a_killed_server_that_comes_back_loses_nothing(
    half: Half, daemon: Daemon, place: Place, model: ModelServer
) -> None:
    model.call("run_shell", command="touch one")
    model.push(text="Finished after the crash.")
    asked: list[str] = []
    seen: list[Any] = []
    loop = asyncio.get_running_loop()
    restarted = asyncio.Event()

    def restart() -> None:
        daemon.kill()
        daemon.start()
        loop.call_soon_threadsafe(restarted.set)

    def on_event(event: Any) -> None:
        seen.append(event)

    def on_permission(req: Any) -> Any:
        asked.append(req["requestId"])
        restart()
        return narthex.allow_once()

    async with half.connect(daemon.url, daemon.token) as client:
        session = await client.create_session(mode="ask")
        result = await asyncio.wait_for(
            session.run("go", on_event=on_event, on_permission=on_permission), FAR * 2
        )
    assert restarted.is_set()
    assert (result.reason, result.text) == ("completed", "Finished after the crash.")
    assert len(asked) == 1
    assert (place.project / "one").exists()
    recorded = [e["seq"] for e in seen if e.get("seq") is not None]
    assert recorded == sorted(set(recorded))


async def test_a_server_of_ours_that_is_killed_is_told(
    half: Half, place: Place, model: ModelServer
) -> None:
    model.push(stall=True)
    async with await half.create_agent(**agent_options(place)) as agent:

        def on_event(event: Any) -> None:
            if event["type"] == "turn_start":
                os.kill(agent.runtime.pid, signal.SIGKILL)

        with pytest.raises(ServerDied, match="ended with -9"):
            await asyncio.wait_for(agent.prompt("go", on_event=on_event), FAR)


async def test_a_server_that_cannot_start_says_why(half: Half, place: Place) -> None:
    with pytest.raises(ServerDied, match="(?s)ended with 2.*nowhere"):
        await half.start_server(**place.options(roots=["/nowhere/at/all"]))


def test_the_agent_ends_with_its_parent(place: Place) -> None:
    code = textwrap.dedent(f"""
        import time
        import narthex
        agent = narthex.create_agent(
            cwd={str(place.project)!r}, model={MODEL!r}, home={str(place.home)!r},
            env={place.env!r})
        print(agent.runtime.pid, flush=True)
        time.sleep(60)
    """)
    env = {"PYTHONPATH": ":".join(sys.path), "NARTHEX_BIN": os.environ["NARTHEX_BIN"]}
    parent = subprocess.Popen(
        [sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True, env=env
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.communicate(timeout=FAR)
    until(lambda: not is_alive(pid), "the server to end with its parent")


def test_ctrl_c_stops_the_command_and_the_agent(place: Place, model: ModelServer) -> None:
    model.call("run_shell", command="touch began; sleep 300")
    code = textwrap.dedent(f"""
        import narthex
        with narthex.create_agent(
            cwd={str(place.project)!r}, model={MODEL!r}, home={str(place.home)!r},
            env={place.env!r}, mode="full-auto") as agent:
            print(agent.runtime.pid, flush=True)
            agent.prompt("go")
    """)
    env = {"PYTHONPATH": ":".join(sys.path), "NARTHEX_BIN": os.environ["NARTHEX_BIN"]}
    parent = subprocess.Popen(
        [sys.executable, "-B", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_for(place.project / "began")
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=FAR)
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert not is_alive(pid)


SESSIONS = 20


@pytest.fixture
def crowd(tmp_path: pathlib.Path) -> Iterator[ModelServer]:
    # The first route that fits counts: a conversation that has its result is at its end.
    routes = []
    for number in range(SESSIONS):
        routes.append(
            {"contains": f"made-{number:02}-done", "answer": {"text": f"end {number:02}"}}
        )
    for number in range(SESSIONS):
        command = f"echo made-{number:02}-done > file-{number:02}; cat file-{number:02}"
        call = {"name": "run_shell", "args": {"command": command}}
        routes.append({"contains": f"task {number:02}", "answer": {"calls": [call]}})
    server = ModelServer(tmp_path, routes)
    yield server
    server.close()


async def test_twenty_sessions_at_once(half: Half, crowd: ModelServer, tmp_path: Any) -> None:
    place = Place(tmp_path, crowd)
    async with await half.start_server(
        **place.options(roots=[place.project], model=MODEL)
    ) as server:

        async def one(number: int) -> None:
            async with await server.client.create_session(mode="ask") as session:
                result = await session.run(
                    f"task {number:02}", on_permission=lambda req: narthex.allow_once()
                )
                assert (result.reason, result.text) == ("completed", f"end {number:02}")

        await asyncio.gather(*(one(number) for number in range(SESSIONS)))
    assert len(list(place.project.glob("file-*"))) == SESSIONS
