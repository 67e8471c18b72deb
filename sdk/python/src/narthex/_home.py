"""Where a server on this machine has written its address."""

from __future__ import annotations

import json
import os
import pathlib

from ._errors import ConnectionFailed


def home() -> pathlib.Path:
    """Returns the home folder of Narthex, found as the program itself finds it."""
    for name in ("NARTHEX_HOME", "NEURALINVERSE_CONFIG_DIR"):
        named = os.environ.get(name)
        if named:
            return pathlib.Path(named)
    return pathlib.Path.home() / ".narthex"


def check_url(url: str) -> None:
    """Raises `ConnectionFailed` for what is no address of a server."""
    scheme, found, host = url.partition("://")
    if not found:
        raise ConnectionFailed(f"{url!r} has no scheme; expected for example 'http://{url}'")
    if scheme.lower() not in ("http", "https") or not host.strip("/"):
        raise ConnectionFailed(f"{url!r} is no address; expected 'http://HOST:PORT' or https")


def address(url: str | None, token: str | None) -> tuple[str, str]:
    """Returns URL and token; what is not given comes from `server.json`.

    The file's token belongs to the file's server: a URL alone gets its token from
    `NARTHEX_SERVER_TOKEN`, or from a file that names this very URL.
    """
    if url is not None:
        check_url(url)
        token = token or os.environ.get("NARTHEX_SERVER_TOKEN")
        if token:
            return url, token
    path = home() / "server.json"
    try:
        known = json.loads(path.read_text("utf-8"))
        its_url, its_token = str(known["url"]), str(known["token"])
    except OSError as error:
        raise ConnectionFailed(
            f"no server is known: {path} cannot be read ({error.strerror}); start `narthex serve`, "
            "or give url and token"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionFailed(f"{path} is not the file of a server: {error!r}") from error
    if url is None:
        return its_url, token or its_token
    if url.rstrip("/") != its_url.rstrip("/"):
        raise ConnectionFailed(
            f"there is no token for {url}: give one, or set NARTHEX_SERVER_TOKEN"
        )
    return url, its_token
