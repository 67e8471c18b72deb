"""Drive Narthex agents from Python.

`create_agent` runs an agent of one's own, `connect` talks to a server that runs already, and
`start_server` starts one. Each has an asynchronous twin: `create_agent_async`, `connect_async`,
`start_server_async`.
"""

from __future__ import annotations

from . import wire
from ._answers import (
    PermissionAnswer,
    PermissionDecision,
    PlanAnswer,
    QuestionAnswer,
    allow_always,
    allow_once,
    approve,
    choose,
    deny,
    dismiss,
    reject,
)
from ._async.agent import AsyncAgent, AsyncServer, create_agent_async, start_server_async
from ._async.client import AsyncClient, connect_async
from ._async.events import AsyncEventStream
from ._async.platform import AsyncEvents
from ._async.run import AsyncRun
from ._async.session import AsyncSession
from ._errors import (
    ApiError,
    BinaryNotFound,
    ClientClosed,
    ConnectionFailed,
    FrameTooLarge,
    NarthexError,
    ProtocolError,
    ServerDied,
    SessionClosed,
)
from ._generated import (
    Answer,
    Attachment,
    Event,
    FileAttachment,
    ImageAttachment,
    Message,
    Mode,
    PendingRequest,
    PermissionRequest,
    PlanRequest,
    PromptAccepted,
    QuestionRequest,
    SessionInfo,
)
from ._process import LaunchOptions, ServerOptions
from ._results import RunResult, Usage
from ._sync.agent import Agent, Server, create_agent, start_server
from ._sync.client import Client, connect
from ._sync.events import EventStream
from ._sync.platform import Events
from ._sync.run import Run
from ._sync.session import Session
from ._version import __version__

__all__ = [
    "Agent",
    "Answer",
    "ApiError",
    "AsyncAgent",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncEvents",
    "AsyncRun",
    "AsyncServer",
    "AsyncSession",
    "Attachment",
    "BinaryNotFound",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "Event",
    "EventStream",
    "Events",
    "FileAttachment",
    "FrameTooLarge",
    "ImageAttachment",
    "LaunchOptions",
    "Message",
    "Mode",
    "NarthexError",
    "PendingRequest",
    "PermissionAnswer",
    "PermissionDecision",
    "PermissionRequest",
    "PlanAnswer",
    "PlanRequest",
    "PromptAccepted",
    "ProtocolError",
    "QuestionAnswer",
    "QuestionRequest",
    "Run",
    "RunResult",
    "Server",
    "ServerDied",
    "ServerOptions",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "Usage",
    "__version__",
    "allow_always",
    "allow_once",
    "approve",
    "choose",
    "connect",
    "connect_async",
    "create_agent",
    "create_agent_async",
    "deny",
    "dismiss",
    "reject",
    "start_server",
    "start_server_async",
    "wire",
]
