#!/usr/bin/env python3
"""Drives narthex against a mock model server that is not ours, in peace and with faults.

    python3 conformance/third-party-mock/run.py [WIRE ...]

Wires: anthropic, openai, chat, gemini (default: all). NARTHEX_BIN names the program (default:
target/release/narthex, else target/debug/narthex). Prints one line per check; exits 0 when all
of them pass.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mock import Mock, install  # noqa: E402
from program import Place, find  # noqa: E402

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "openai": "openai/gpt-5",
    "chat": "mock/any-model",
    "gemini": "gemini/gemini-2.5-pro",
}
# Short, so that a provider that never recovers is given up within a test's patience.
RETRY_BUDGET_MS = 3000
# Each fault of the mock, the code that narthex has for it, and a word of a truthful message.
FAULTS = (
    ("rateLimitRate", "rate_limited", "429"),
    ("dropRate", "provider_unavailable", "500"),
    ("disconnectRate", "network", "connection"),
    ("malformedRate", "malformed_stream", "stream"),
)
OFTEN = 0.15
UNSTEADY_RUNS = 4


class Failed(Exception):
    """A check that did not hold."""


def expect(is_right, what, done):
    if not is_right:
        raise Failed(f"{what}\n{done}")


class Wire:
    """Narthex on one wire against one mock."""

    def __init__(self, name, mock):
        self.name, self.mock = name, mock
        self.env = {
            "ANTHROPIC_BASE_URL": mock.url, "ANTHROPIC_API_KEY": "k",
            "OPENAI_BASE_URL": f"{mock.url}/v1", "OPENAI_API_KEY": "k",
            "GEMINI_BASE_URL": mock.url, "GEMINI_API_KEY": "k",
        }

    def place(self, budget_ms=RETRY_BUDGET_MS):
        settings = f"""
[retry]
budget_ms = {budget_ms}

[providers.mock]
wire = "openai-chat"
base_url = "{self.mock.url}/v1"
key = "k"
"""
        return Place(settings, {"note.txt": "pineapple\n"})

    def run(self, prompt, style="json", **more):
        with self.place(**more) as place:
            return place.run("run", "--model", MODELS[self.name], "--output-format", style, prompt,
                             env=self.env)


def good(done, text):
    result = done.result()
    expect(done.code == 0, "it does not end with 0", done)
    expect(result is not None, "the output is no JSON object", done)
    expect(result.get("text") == text, f"the text is not {text!r}", done)
    expect(result.get("reason") == "completed", "the reason is not completed", done)
    return result


def text(wire):
    """a text answer"""
    good(wire.run("please greet me"), "Good morning from the mock, grüße!")


def tool(wire):
    """a tool call, and the answer to its result"""
    result = good(wire.run("please read the note"), "The note says pineapple.")
    if result.get("turns") != 2:
        raise Failed(f"two model calls were expected: {result}")
    done = wire.run("please read the note", style="stream-json")
    results = [event for event in done.events() if event["type"] == "tool_result"]
    expect(len(results) == 1 and not results[0]["isError"], "no good result of one tool", done)
    expect("pineapple" in str(results[0]["output"]), "the note was not read", done)


def thinking(wire):
    """thinking before the answer"""
    good(wire.run("please think first"), "Forty-two.")
    done = wire.run("please think first", style="stream-json")
    thought = "".join(e["text"] for e in done.events() if e["type"] == "thinking_delta")
    expect(thought == "Six times seven.", f"the thinking is {thought!r}", done)


def broken_off(wire):
    """a stream that breaks off in its middle is asked for again"""
    good(wire.run("please break off once"), "The second answer is whole.")


def unmatched(wire):
    """a refusal by the server ends with 1 and its words"""
    bad(wire.run("nothing that the mock knows"), {"overloaded": "no fixture matched"})


def bad(done, faults):
    """Checks a failed run: `faults` are the codes that it may have, each with a word."""
    expect(done.code == 1, "it does not end with 1", done)
    result = done.result()
    expect(result is not None, "the output is no JSON object", done)
    expect(result.get("reason") == "error", "the reason is not error", done)
    expect(result.get("code") in faults, f"the code is none of {list(faults)}", done)
    word = faults[result["code"]]
    expect(word in done.err and word in result["message"], f"no {word!r} in the message", done)
    expect(not result.get("text"), "there is a text that no model said", done)


def always(wire):
    """a fault at every request is retried, then ends with 1 and a truthful message"""
    for rate, code, word in FAULTS:
        wire.mock.fault(**{rate: 1})
        before = len(wire.mock.journal())
        try:
            done = wire.run("please greet me")
            bad(done, {code: word})
            asked = len(wire.mock.journal()) - before
            expect(asked > 1, f"asked {asked} times in {RETRY_BUDGET_MS} ms", done)
        finally:
            wire.mock.fault()


def sometimes(wire):
    """faults now and then: the right answer in the end, or 1"""
    wire.mock.fault(**{rate: OFTEN for rate, _, _ in FAULTS})
    try:
        for _ in range(UNSTEADY_RUNS):
            done = wire.run("please read the note", budget_ms=20_000)
            if done.code == 0:
                good(done, "The note says pineapple.")
            else:
                bad(done, {code: word for _, code, word in FAULTS})
    finally:
        wire.mock.fault()


CHECKS = (text, tool, thinking, broken_off, unmatched, always, sometimes)


def main():
    print(f"     program {find()}")
    install()
    passed = failed = 0
    for name in sys.argv[1:] or MODELS:
        mock = Mock()
        wire = Wire(name, mock)
        try:
            for check in CHECKS:
                label = f"{name}: {check.__doc__}"
                try:
                    check(wire)
                    print(f"ok   {label}", flush=True)
                    passed += 1
                except Failed as error:
                    print(f"FAIL {label}: {error}", flush=True)
                    failed += 1
        finally:
            mock.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
