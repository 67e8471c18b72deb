"""Servers of one's own, and an agent on top of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from .._backports import Self, Unpack
from .._errors import NarthexError
from .._generated import Attachment, Message, Mode, SessionInfo
from .._process import (
    LaunchOptions,
    ServerOptions,
    ServerProcess,
    absolute,
    folder_of_session,
)
from .._results import RunResult
from .._settings import Settings
from .client import Client
from .platform import in_thread, settle
from .run import OnEvent, OnPermission, OnPlan, OnQuestion, Run
from .session import Session


class Server:
    """A `narthex serve` that ends with this process; made by `start_server`."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        settings = Settings(url=process.url, token=process.token, death=process.death)
        self.client = Client(settings)
        """A client of the server."""

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._process.url

    @property
    def token(self) -> str:
        """The token that requests have to bring."""
        return self._process.token

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def stderr(self) -> str:
        """The last lines that the server has written to standard error."""
        return self._process.stderr()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the server; waits until it has ended."""
        settle(self._close)

    def _close(self) -> None:
        self.client.close()
        in_thread(self._process.close)


def start_server(**options: Unpack[ServerOptions]) -> Server:
    """Starts a server on a free port and waits until it is ready.

    The arguments are the fields of `ServerOptions`. Raises `BinaryNotFound`, or `ServerDied` with
    the last lines of standard error.
    """
    process = ServerProcess(options)
    try:
        in_thread(process.wait_until_ready)
    except BaseException:
        settle(lambda: in_thread(process.close))
        raise
    return Server(process)


class Agent:
    """One agent in one folder, with a server of its own; made by `create_agent`."""

    def __init__(
        self,
        runtime: Server,
        session: Session,
        callbacks: Mapping[str, Any],
    ) -> None:
        self.runtime = runtime
        """The server that carries the agent: its url, token, pid and client."""
        self.session = session
        """The agent's session, with all that sessions can do."""
        self._callbacks = callbacks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def prompt(
        self,
        text: str,
        *,
        on_event: OnEvent | None = None,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_plan: OnPlan | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> RunResult:
        """Sends a prompt and returns what came of it; callbacks here come before the agent's."""
        callbacks = self._merged(on_permission, on_question, on_plan)
        return self.session.run(text, on_event=on_event, attachments=attachments, **callbacks)

    def stream(
        self,
        text: str,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_plan: OnPlan | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Run:
        """Sends a prompt and gives its events; leaving the loop early interrupts it.

        Callbacks here come before the agent's.
        """
        callbacks = self._merged(on_permission, on_question, on_plan)
        return self.session.stream(text, attachments=attachments, **callbacks)

    def _merged(
        self,
        on_permission: OnPermission | None,
        on_question: OnQuestion | None,
        on_plan: OnPlan | None,
    ) -> dict[str, Any]:
        given = {"on_permission": on_permission, "on_question": on_question, "on_plan": on_plan}
        return {name: mine or self._callbacks[name] for name, mine in given.items()}

    def interrupt(self) -> bool:
        """Stops the running prompt; tells whether one ran."""
        return self.session.interrupt()

    def set_mode(self, mode: Mode) -> SessionInfo:
        """Changes the permission mode."""
        return self.session.set_mode(mode)

    def set_model(self, model: str) -> SessionInfo:
        """Changes the model, `provider/model`."""
        return self.session.set_model(model)

    def messages(self) -> list[Message]:
        """Returns the conversation."""
        return self.session.messages()

    def close(self) -> None:
        """Closes the session and stops the server; the stored log stays."""
        try:
            with suppress(NarthexError):
                self.session.close()
        finally:
            self.runtime.close()


def create_agent(
    *,
    cwd: str | os.PathLike[str] | None = None,
    model: str | None = None,
    mode: Mode | None = None,
    on_permission: OnPermission | None = None,
    on_question: OnQuestion | None = None,
    on_plan: OnPlan | None = None,
    resume: str | None = None,
    title: str | None = None,
    **options: Unpack[LaunchOptions],
) -> Agent:
    """Starts an agent in a folder, by default the current one.

    Without `on_permission` such calls are denied, without `on_question` questions are dismissed,
    without `on_plan` plans rejected. `resume` goes on with a stored session, in the folder that it
    has: `cwd` is of no use then, and `roots`, where they are given, have to hold that folder. The
    other arguments are the fields of `LaunchOptions`.
    """
    folder = absolute(cwd if cwd is not None else os.curdir)
    wishes: dict[str, Any] = {"model": model, "mode": mode, "resume": resume, "title": title}
    # Said to the session and not on a command line, which all of the machine can read.
    for name in ("append_system_prompt", "allow", "deny"):
        if name in options:
            wishes[name] = options.pop(name)
    if resume is None:
        wishes["cwd"] = folder
    elif not options.get("roots"):
        stored = resume
        its_folder = in_thread(lambda: folder_of_session(options, stored))
        folder = its_folder or folder
    options.setdefault("roots", (folder,))
    runtime = start_server(**options)
    try:
        session = runtime.client.create_session(**wishes)
    except BaseException:
        runtime.close()
        raise
    callbacks = {"on_permission": on_permission, "on_question": on_question, "on_plan": on_plan}
    return Agent(runtime, session, callbacks)
