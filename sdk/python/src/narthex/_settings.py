"""How a client talks to its server."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from ._errors import NarthexError
from ._version import __version__

REQUEST_SECONDS = 60.0
"""How long an answer may take; all of them are quick, a prompt's too: it is only taken in."""

SILENCE_SECONDS = 45.0
"""How long a stream may be silent: three heartbeats. Then it counts as dead."""

CONNECT_SECONDS = 10.0
"""How long a connection may take to come about."""

REQUEST_RETRIES_MAX = 4
"""Repetitions of a request that may be repeated: five attempts with the first."""

GIVE_UP_SECONDS = 120.0
"""How long a stream, and an answer within a run, is tried without progress: a restart fits."""

BODY_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of one answer: 1,000 messages with images fit, a runaway peer does not."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The address and the patience of a client."""

    url: str
    token: str = field(repr=False)
    timeout: float = REQUEST_SECONDS
    silence: float = SILENCE_SECONDS
    retries: int = REQUEST_RETRIES_MAX
    give_up_after: float = GIVE_UP_SECONDS
    death: Callable[[], NarthexError | None] | None = None

    def client_arguments(self) -> dict[str, Any]:
        """Returns what both kinds of HTTP clients are made with."""
        where = httpx.URL(self.url)
        return {
            "base_url": self.url.rstrip("/") + "/v1",
            "headers": {
                "authorization": f"Bearer {self.token}",
                "user-agent": f"narthex-sdk-python/{__version__}",
            },
            "timeout": httpx.Timeout(self.timeout, connect=min(self.timeout, CONNECT_SECONDS)),
            # Each stream holds a connection, so that no number of them would be right.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
            "follow_redirects": False,
            # A proxy of the environment has no business between two programs of one machine.
            "trust_env": not is_loopback(where.host),
            # Reading the root certificates takes longer than all else here; plain HTTP needs none,
            # and a context without them trusts nobody.
            "verify": where.scheme != "http" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        }

    def stream_timeout(self) -> httpx.Timeout:
        """Returns the patience of a stream."""
        connect = min(self.timeout, CONNECT_SECONDS)
        return httpx.Timeout(self.silence, connect=connect)


def is_loopback(host: str) -> bool:
    """Tells whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
