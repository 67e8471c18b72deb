"""Asks an agent to read a folder and prints what it found.

    python review.py [FOLDER] [--model PROVIDER/MODEL] [--yes]

Needs `narthex` on the PATH (or NARTHEX_BIN) and `pip install narthex-sdk`. Calls that need an
approval are asked for here in the terminal; `--yes` allows what only reads, and denies the rest
without asking. Exits 0 when the review is complete, 1 when it is not, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys

import narthex

PROMPT = """\
Read the files of this folder and review them. Say in at most ten lines what the code does, and
name its three most important weaknesses, each with file and line. Change nothing."""


def printable(text: str) -> str:
    """Returns text from elsewhere without what would move a terminal's cursor."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def ask(request: narthex.PermissionRequest) -> narthex.PermissionAnswer:
    """Lets a person decide about a call."""
    summary = printable(request["target"]["summary"])
    print(f"\n{request['toolName']} wants to {request['effect']}: {summary}", file=sys.stderr)
    try:
        print("allow it? [y]es, [a]lways in this session, [N]o: ", end="", file=sys.stderr)
        said = input().strip().lower()
    except EOFError:
        return narthex.deny("nobody is there to ask")
    if said in ("y", "yes"):
        return narthex.allow_once()
    return narthex.allow_always() if said in ("a", "always") else narthex.deny()


def only_reads(request: narthex.PermissionRequest) -> narthex.PermissionAnswer:
    """Decides without a person."""
    if request["effect"] == "read":
        return narthex.allow_once()
    return narthex.deny("this is a review: read only")


def show(event: narthex.Event) -> None:
    """Tells what the agent is doing, beside the result."""
    if event["type"] == "tool_call":
        print(f"  {event['toolName']} {printable(event['target']['summary'])}", file=sys.stderr)
    elif event["type"] == "tool_denied":
        print(f"  denied: {printable(event['reason'])}", file=sys.stderr)
    elif event["type"] == "retry":
        print(f"  the model is asked again: {printable(event['reason'])}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Reviews the code in a folder.")
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--model", help="provider/model; by default that of the settings")
    parser.add_argument("--yes", action="store_true", help="allow reading, deny all else")
    told = parser.parse_args()
    decide = only_reads if told.yes else ask
    try:
        with narthex.create_agent(
            cwd=told.folder, model=told.model, mode="ask", on_permission=decide
        ) as agent:
            result = agent.prompt(PROMPT, on_event=show)
    except narthex.NarthexError as error:
        print(f"review: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(printable(result.text))
    cost = "unknown cost" if result.cost_usd is None else f"${result.cost_usd:.4f}"
    used = result.usage
    print(
        f"{result.reason} after {result.turns} steps and {result.duration_ms / 1000:.1f} s: "
        f"{used.input_tokens + used.cache_read_tokens + used.cache_write_tokens} tokens in, "
        f"{used.output_tokens} out, {cost}",
        file=sys.stderr,
    )
    if result.message:
        print(f"review: {printable(result.message)}", file=sys.stderr)
    return 0 if result.reason == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
