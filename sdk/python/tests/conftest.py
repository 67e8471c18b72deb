from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from both import Half
from fake import FakeServer

sys.dont_write_bytecode = True


@pytest.fixture(params=["async", "sync"])
def half(request: pytest.FixtureRequest) -> Half:
    return Half(request.param)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def quick_waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts are a thousandth of what they are for people."""
    if "real" not in request.keywords:
        monkeypatch.setattr("narthex._backoff.FIRST_SECONDS", 0.0005)
        monkeypatch.setattr("narthex._backoff.WAIT_SECONDS_MAX", 0.008)
