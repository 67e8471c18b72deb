"""Event streams over connections that break."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from narthex import ApiError, ClientClosed, ConnectionFailed, ProtocolError

from both import Half
from fake import FAR, SESSION, TOKEN, Connection, FakeServer

CLOSED = {"reason": "deleted"}


def filled(fake: FakeServer, count: int = 12) -> None:
    for number in range(count - 1):
        fake.emit("text_delta", text=f"grüße {number}")
    fake.emit("session_closed", **CLOSED)


async def all_of(half: Half, fake: FakeServer, **more: Any) -> list[dict[str, Any]]:
    async with half.connect(fake.url, TOKEN, **more) as client:
        return [e async for e in client.session(SESSION).events(last_event_id=0)]


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [e["text"] for e in events if e["type"] == "text_delta"]


async def test_it_gives_every_event_and_ends_with_the_session(half: Half, fake: FakeServer) -> None:
    filled(fake)
    events = await all_of(half, fake)
    assert events == fake.log


@pytest.mark.parametrize("how", ["broken", "reset", "ends"])
async def test_cut_after_every_frame_nothing_is_lost_or_doubled(
    half: Half, fake: FakeServer, how: str
) -> None:
    filled(fake)
    plan = {"broken": {}, "reset": {"reset": True}, "ends": {"ends": True}}[how]
    fake.connections.extend(Connection(frames=1, **plan) for _ in fake.log[:-1])
    assert await all_of(half, fake) == fake.log
    asked = [s.headers.get("last-event-id") for s in fake.seen if s.path.endswith("/events")]
    assert asked == [str(n) for n in range(12)]


@pytest.mark.parametrize("bytes_sent", [1, 7, 50])
async def test_writes_may_be_cut_anywhere(half: Half, fake: FakeServer, bytes_sent: int) -> None:
    filled(fake, 4)
    fake.connections.append(Connection(split=bytes_sent))
    assert await all_of(half, fake) == fake.log


async def test_what_is_sent_twice_is_given_once(half: Half, fake: FakeServer) -> None:
    filled(fake)
    fake.connections.extend([Connection(frames=5), Connection(from_start=True)])
    assert await all_of(half, fake) == fake.log


async def test_half_a_frame_is_dropped_and_comes_again(half: Half, fake: FakeServer) -> None:
    filled(fake, 3)
    half_a_frame = b'id: 1\nevent: text_delta\ndata: {"type":"text_delta","text":"gr'
    fake.connections.append(Connection(before=half_a_frame, frames=0))
    assert await all_of(half, fake) == fake.log


async def test_a_gap_is_shown_and_is_no_position(half: Half, fake: FakeServer) -> None:
    filled(fake, 3)
    gap = b'event: replay_gap\ndata: {"type":"replay_gap","from":1,"to":9,"dropped":9}\n\n'
    fake.connections.append(Connection(before=gap, frames=0))
    events = await all_of(half, fake)
    assert events[0] == {"type": "replay_gap", "from": 1, "to": 9, "dropped": 9}
    assert events[1:] == fake.log


async def test_events_of_newer_servers_are_passed_on(half: Half, fake: FakeServer) -> None:
    fake.emit("brand_new", shiny={"deep": [1, None]})
    fake.emit("session_closed", **CLOSED)
    assert (await all_of(half, fake))[0]["shiny"] == {"deep": [1, None]}


async def test_a_busy_server_is_asked_again(half: Half, fake: FakeServer) -> None:
    filled(fake, 2)
    fake.connections.extend(Connection(status=503) for _ in range(3))
    assert await all_of(half, fake) == fake.log


async def test_retry_after_is_obeyed(half: Half, fake: FakeServer) -> None:
    filled(fake, 2)
    fake.connections.append(Connection(status=503, headers={"retry-after": "0.3"}))
    began = time.monotonic()
    assert await all_of(half, fake) == fake.log
    assert time.monotonic() - began >= 0.3


async def test_silence_counts_as_death(half: Half, fake: FakeServer) -> None:
    filled(fake, 4)
    fake.connections.append(Connection(frames=2, silent=True))
    assert await all_of(half, fake, silence=0.2) == fake.log


async def test_heartbeats_keep_a_quiet_stream_alive(half: Half, fake: FakeServer) -> None:
    fake.emit("text_delta", text="a")
    async with half.connect(fake.url, TOKEN, silence=0.5) as client:
        events = client.session(SESSION).events(last_event_id=0)
        it = events.__aiter__()
        assert (await it.__anext__())["text"] == "a"
        # Twice the patience, of which the server uses up a twentieth between its heartbeats.
        late = asyncio.get_running_loop().call_later(1.0, lambda: fake.emit("session_closed"))
        assert (await it.__anext__())["type"] == "session_closed"
        late.cancel()
        await events.close()
    assert fake.count("GET", "/events") == 1


@pytest.mark.parametrize(
    ("status", "code"), [(401, "unauthorized"), (403, "forbidden"), (404, "session_not_found")]
)
async def test_a_refusal_ends_the_stream(
    half: Half, fake: FakeServer, status: int, code: str
) -> None:
    filled(fake, 3)
    fake.connections.append(Connection(frames=1))
    path = f"/v1/sessions/{SESSION}/events"
    got = []
    async with half.connect(fake.url, TOKEN) as client:
        with pytest.raises(ApiError) as raised:
            async for event in client.session(SESSION).events(last_event_id=0):
                got.append(event)
                fake.refuse("GET", path, status, code)
    assert got == fake.log[:1]
    assert (raised.value.status, raised.value.code) == (status, code)


async def test_a_server_that_stays_away_is_given_up(half: Half, fake: FakeServer) -> None:
    filled(fake, 3)
    fake.connections.append(Connection(frames=2))
    fake.connections.extend(Connection(frames=0) for _ in range(10_000))
    with pytest.raises(ConnectionFailed, match="the stream ended|incomplete|closed|reset"):
        await all_of(half, fake, give_up_after=0.05)
    assert fake.count("GET", "/events") > 2


async def test_progress_starts_the_count_anew(half: Half, fake: FakeServer) -> None:
    filled(fake)
    for _ in fake.log:
        fake.connections.extend([Connection(frames=0), Connection(frames=1)])
    began = time.monotonic()
    assert await all_of(half, fake, give_up_after=0.5) == fake.log
    assert time.monotonic() - began < FAR


async def test_without_a_position_only_new_events_come(half: Half, fake: FakeServer) -> None:
    fake.emit("text_delta", text="old")
    async with half.connect(fake.url, TOKEN) as client, client.session(SESSION).events() as events:
        await events.open()
        fake.emit("text_delta", text="new")
        fake.emit("session_closed", **CLOSED)
        assert texts([e async for e in events]) == ["new"]
        assert events.last_event_id == 3


async def test_no_event_is_lost_though_none_had_come_before_the_cut(
    half: Half, fake: FakeServer
) -> None:
    fake.emit("text_delta", text="old")
    fake.connections.append(Connection(frames=0))
    async with half.connect(fake.url, TOKEN) as client, client.session(SESSION).events() as events:
        await events.open()
        fake.emit("text_delta", text="new")
        fake.emit("session_closed", **CLOSED)
        assert texts([e async for e in events]) == ["new"]


async def test_leaving_the_loop_closes_the_stream(half: Half, fake: FakeServer) -> None:
    fake.emit("text_delta", text="a")
    async with half.connect(fake.url, TOKEN) as client:
        async with client.session(SESSION).events(last_event_id=0) as events:
            async for _ in events:
                assert fake.open_streams == 1
                break
        fake.wait_until_nobody_reads()


async def test_the_end_of_a_former_life_is_not_the_end(half: Half, fake: FakeServer) -> None:
    fake.emit("session_closed", reason="shutdown")
    fake.emit("text_delta", text="a later life")
    fake.emit("session_closed", **CLOSED)
    fake.connections.append(Connection(frames=1))
    assert await all_of(half, fake) == fake.log


async def test_a_server_that_stops_may_come_back(half: Half, fake: FakeServer) -> None:
    fake.emit("session_closed", reason="shutdown")
    fake.connections.append(Connection(frames=1, ends=True))
    async with half.connect(fake.url, TOKEN) as client:
        got = []
        async with client.session(SESSION).events(last_event_id=0) as events:
            async for event in events:
                got.append(event["type"])
                if len(got) == 1:
                    fake.emit("text_delta", text="a later life")
                    fake.emit("session_closed", **CLOSED)
    assert got == ["session_closed", "text_delta", "session_closed"]


GARBLED = [b"id: 1\ndata: {nonsense\n\n", b"id: 1\ndata: [1]\n\n"]


@pytest.mark.parametrize("data", GARBLED)
async def test_what_is_no_event_once_comes_again(half: Half, fake: FakeServer, data: bytes) -> None:
    filled(fake, 3)
    fake.connections.append(Connection(before=data))
    assert await all_of(half, fake) == fake.log


@pytest.mark.parametrize("data", GARBLED)
async def test_what_is_no_event_twice_is_an_error(
    half: Half, fake: FakeServer, data: bytes
) -> None:
    filled(fake, 3)
    fake.connections.extend([Connection(before=data), Connection(before=data)])
    with pytest.raises(ProtocolError, match="of the stream is no"):
        await all_of(half, fake)
    assert fake.count("GET", "/events") == 2


async def test_a_stream_may_be_closed_while_somebody_waits_for_its_next_event(
    half: Half, fake: FakeServer
) -> None:
    fake.emit("text_delta", text="a")
    async with half.connect(fake.url, TOKEN) as client:
        events = client.session(SESSION).events(last_event_id=0)
        seen = asyncio.Event()

        async def read() -> None:
            async for _ in events:
                seen.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(seen.wait(), FAR)
        await asyncio.sleep(0.05)
        await asyncio.wait_for(events.close(), FAR / 2)
        await asyncio.wait_for(task, FAR)
        fake.wait_until_nobody_reads()


async def test_the_position_is_looked_up_again_with_the_stream(
    half: Half, fake: FakeServer
) -> None:
    for _ in range(8):
        fake.refuse("GET", f"/v1/sessions/{SESSION}", 503, "shutting_down")
    async with half.connect(fake.url, TOKEN) as client, client.session(SESSION).events() as events:
        await events.open()
    assert fake.count("GET", SESSION) == 9


async def test_a_stream_of_a_closed_client_says_so(half: Half, fake: FakeServer) -> None:
    client = half.connect(fake.url, TOKEN)
    await client.close()
    with pytest.raises(ClientClosed):
        async for _ in client.session(SESSION).events():
            pass


async def test_an_answer_that_is_no_stream_is_an_error(half: Half, fake: FakeServer) -> None:
    path = f"/v1/sessions/{SESSION}/events"
    fake.refuse("GET", path, 200, "what")
    with pytest.raises(ProtocolError, match="no event stream"):
        await all_of(half, fake)


async def test_cancelling_the_task_closes_the_stream(fake: FakeServer) -> None:
    fake.emit("text_delta", text="a")
    seen = asyncio.Event()

    async def read() -> None:
        async with Half("async").connect(fake.url, TOKEN) as client:
            async for _ in client.session(SESSION).events(last_event_id=0):
                seen.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(seen.wait(), FAR)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(fake.wait_until_nobody_reads)


async def test_an_abandoned_loop_closes_the_stream_by_itself(fake: FakeServer) -> None:
    fake.emit("text_delta", text="a")
    async with Half("async").connect(fake.url, TOKEN) as client:
        async for _ in client.session(SESSION).events(last_event_id=0):
            break
        await asyncio.to_thread(fake.wait_until_nobody_reads)


async def test_what_all_sessions_do_begins_anew_after_a_cut(half: Half, fake: FakeServer) -> None:
    snapshot = b'event: snapshot_start\ndata: {"type":"snapshot_start","reason":"connected"}\n\n'
    fake.connections.extend(Connection(before=snapshot, frames=0) for _ in range(4))
    client = half.connect(fake.url, TOKEN)
    async with client, client.watch(["state", "usage"]) as events:
        count = 0
        async for event in events:
            assert event["type"] == "snapshot_start"
            count += 1
            if count == 4:
                break
        assert events.last_event_id is None
    asked = [s for s in fake.seen if "/events" in s.path]
    assert {s.path for s in asked} == {"/v1/events?topics=state,usage"}
    assert not any("last-event-id" in s.headers for s in asked)
