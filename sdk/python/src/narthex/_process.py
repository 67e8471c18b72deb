"""A `narthex serve` of our own: found, started, watched, ended."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import queue
import secrets
import shutil
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypedDict, TypeVar

from ._errors import BinaryNotFound, ProtocolError, ServerDied
from ._generated import Mode

T = TypeVar("T")

READY_SECONDS = 30.0
"""How long a server may take to become ready: a cold disk and a migration fit."""

STOP_SECONDS = 10.0
"""How long a server may take to end by itself before it is told with signals."""

KILL_SECONDS = 3.0
"""How long it may take after SIGTERM before it is killed."""

DEATH_SECONDS = 0.5
"""How long a broken connection is given to turn out to be the death of the server."""

STDERR_LINES_MAX = 20
"""Lines of standard error that are kept for an error message."""

LINE_BYTES_MAX = 4096
"""Bytes of one line of output that are kept."""


class LaunchOptions(TypedDict, total=False):
    """How to start a server; most names are those of the flags of `narthex serve`."""

    roots: Sequence[str | os.PathLike[str]]
    """The folders that sessions may work in; by default the current one."""
    allow: Sequence[str]
    """Permission rules, for example `run_shell(npm test *)`."""
    deny: Sequence[str]
    """Rules for what is refused."""
    append_system_prompt: str | None
    """What the model is told besides."""
    mcp: bool
    """Whether MCP servers of the settings are used; by default they are."""
    permission_timeout: float | None
    """Seconds until an unanswered request is denied; by default 300, and 0 is never."""
    max_sessions: int | None
    """How many sessions may be open."""
    port: int
    """The port; by default any that is free."""
    args: Sequence[str]
    """Further arguments of `narthex serve`."""
    env: Mapping[str, str]
    """Variables for the server, on top of our own."""
    home: str | os.PathLike[str] | None
    """The folder with settings and logs, `NARTHEX_HOME`."""
    binary: str | os.PathLike[str] | None
    """The program; by default that of `NARTHEX_BIN`, else `narthex` on the PATH."""
    ready_timeout: float
    """Seconds until it has to be ready; by default 30."""


class ServerOptions(LaunchOptions, total=False):
    """The same, with what sessions have that say nothing themselves."""

    mode: Mode | None
    """Their permission mode."""
    model: str | None
    """Their model, `provider/model`."""


def command_line(options: ServerOptions) -> list[str]:
    """Returns the command that starts such a server."""
    command = [find_binary(options.get("binary")), "serve", "--port", str(options.get("port", 0))]
    command += ["--json-ready", "--exit-on-stdin-close"]
    # `server.json` is for the server that everybody shares.
    command += ["--no-announce"]
    more = options.get("args", ())
    if not any(each.startswith("--log-level") for each in more):
        # The last lines of standard error are to say what went wrong, not who has asked for what.
        command += ["--log-level", "warn"]
    patience = options.get("permission_timeout")
    single = {
        "--mode": options.get("mode"),
        "--model": options.get("model"),
        "--append-system-prompt": options.get("append_system_prompt"),
        "--max-sessions": options.get("max_sessions"),
        "--permission-timeout": None if patience is None else round(patience * 1000),
    }
    many = {
        "--root": [absolute(root) for root in options.get("roots") or (os.curdir,)],
        "--allow": options.get("allow", ()),
        "--deny": options.get("deny", ()),
    }
    for flag, value in single.items():
        if value is not None:
            command += [flag, str(value)]
    for flag, values in many.items():
        for each in values:
            command += [flag, os.fspath(each)]
    if not options.get("mcp", True):
        command.append("--no-mcp")
    return [*command, *more]


def environment(options: LaunchOptions, token: str | None = None) -> dict[str, str]:
    """Returns the variables of the program; the token stays out of process listings."""
    variables = {**os.environ, **options.get("env", {})}
    if token is not None:
        variables["NARTHEX_SERVER_TOKEN"] = token
    home = options.get("home")
    if home is not None:
        variables["NARTHEX_HOME"] = os.fspath(home)
    return variables


def find_binary(named: str | os.PathLike[str] | None = None) -> str:
    """Returns the program: the one named, else that of `NARTHEX_BIN`, else the one on the PATH."""
    told = os.fspath(named) if named is not None else os.environ.get("NARTHEX_BIN")
    found = shutil.which(told or "narthex")
    if found is not None:
        return str(pathlib.Path(found).resolve()) if told else found
    if told:
        raise BinaryNotFound(f"{told} is no program; it was named by `binary` or NARTHEX_BIN")
    raise BinaryNotFound("there is no `narthex` on the PATH; install it, or set NARTHEX_BIN")


def absolute(folder: str | os.PathLike[str]) -> str:
    """Returns a folder as the server has to be told of it."""
    return os.path.abspath(folder)


def folder_of_session(options: LaunchOptions, session_id: str) -> str | None:
    """Returns the folder of a stored session; None where the program does not know it.

    Raises `BinaryNotFound`.
    """
    program = find_binary(options.get("binary"))
    command = [program, "sessions", "show", "--output-format", "json", "--", session_id]
    try:
        told = subprocess.run(  # noqa: S603
            command,
            env=environment(options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=options.get("ready_timeout", READY_SECONDS),
            check=False,
        )
        folder = json.loads(told.stdout)["cwd"]
    except OSError as error:
        raise cannot_start(program, error) from error
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        # The server then says best what is wrong with the session.
        return None
    return folder if isinstance(folder, str) else None


def cannot_start(program: str, error: OSError) -> BinaryNotFound:
    return BinaryNotFound(f"{program} cannot be started: {error.strerror or error}")


class ServerProcess:
    """One server. It ends with this process, however that ends: its standard input closes then."""

    def __init__(self, options: ServerOptions) -> None:
        self.token = secrets.token_urlsafe(32)
        self.url = ""
        self._said: collections.deque[str] = collections.deque(maxlen=STDERR_LINES_MAX)
        self._first: queue.Queue[bytes] = queue.Queue(1)
        self._ready_seconds = options.get("ready_timeout", READY_SECONDS)
        command = command_line(options)
        try:
            # A session of its own: a Ctrl-C at the terminal is ours to translate.
            self._child = subprocess.Popen(  # noqa: S603
                command,
                env=environment(options, self.token),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise cannot_start(command[0], error) from error
        # The readers hold the pipes and not this object, so that a server that is forgotten goes.
        self._readers = [
            _start(_read_stdout, self._child.stdout, self._first),
            _start(_read_stderr, self._child.stderr, self._said),
        ]
        self._finalizer = weakref.finalize(self, _close_quietly, self._child.stdin)

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Waits for the first line of output.

        Raises `ServerDied` where the server ends before, or is not ready in time.
        """
        try:
            line = self._first.get(timeout=self._ready_seconds)
        except queue.Empty:
            line = b""
        try:
            ready = json.loads(line) if line else None
        except ValueError:
            ready = {}
        if isinstance(ready, dict) and isinstance(ready.get("url"), str):
            self.url = ready["url"].rstrip("/")
            return
        died = self.death() or ServerDied(None, self.stderr())
        self.close()
        if ready is not None:
            raise ProtocolError(f"the first line of the server is no ready record: {line!r}")
        raise died

    def death(self) -> ServerDied | None:
        """Tells whether the server has ended; waits a moment for it."""
        try:
            code = self._child.wait(DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        self._join()
        return ServerDied(code, self.stderr())

    def stderr(self) -> str:
        """Returns the last lines of standard error."""
        return "\n".join(self._said)

    def close(self) -> None:
        """Ends the server: by closing its input, then by SIGTERM, then by SIGKILL."""
        self._finalizer()
        if not self._ends(STOP_SECONDS):
            self._child.terminate()
            if not self._ends(KILL_SECONDS):
                self._child.kill()
                self._child.wait()
        self._join()

    def _ends(self, seconds: float) -> bool:
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _join(self) -> None:
        # What the server has left running may hold the pipes open: it is not waited for.
        for reader in self._readers:
            reader.join(DEATH_SECONDS)


def _close_quietly(pipe: IO[bytes] | None) -> None:
    """Closes the standard input of a server, which ends it."""
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


def _start(
    read: Callable[[IO[bytes], T], None], pipe: IO[bytes] | None, into: T
) -> threading.Thread:
    thread = threading.Thread(target=read, args=(pipe, into), name="narthex-server", daemon=True)
    thread.start()
    return thread


def _read_stdout(pipe: IO[bytes], first: queue.Queue[bytes]) -> None:
    """The first line is the ready record; what follows is for people, and is dropped."""
    with pipe:
        lines = _Lines(pipe)
        first.put(lines.next())
        while lines.next():
            pass


def _read_stderr(pipe: IO[bytes], said: collections.deque[str]) -> None:
    with pipe:
        lines = _Lines(pipe)
        while line := lines.next():
            said.append(line.decode("utf-8", "replace").rstrip())


class _Lines:
    """Lines of a pipe, each cut to a limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._rest = b""

    def next(self) -> bytes:
        """Returns a line with its end; empty bytes at the end of the pipe."""
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                return line[: LINE_BYTES_MAX - 1] + found
            more = self._pipe.read(65536)
            if not more:
                self._rest = b""
                return line[:LINE_BYTES_MAX]
            # Beyond the limit nothing is kept, so that a line without an end costs no memory.
            self._rest = self._rest[:LINE_BYTES_MAX] + more
