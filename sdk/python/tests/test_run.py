"""Prompts from their start to their end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

import narthex
from narthex import ApiError, ProtocolError, SessionClosed

from both import Half
from fake import FAR, RESULT, SESSION, TOKEN, Connection, FakeServer

REQUESTS = {
    "permission_request": {"toolName": "run_shell", "effect": "execute"},
    "question_request": {"question": "Which?", "options": [{"id": "p", "label": "Postgres"}]},
    "plan_request": {"plan": "# Plan"},
}
DEFAULTS = {
    "permission_request": {"answer": "deny"},
    "question_request": {"answer": {"dismissed": True}},
    "plan_request": {"answer": {"approved": False}},
}
CALLBACKS = {
    "permission_request": "on_permission",
    "question_request": "on_question",
    "plan_request": "on_plan",
}


def asking(fake: FakeServer, kind: str = "permission_request") -> None:
    """The next prompt asks once before it ends."""

    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.asks(prompt, kind, "r1", **REQUESTS[kind])
        server.emit("request_resolved", requestId="r1")
        server.emit("prompt_finished", promptId=prompt, result=RESULT)

    fake.on_prompt = turn


async def run(half: Half, fake: FakeServer, **more: Any) -> narthex.RunResult:
    async with half.connect(fake.url, TOKEN) as client:
        result = await client.session(SESSION).run("hello", **more)
        assert isinstance(result, narthex.RunResult)
        return result


async def test_a_run_gives_its_events_and_its_result(half: Half, fake: FakeServer) -> None:
    events: list[Any] = []
    result = await run(half, fake, on_event=events.append)
    assert [e["type"] for e in events] == [
        "prompt_started", "text_delta", "text_delta", "text_delta", "prompt_finished"]  # fmt: skip
    assert result == narthex.RunResult(
        reason="completed",
        usage=narthex.Usage(input_tokens=5, output_tokens=7),
        cost_usd=0.25,
        text="done",
        turns=1,
        duration_ms=12,
        session_id=SESSION,
    )
    assert fake.count("POST", "/interrupt") == 0
    fake.wait_until_nobody_reads()


async def test_a_price_that_nobody_knows_is_none(half: Half, fake: FakeServer) -> None:
    fake.on_prompt = lambda server, prompt: server.turn(prompt, costUsd=None)
    assert (await run(half, fake)).cost_usd is None


async def test_a_run_over_connections_cut_at_every_frame(half: Half, fake: FakeServer) -> None:
    fake.connections.extend(Connection(frames=1) for _ in range(30))
    fake.on_prompt = lambda server, prompt: server.turn(prompt, texts=20)
    events: list[Any] = []
    await run(half, fake, on_event=events.append)
    assert events == fake.log
    assert fake.count("POST", "/prompt") == 1


async def test_the_stream_is_open_before_the_prompt_is_sent(half: Half, fake: FakeServer) -> None:
    await run(half, fake)
    order = [s.path.rpartition("/")[2] for s in fake.seen]
    assert order == [SESSION, "events", "prompt"]


async def test_a_lost_answer_to_the_prompt_does_not_start_it_twice(
    half: Half, fake: FakeServer
) -> None:
    fake.lost_answers = 2
    await run(half, fake)
    assert (len(fake.keys), fake.count("POST", "/prompt")) == (1, 3)


@pytest.mark.parametrize("kind", REQUESTS)
async def test_without_callbacks_the_answer_is_no(half: Half, fake: FakeServer, kind: str) -> None:
    asking(fake, kind)
    await run(half, fake)
    assert fake.answers == {"r1": DEFAULTS[kind]}


PERMISSION, QUESTION, PLAN = REQUESTS
ANSWERS: list[tuple[str, Any, dict[str, Any]]] = [
    (PERMISSION, narthex.allow_once(), {"answer": "allow_once"}),
    (PERMISSION, {"answer": "allow_once"}, {"answer": "allow_once"}),
    (PERMISSION, {"kind": "allow_once"}, {"answer": "allow_once"}),
    (PERMISSION, narthex.allow_always(), {"answer": "allow_always", "persist": "session"}),
    (
        PERMISSION,
        narthex.allow_always("run_shell(ls *)", persist="project"),
        {"answer": "allow_always", "rule": "run_shell(ls *)", "persist": "project"},
    ),
    (PERMISSION, narthex.deny("no"), {"answer": "deny", "feedback": "no"}),
    (PERMISSION, {"kind": "deny", "feedback": "no"}, {"answer": "deny", "feedback": "no"}),
    (PERMISSION, None, {"answer": "deny"}),
    (
        QUESTION,
        narthex.choose("Postgres", other="with pgvector"),
        {"answer": {"answers": ["Postgres"], "other": "with pgvector"}},
    ),
    (QUESTION, narthex.dismiss(), {"answer": {"dismissed": True}}),
    (PLAN, narthex.approve("auto-edit"), {"answer": {"approved": True, "mode": "auto-edit"}}),
    (PLAN, narthex.approve(), {"answer": {"approved": True}}),
    (PLAN, narthex.reject("split"), {"answer": {"approved": False, "feedback": "split"}}),
]


@pytest.mark.parametrize(("kind", "given", "sent"), ANSWERS)
async def test_callbacks_answer(
    half: Half, fake: FakeServer, kind: str, given: Any, sent: dict[str, Any]
) -> None:
    asking(fake, kind)
    asked: list[Any] = []

    def callback(request: Any) -> Any:
        asked.append(request)
        return given

    result = await run(half, fake, **{CALLBACKS[kind]: callback})
    assert result.reason == "completed"
    assert fake.answers == {"r1": sent}
    assert [r["requestId"] for r in asked] == ["r1"]
    assert all(asked[0][key] == value for key, value in REQUESTS[kind].items())


async def test_callbacks_may_be_asynchronous(fake: FakeServer) -> None:
    asking(fake)
    seen: list[str] = []

    async def on_event(event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event["type"])

    async def on_permission(request: Any) -> Any:
        await asyncio.sleep(0)
        return narthex.allow_once()

    await run(Half("async"), fake, on_event=on_event, on_permission=on_permission)
    assert fake.answers == {"r1": {"answer": "allow_once"}}
    assert seen[-1] == "prompt_finished"


@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_callback_that_raises_ends_the_prompt(
    half: Half, fake: FakeServer, kind: str
) -> None:
    asking(fake, kind)

    def callback(request: Any) -> Any:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await run(half, fake, **{CALLBACKS[kind]: callback})
    assert fake.answers == {"r1": DEFAULTS[kind]}
    assert fake.count("POST", "/interrupt") == 1
    fake.wait_until_nobody_reads()


async def test_errors_of_this_package_in_callbacks_are_the_callers_too(
    half: Half, fake: FakeServer
) -> None:
    asking(fake)

    def callback(request: Any) -> Any:
        raise ApiError(503, "elsewhere", "another server")

    with pytest.raises(ApiError, match="elsewhere"):
        await run(half, fake, on_permission=callback)
    assert fake.answers == {"r1": {"answer": "deny"}}
    assert fake.count("POST", "/interrupt") == 1


@pytest.mark.parametrize("given", ["allow_once", True, {}, {"answer": {"approved": True}}, 7])
async def test_what_is_no_answer_is_an_error_of_the_callback(
    half: Half, fake: FakeServer, given: Any
) -> None:
    asking(fake)
    with pytest.raises(TypeError, match=r"has to return allow_once\(\)"):
        await run(half, fake, on_permission=lambda request: given)
    assert fake.answers == {"r1": {"answer": "deny"}}
    assert fake.count("POST", "/interrupt") == 1


async def test_an_event_callback_that_raises_ends_the_prompt(half: Half, fake: FakeServer) -> None:
    def on_event(event: Any) -> None:
        if event["type"] == "text_delta":
            raise LookupError("mine")

    fake.on_prompt = unfinished
    with pytest.raises(LookupError, match="mine"):
        await run(half, fake, on_event=on_event)
    assert fake.count("POST", "/interrupt") == 1


def unfinished(server: FakeServer, prompt: str) -> None:
    """A turn that goes on for ever."""
    server.emit("prompt_started", promptId=prompt)
    server.emit("text_delta", text="a")


async def test_an_answer_that_comes_second_is_no_error(half: Half, fake: FakeServer) -> None:
    asking(fake)

    def callback(request: Any) -> Any:
        fake.answers["r1"] = {"answer": "deny"}
        with fake.changed:
            fake.changed.notify_all()
        return narthex.allow_once()

    assert (await run(half, fake, on_permission=callback)).reason == "completed"
    assert fake.answers == {"r1": {"answer": "deny"}}


async def test_requests_of_other_prompts_are_left_to_others(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("permission_request", requestId="theirs", **REQUESTS["permission_request"])
        server.emit("prompt_finished", promptId="another", result=RESULT)
        server.emit("prompt_started", promptId=prompt)
        server.asks(prompt, "permission_request", "ours")
        server.emit("prompt_finished", promptId=prompt, result={**RESULT, "text": "ours"})

    fake.emit("prompt_started", promptId="another")
    queued(fake, turn)
    result = await run(half, fake)
    assert result.text == "ours"
    assert list(fake.answers) == ["ours"]


def queued(fake: FakeServer, turn: Any) -> None:
    """The next prompt is queued behind one that runs; `turn` is what happens then."""
    fake.session = {"state": "running", "queued": 0}
    fake.queued = True
    fake.on_prompt = turn


async def test_leaving_a_stream_early_interrupts(half: Half, fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).stream("hello")
        async for event in events:
            if event["type"] == "text_delta":
                break
        await events.aclose()
        assert fake.count("POST", "/interrupt") == 1
        fake.wait_until_nobody_reads()


async def test_leaving_a_loop_early_interrupts_without_more_ado(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    async with Half("async").connect(fake.url, TOKEN) as client:
        async for event in client.session(SESSION).stream("hello"):
            if event["type"] == "text_delta":
                break
        await asyncio.to_thread(fake.wait_for, "POST", "/interrupt")
        await asyncio.to_thread(fake.wait_until_nobody_reads)


def test_leaving_a_plain_loop_early_interrupts_at_once(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    with narthex.connect(fake.url, TOKEN) as client:
        for event in client.session(SESSION).stream("hello"):
            if event["type"] == "text_delta":
                break
        assert fake.count("POST", "/interrupt") == 1


async def test_a_stream_that_is_read_to_its_end_interrupts_nothing(
    half: Half, fake: FakeServer
) -> None:
    async with half.connect(fake.url, TOKEN) as client:
        kinds = [e["type"] async for e in client.session(SESSION).stream("hello")]
    assert kinds[-1] == "prompt_finished"
    assert fake.count("POST", "/interrupt") == 0


async def test_a_prompt_that_still_waits_is_withdrawn(half: Half, fake: FakeServer) -> None:
    queued(fake, lambda server, prompt: server.emit("prompt_queued", promptId=prompt, position=1))
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).stream("hello")
        async for _ in events:
            break
        await events.close()
    assert fake.interrupted() == [{"promptId": "p1"}]


async def test_leaving_at_the_own_end_interrupts_nobody(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.emit("done", **RESULT)

    fake.on_prompt = turn
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).stream("hello")
        async for event in events:
            if event["type"] == "done":
                break
        await events.close()
    assert fake.interrupted() == []


async def test_the_end_of_another_prompt_is_not_ours(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("done", **RESULT)
        server.emit("prompt_finished", promptId="another", result=RESULT)
        unfinished(server, prompt)

    queued(fake, turn)
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).stream("hello")
        async for event in events:
            assert event["type"] == "prompt_started"
            break
        await events.close()
    assert fake.interrupted() == [{"promptId": "p1"}]


async def test_a_prompt_that_is_cut_off_while_it_is_sent_is_stopped_too(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    fake.hold_prompts.clear()
    task = asyncio.create_task(run(Half("async"), fake))
    await asyncio.to_thread(fake.wait_for, "POST", "/prompt")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(fake.keys) == 1
    assert fake.interrupted() == [{"promptId": "p1"}]


async def test_a_prompt_that_is_refused_is_not_interrupted(half: Half, fake: FakeServer) -> None:
    fake.refuse("POST", f"/v1/sessions/{SESSION}/prompt", 429, "queue_full")
    with pytest.raises(ApiError, match="queue_full"):
        await run(half, fake)
    assert fake.interrupted() == []


async def test_only_the_own_events_are_shown(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_queued", promptId=prompt, position=1)
        server.emit("text_delta", text="theirs")
        server.emit("prompt_finished", promptId="another", result=RESULT)
        server.turn(prompt, texts=1)

    queued(fake, turn)
    seen: list[Any] = []
    await run(half, fake, on_event=seen.append)
    assert [(e["type"], e.get("text")) for e in seen] == [
        ("prompt_queued", None), ("prompt_started", None), ("text_delta", "0 "),
        ("prompt_finished", None)]  # fmt: skip


async def test_another_prompt_that_begins_shows_that_the_end_was_missed(
    half: Half, fake: FakeServer
) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.emit("prompt_started", promptId="another")

    fake.on_prompt = turn
    with pytest.raises(ProtocolError, match="was missed"):
        await run(half, fake)
    assert fake.interrupted() == []


async def test_a_server_that_stops_and_comes_back_is_no_end(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.emit("session_closed", reason="shutdown")
        server.emit("prompt_finished", promptId=prompt, result={**RESULT, "unanswered": 2})

    fake.connections.extend([Connection(frames=2, ends=True), Connection(status=503)])
    fake.on_prompt = turn
    result = await run(half, fake)
    assert (result.reason, result.unanswered) == ("completed", 2)


async def test_an_answer_that_is_refused_becomes_a_no_that_says_why(
    half: Half, fake: FakeServer
) -> None:
    asking(fake)
    path = f"/v1/sessions/{SESSION}/permissions/r1"
    fake.refuse("POST", path, 400, "validation_error")
    given = narthex.allow_always("run_shell((")
    assert (await run(half, fake, on_permission=lambda request: given)).reason == "completed"
    why = "the answer could not be taken: refused with validation_error"
    assert fake.answers == {"r1": {"answer": "deny", "feedback": why}}


async def test_an_answer_is_repeated_for_as_long_as_the_stream_is_tried(
    half: Half, fake: FakeServer
) -> None:
    asking(fake)
    for _ in range(20):
        fake.refuse("POST", f"/v1/sessions/{SESSION}/permissions/r1", 503, "shutting_down")
    result = await run(half, fake, on_permission=lambda request: narthex.allow_once())
    assert result.reason == "completed"
    assert fake.answers == {"r1": {"answer": "allow_once"}}


async def test_an_answer_that_never_gets_through_ends_the_run(half: Half, fake: FakeServer) -> None:
    asking(fake)
    for _ in range(10_000):
        fake.refuse("POST", f"/v1/sessions/{SESSION}/permissions/r1", 503, "shutting_down")
    async with half.connect(fake.url, TOKEN, give_up_after=0.1) as client:
        with pytest.raises(ApiError, match="shutting_down"):
            await client.session(SESSION).run("hello")
    assert fake.interrupted() == [{"promptId": "p1"}]


async def test_several_are_asked_at_once(fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        for request in ("r1", "r2"):
            server.emit("permission_request", requestId=request)
        for request in ("r1", "r2"):
            server.answer_of(request)
        server.emit("prompt_finished", promptId=prompt, result=RESULT)

    fake.on_prompt = turn
    both = asyncio.Event()
    asked: list[str] = []

    async def on_permission(request: Any) -> Any:
        asked.append(request["requestId"])
        if len(asked) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), FAR)
        return narthex.allow_once()

    await run(Half("async"), fake, on_permission=on_permission)
    assert set(fake.answers) == {"r1", "r2"}


@pytest.mark.parametrize("how", ["resolved", "finished"])
async def test_who_is_asked_for_nothing_any_more_is_cancelled(fake: FakeServer, how: str) -> None:
    asked, cancelled = threading.Event(), asyncio.Event()

    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.emit("permission_request", requestId="r1")
        asked.wait(FAR)
        if how == "resolved":
            server.emit("request_resolved", requestId="r1")
            server.answer_of("the test has seen it")
        server.emit("prompt_finished", promptId=prompt, result=RESULT)

    async def on_permission(request: Any) -> Any:
        asked.set()
        try:
            await asyncio.sleep(FAR)
        except asyncio.CancelledError:
            fake.answers["the test has seen it"] = cancelled.set()
            with fake.changed:
                fake.changed.notify_all()
            raise

    fake.on_prompt = turn
    result = await asyncio.wait_for(run(Half("async"), fake, on_permission=on_permission), FAR / 2)
    assert (result.reason, cancelled.is_set()) == ("completed", True)
    assert fake.count("POST", "/permissions/r1") == 0


async def test_a_callback_that_raises_ends_the_prompt_while_nothing_else_comes(
    fake: FakeServer,
) -> None:
    asking(fake)

    async def on_permission(request: Any) -> Any:
        await asyncio.sleep(0.05)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await asyncio.wait_for(run(Half("async"), fake, on_permission=on_permission), FAR / 2)
    assert fake.interrupted() == [{"promptId": "p1"}]


async def test_a_run_may_be_closed_while_somebody_waits_for_its_next_event(
    half: Half, fake: FakeServer
) -> None:
    fake.on_prompt = unfinished
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).stream("hello")
        seen: list[str] = []
        waits = asyncio.Event()

        async def read() -> None:
            async for event in events:
                seen.append(event["type"])
                if event["type"] == "text_delta":
                    waits.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(waits.wait(), FAR)
        await asyncio.sleep(0.05)
        await asyncio.wait_for(events.close(), FAR / 2)
        await asyncio.wait_for(task, FAR)
        assert seen == ["prompt_started", "text_delta"]
        assert fake.interrupted() == [{"promptId": "p1"}]
        fake.wait_until_nobody_reads()


async def test_the_error_of_the_caller_is_seen_though_cleaning_up_fails(
    half: Half, fake: FakeServer
) -> None:
    fake.on_prompt = unfinished
    client = half.connect(fake.url, TOKEN)
    reads = client.session(SESSION).stream("hello")
    with pytest.raises(LookupError, match="mine"):
        async with reads as events:
            async for _ in events:
                await client.close()
                raise LookupError("mine")


async def test_cancelled_twice_it_is_cancelled(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    started = asyncio.Event()
    task = asyncio.create_task(run(Half("async"), fake, on_event=lambda event: started.set()))
    await asyncio.wait_for(started.wait(), FAR)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(fake.wait_for, "POST", "/interrupt")


def test_callbacks_of_a_prompt_come_before_those_of_the_agent(fake: FakeServer) -> None:
    asking(fake)
    with narthex.connect(fake.url, TOKEN) as client:
        ours = {"on_permission": lambda request: narthex.deny("agent's"), "on_question": None}
        runtime: Any = None
        agent = narthex.Agent(runtime, client.session(SESSION), {**ours, "on_plan": None})
        agent.prompt("hello", on_permission=lambda request: narthex.allow_once())
        assert fake.answers.pop("r1") == {"answer": "allow_once"}
        for _ in agent.stream("hello"):
            pass
        assert fake.answers.pop("r1") == {"answer": "deny", "feedback": "agent's"}


async def test_cancelling_the_task_interrupts(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    started = asyncio.Event()

    def on_event(event: Any) -> None:
        started.set()

    task = asyncio.create_task(run(Half("async"), fake, on_event=on_event))
    await asyncio.wait_for(started.wait(), FAR)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fake.count("POST", "/interrupt") == 1


async def test_a_time_limit_interrupts(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(run(Half("async"), fake), 0.3)
    assert fake.count("POST", "/interrupt") == 1


async def test_cancelling_a_run_cancels_its_callback_and_interrupts(fake: FakeServer) -> None:
    asking(fake)
    asked = asyncio.Event()

    async def on_permission(request: Any) -> Any:
        asked.set()
        await asyncio.sleep(FAR)

    task = asyncio.create_task(run(Half("async"), fake, on_permission=on_permission))
    await asyncio.wait_for(asked.wait(), FAR)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fake.answers == {}
    assert fake.interrupted() == [{"promptId": "p1"}]


def test_ctrl_c_interrupts(fake: FakeServer) -> None:
    fake.on_prompt = unfinished
    program = textwrap.dedent(f"""
        import narthex
        client = narthex.connect({fake.url!r}, {TOKEN!r})
        client.session({SESSION!r}).run("hello", on_event=lambda e: print(e["type"], flush=True))
    """)
    child = subprocess.Popen(
        [sys.executable, "-B", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert child.stdout is not None
    while child.stdout.readline().strip() != "text_delta":
        assert child.poll() is None, child.communicate()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=FAR)
    assert "KeyboardInterrupt" in errors
    assert fake.count("POST", "/interrupt") == 1


async def test_a_session_that_is_closed_meanwhile_is_an_error(half: Half, fake: FakeServer) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        unfinished(server, prompt)
        server.emit("session_closed", reason="deleted")

    fake.on_prompt = turn
    with pytest.raises(SessionClosed, match="deleted") as raised:
        await run(half, fake)
    assert raised.value.reason == "deleted"
    assert fake.count("POST", "/interrupt") == 0


async def test_a_session_that_is_gone_is_an_error_before_anything_is_sent(
    half: Half, fake: FakeServer
) -> None:
    fake.refuse("GET", f"/v1/sessions/{SESSION}/events", 404, "session_not_found")
    with pytest.raises(ApiError, match="session_not_found"):
        await run(half, fake)
    assert fake.count("POST", "/prompt") == 0


async def test_an_end_that_fell_into_a_gap_is_an_error_and_no_wait_for_ever(
    half: Half, fake: FakeServer
) -> None:
    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)

    gap = b'event: replay_gap\ndata: {"type":"replay_gap","from":2,"to":9,"dropped":8}\n\n'
    fake.on_prompt = turn
    fake.connections.extend([Connection(frames=1), Connection(before=gap)])

    def on_event(event: Any) -> None:
        if event["type"] == "replay_gap":
            fake.emit("prompt_finished", promptId="another", result=RESULT)

    with pytest.raises(ProtocolError, match="was missed"):
        await run(half, fake, on_event=on_event)


async def test_a_request_that_fell_into_a_gap_is_answered(half: Half, fake: FakeServer) -> None:
    gap = b'event: replay_gap\ndata: {"type":"replay_gap","from":2,"to":9,"dropped":8}\n\n'
    request = {"type": "permission_request", "requestId": "lost", "toolName": "run_shell"}

    def turn(server: FakeServer, prompt: str) -> None:
        server.emit("prompt_started", promptId=prompt)
        server.answer_of("lost")
        server.emit("prompt_finished", promptId=prompt, result=RESULT)

    fake.on_prompt = turn
    fake.session = {"state": "waiting", "queued": 0, "pendingRequests": 1}
    fake.pending = [request]
    fake.connections.extend([Connection(frames=1), Connection(before=gap)])
    await run(half, fake, on_permission=lambda request: narthex.allow_once())
    assert fake.answers == {"lost": {"answer": "allow_once"}}


async def test_a_gap_within_a_prompt_does_not_end_it(half: Half, fake: FakeServer) -> None:
    gap = b'event: replay_gap\ndata: {"type":"replay_gap","from":2,"to":9,"dropped":8}\n\n'
    fake.connections.extend([Connection(frames=1), Connection(before=gap)])
    fake.session = {"state": "running", "queued": 0}
    assert (await run(half, fake)).reason == "completed"


async def test_a_result_that_is_not_as_agreed_is_an_error(half: Half, fake: FakeServer) -> None:
    fake.on_prompt = lambda server, prompt: server.turn(prompt, usage=None)
    with pytest.raises(ProtocolError, match="not as agreed"):
        await run(half, fake)
