"""What comes of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ._errors import ProtocolError
from ._generated import TurnEnd


@dataclass(frozen=True)
class Usage:
    """Tokens, normalised over providers: `input_tokens` counts what no cache was involved in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class RunResult:
    """What came of a prompt.

    `cost_usd` is None where the price of a step is not known. `code` and `message` say more where
    `reason` is `error`. `unanswered` counts the calls that were refused because nobody could be
    asked, or answered in time.
    """

    reason: TurnEnd
    usage: Usage
    cost_usd: float | None
    text: str
    turns: int
    duration_ms: int
    session_id: str
    code: str | None = None
    message: str | None = None
    unanswered: int = 0


def run_result(session_id: str, wire: Mapping[str, Any]) -> RunResult:
    """Reads the `result` of a `prompt_finished` event."""
    try:
        used: Mapping[str, Any] = wire["usage"]
        return RunResult(
            reason=cast(TurnEnd, wire["reason"]),
            usage=Usage(
                input_tokens=int(used["inputTokens"]),
                output_tokens=int(used["outputTokens"]),
                cache_read_tokens=int(used["cacheReadTokens"]),
                cache_write_tokens=int(used["cacheWriteTokens"]),
            ),
            cost_usd=wire.get("costUsd"),
            text=str(wire.get("text", "")),
            turns=int(wire["turns"]),
            duration_ms=int(wire["durationMs"]),
            session_id=str(wire.get("sessionId", session_id)),
            code=wire.get("code"),
            message=wire.get("message"),
            unanswered=int(wire.get("unanswered", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the result of a prompt is not as agreed: {error!r}") from error
