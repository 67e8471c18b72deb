"""Answers to permissions, questions and plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from ._generated import (
    AllowAlways,
    AllowOnce,
    Answer,
    Approved,
    ApprovedAnswer,
    Chosen,
    ChosenAnswer,
    Deny,
    Dismissed,
    Mode,
    Persist,
    Rejected,
    RejectedAnswer,
)


class _PermissionWords(TypedDict, total=False):
    rule: str
    persist: Persist
    feedback: str


class PermissionDecision(_PermissionWords):
    """The answer to a permission in the words of the in-process SDKs."""

    kind: Literal["allow_once", "allow_always", "deny"]


PermissionAnswer: TypeAlias = AllowOnce | AllowAlways | Deny
"""The answer to a permission request."""

QuestionAnswer: TypeAlias = Chosen | Dismissed
"""The answer to a question."""

PlanAnswer: TypeAlias = Approved | Rejected
"""The answer to a plan."""


def allow_once() -> AllowOnce:
    """Lets this one call run."""
    return {"answer": "allow_once"}


def allow_always(rule: str | None = None, persist: Persist = "session") -> AllowAlways:
    """Lets this call run, and those that `rule` covers; without one, the rule suggested first."""
    answer: AllowAlways = {"answer": "allow_always", "persist": persist}
    if rule is not None:
        answer["rule"] = rule
    return answer


def deny(feedback: str | None = None) -> Deny:
    """Refuses the call; the model reads `feedback`."""
    if feedback is None:
        return {"answer": "deny"}
    return {"answer": "deny", "feedback": feedback}


def choose(*answers: str, other: str | None = None) -> Chosen:
    """Answers a question with labels (or ids) of its options, with words of one's own, or both."""
    answer: ChosenAnswer = {"answers": list(answers)}
    if other is not None:
        answer["other"] = other
    return {"answer": answer}


def dismiss() -> Dismissed:
    """Leaves a question without an answer."""
    return {"answer": {"dismissed": True}}


def approve(mode: Mode | None = None) -> Approved:
    """Approves a plan; the agent goes on in `mode`, by default `ask`."""
    answer: ApprovedAnswer = {"approved": True}
    if mode is not None:
        answer["mode"] = mode
    return {"answer": answer}


def reject(feedback: str | None = None) -> Rejected:
    """Rejects a plan; the model reads `feedback`."""
    answer: RejectedAnswer = {"approved": False}
    if feedback is not None:
        answer["feedback"] = feedback
    return {"answer": answer}


def default_answer(kind: str) -> Answer:
    """Returns what a request of this kind is answered with where nobody decides."""
    if kind == "question":
        return dismiss()
    return reject() if kind == "plan" else deny()


def no_instead(kind: str, why: str) -> Answer:
    """Returns what decides against a request whose answer could not be taken."""
    if kind == "question":
        return dismiss()
    return reject(why) if kind == "plan" else deny(why)


def answer_body(kind: str, given: object) -> dict[str, Any]:
    """Returns the body for what a callback gave; None stands for the default.

    Raises `TypeError` for anything that is no answer to a request of this kind.
    """
    if given is None:
        return dict(default_answer(kind))
    if isinstance(given, Mapping):
        body = {str(key): value for key, value in given.items()}
        if kind == "permission" and "kind" in body and "answer" not in body:
            body["answer"] = body.pop("kind")
        if _fits(kind, body.get("answer")):
            return {key: value for key, value in body.items() if value is not None}
    wanted = {
        "permission": "allow_once(), allow_always() or deny()",
        "question": "choose() or dismiss()",
        "plan": "approve() or reject()",
    }
    raise TypeError(f"a {kind} callback has to return {wanted[kind]}, not {given!r}")


def _fits(kind: str, answer: object) -> bool:
    if kind == "permission":
        return answer in ("allow_once", "allow_always", "deny")
    if not isinstance(answer, Mapping):
        return False
    keys: Iterable[str] = ("approved",) if kind == "plan" else ("answers", "other", "dismissed")
    return any(key in answer for key in keys)
