"""The synchronous half of the package, made from the asynchronous one.

`async` and `await` go, and names change by a table; everything else stays as it was written.
Only the module `platform` is written by hand in both halves.
"""

from __future__ import annotations

import io
import re
import tokenize

NAMES = {
    "AsyncAgent": "Agent",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncEventStream": "EventStream",
    "AsyncEvents": "Events",
    "AsyncHTTPTransport": "HTTPTransport",
    "AsyncIterator": "Iterator",
    "AsyncRun": "Run",
    "AsyncServer": "Server",
    "AsyncSession": "Session",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "aread": "read",
    "connect_async": "connect",
    "create_agent_async": "create_agent",
    "start_server_async": "start_server",
}

WORDS = re.compile(r"\b(?:async|await) |\b(?:" + "|".join(NAMES) + r")\b")


def without_async(source: str) -> str:
    """Returns the synchronous form of a module."""
    lines = source.splitlines(keepends=True)
    changes: list[tuple[int, int, int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            rest = lines[row - 1][token.end[1] :]
            gap = len(rest) - len(rest.lstrip(" "))
            changes.append((row, column, token.end[1] + gap, ""))
        elif token.type == tokenize.NAME and token.string in NAMES:
            changes.append((row, column, token.end[1], NAMES[token.string]))
    for row, start, end, text in sorted(changes, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + text + line[end:]
    return strings("".join(lines))


def strings(source: str) -> str:
    """Changes the words in documentation strings too; they hold examples."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.STRING or not token.string.startswith('"""'):
            continue
        for row in range(token.start[0] - 1, token.end[0]):
            lines[row] = WORDS.sub(swap, lines[row])
    return "".join(lines)


def swap(match: re.Match[str]) -> str:
    return NAMES.get(match.group(), "")
