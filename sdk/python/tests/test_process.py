"""Servers of one's own, with a program of the tests in the place of narthex."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

import narthex
from narthex import BinaryNotFound, ProtocolError, ServerDied
from narthex._process import command_line, environment, find_binary

from both import Half
from fake import FAR, until

READY = 'say({"type": "ready", "url": "http://127.0.0.1:9", "port": 9, "pid": os.getpid()})'


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Any:
    """Makes a program out of lines of Python; `say` prints a line of JSON."""

    def make(*lines: str) -> str:
        path = tmp_path / "narthex"
        head = f"#!{sys.executable} -B\nimport json, os, signal, sys, time\n"
        head += "def say(value): print(json.dumps(value), flush=True)\n"
        path.write_text(head + "\n".join(lines) + "\n")
        path.chmod(0o755)
        return str(path)

    return make


def is_alive(pid: int) -> bool:
    """Tells whether a process runs; one that only waits to be collected does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_it_is_ready_with_the_first_line(half: Half, program: Any) -> None:
    binary = program(READY, "print('listening')", "sys.stdin.read()")
    async with await half.start_server(binary=binary) as server:
        assert server.url == "http://127.0.0.1:9"
        assert len(server.token) >= 32
        pid = server.pid
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_what_it_says_before_it_dies_is_told(half: Half, program: Any) -> None:
    binary = program("print('the port is taken', file=sys.stderr)", "sys.exit(2)")
    with pytest.raises(ServerDied, match="with 2; its last lines:\nthe port is taken") as died:
        await half.start_server(binary=binary)
    assert died.value.exit_code == 2


async def test_only_the_last_lines_are_kept(half: Half, program: Any) -> None:
    binary = program(
        "for n in range(5000): print(n, 'x' * 50, file=sys.stderr)",
        "print('y' * 3_000_000, file=sys.stderr)",
        "print('last', file=sys.stderr)",
        "sys.exit(1)",
    )
    with pytest.raises(ServerDied) as died:
        await half.start_server(binary=binary)
    assert died.value.stderr.splitlines()[-1] == "last"
    assert len(died.value.stderr.splitlines()) == 20
    assert len(died.value.stderr) < 20 * 4096


async def test_it_has_to_be_ready_in_time(half: Half, program: Any) -> None:
    with pytest.raises(ServerDied, match="has not become ready, without a word"):
        await half.start_server(binary=program("sys.stdin.read()"), ready_timeout=0.3)


@pytest.mark.parametrize("line", ["print('hello')", "say([1])", "say({'type': 'ready'})"])
async def test_the_first_line_has_to_be_the_record(half: Half, program: Any, line: str) -> None:
    with pytest.raises(ProtocolError, match="is no ready record"):
        await half.start_server(
            binary=program(line, "sys.stdout.flush()", "sys.stdin.read()"), ready_timeout=FAR
        )


async def test_one_that_does_not_end_is_killed(
    half: Half, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex._process.STOP_SECONDS", 0.1)
    monkeypatch.setattr("narthex._process.KILL_SECONDS", 0.1)
    binary = program(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)", READY, "while True: time.sleep(1)"
    )
    async with await half.start_server(binary=binary) as server:
        pid = server.pid
    assert not is_alive(pid)


async def test_a_call_to_a_dead_server_tells_of_its_death(half: Half, program: Any) -> None:
    binary = program(READY, "sys.stdin.readline()")
    async with await half.start_server(binary=binary) as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(ServerDied, match="ended with -9"):
            await server.client.health()
        with pytest.raises(ServerDied):
            async for _ in server.client.session("s").events(last_event_id=0):
                pass


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_it_does_not_outlive_us(program: Any, how: str) -> None:
    binary = program(READY, "sys.stdin.read()")
    ends = {"kill": "import time; time.sleep(60)", "exit": "import os; os._exit(0)"}[how]
    code = textwrap.dedent(f"""
        import narthex
        server = narthex.start_server(binary={binary!r})
        print(server.pid, flush=True)
        {ends}
    """)
    parent = subprocess.Popen(
        [sys.executable, "-B", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if how == "kill":
        parent.kill()
    parent.communicate(timeout=FAR)
    until(lambda: not is_alive(pid), "the server to end")


def test_ctrl_c_at_the_terminal_does_not_reach_it(program: Any) -> None:
    with narthex.start_server(binary=program(READY, "sys.stdin.read()")) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_the_command_line(program: Any, tmp_path: pathlib.Path) -> None:
    binary = program("pass")
    assert command_line({"binary": binary}) == [
        binary, "serve", "--port", "0", "--json-ready", "--exit-on-stdin-close",
        "--no-announce", "--log-level", "warn", "--root", os.getcwd()]  # fmt: skip
    told = command_line({
        "binary": binary, "roots": [tmp_path, "/b"], "mode": "ask", "model": "a/b",
        "allow": ["run_shell(ls *)"], "deny": ["web_fetch", "task"], "port": 7, "mcp": False,
        "append_system_prompt": "be kind", "permission_timeout": 1.5, "max_sessions": 3,
        "args": ["--config", "x.toml"],
    })  # fmt: skip
    assert told[1:] == [
        "serve", "--port", "7", "--json-ready", "--exit-on-stdin-close", "--no-announce",
        "--log-level", "warn", "--mode", "ask",
        "--model", "a/b", "--append-system-prompt", "be kind", "--max-sessions", "3",
        "--permission-timeout", "1500", "--root", str(tmp_path), "--root", "/b",
        "--allow", "run_shell(ls *)", "--deny", "web_fetch", "--deny", "task", "--no-mcp",
        "--config", "x.toml"]  # fmt: skip


def test_a_log_level_of_ones_own_counts(program: Any) -> None:
    told = command_line({"binary": program("pass"), "args": ["--log-level=debug"]})
    assert [each for each in told if "log-level" in each] == ["--log-level=debug"]


def test_folders_are_absolute_whatever_they_are_named_after(
    program: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = command_line({"binary": program("pass"), "roots": ["sub", pathlib.Path("../x")]})
    assert [told[n + 1] for n, each in enumerate(told) if each == "--root"] == [
        str(tmp_path / "sub"), str(tmp_path.parent / "x")]  # fmt: skip


async def test_what_cannot_be_started_is_an_error_of_ours(
    half: Half, tmp_path: pathlib.Path
) -> None:
    broken = tmp_path / "narthex"
    broken.write_text("#!/nowhere/at/all\n")
    broken.chmod(0o755)
    with pytest.raises(BinaryNotFound, match="cannot be started: No such file"):
        await half.start_server(binary=broken)
    with pytest.raises(BinaryNotFound, match="cannot be started: No such file"):
        await half.create_agent(binary=broken, resume="s")


@pytest.mark.filterwarnings("ignore:.*still running:ResourceWarning")
def test_a_server_that_is_forgotten_ends(program: Any) -> None:
    server = narthex.start_server(binary=program(READY, "sys.stdin.read()"))
    pid = server.pid
    assert is_alive(pid)
    del server
    gc.collect()
    until(lambda: not is_alive(pid), "the server to end with its last reference")


def test_the_token_stays_out_of_the_command_line(program: Any) -> None:
    binary = program(READY, "sys.stdin.read()")
    with narthex.start_server(binary=binary, env={"EXTRA": "1"}) as server:
        shown = pathlib.Path(f"/proc/{server.pid}/cmdline").read_text()
        assert server.token not in shown
        known = pathlib.Path(f"/proc/{server.pid}/environ").read_text().split("\0")
        assert f"NARTHEX_SERVER_TOKEN={server.token}" in known
        assert "EXTRA=1" in known
    assert environment({"home": "/h"}, "t")["NARTHEX_HOME"] == "/h"


def test_where_the_program_is_found(
    program: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = program("pass")
    monkeypatch.setenv("NARTHEX_BIN", binary)
    assert find_binary() == binary
    with pytest.raises(BinaryNotFound, match="/nowhere/narthex is no program"):
        find_binary("/nowhere/narthex")
    monkeypatch.delenv("NARTHEX_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == binary
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BinaryNotFound, match="no `narthex` on the PATH"):
        find_binary()


async def test_a_server_that_refuses_the_session_is_stopped(half: Half, program: Any) -> None:
    binary = program(
        "import http.server, threading",
        "class H(http.server.BaseHTTPRequestHandler):",
        "  def log_message(self, *a): pass",
        "  def do_POST(self):",
        "    told = self.rfile.read(int(self.headers['content-length'])).decode()",
        "    open(sys.argv[0] + '.told', 'w').write(json.dumps([sys.argv, json.loads(told)]))",
        "    body = json.dumps({'error': {'code': 'invalid_model', 'message': 'no'}}).encode()",
        "    self.send_response(400); self.send_header('content-length', str(len(body)))",
        "    self.end_headers(); self.wfile.write(body)",
        "s = http.server.HTTPServer(('127.0.0.1', 0), H)",
        "threading.Thread(target=s.serve_forever, daemon=True).start()",
        "open(sys.argv[0] + '.pid', 'w').write(str(os.getpid()))",
        "say({'type': 'ready', 'url': f'http://127.0.0.1:{s.server_address[1]}'})",
        "sys.stdin.read()",
    )
    began = time.monotonic()
    with pytest.raises(narthex.ApiError, match="invalid_model"):
        await half.create_agent(
            binary=binary, model="a/b", append_system_prompt="be kind", allow=["read_file"],
            deny=["task"], cwd="some",
        )  # fmt: skip
    assert time.monotonic() - began < FAR
    assert not is_alive(int(pathlib.Path(binary + ".pid").read_text()))
    argv, body = json.loads(pathlib.Path(binary + ".told").read_text())
    folder = os.path.abspath("some")
    assert body == {
        "model": "a/b", "appendSystemPrompt": "be kind", "allow": ["read_file"], "deny": ["task"],
        "cwd": folder}  # fmt: skip
    assert argv[1:] == [
        "serve", "--port", "0", "--json-ready", "--exit-on-stdin-close", "--no-announce",
        "--log-level", "warn", "--root", folder]  # fmt: skip


async def test_a_session_that_is_resumed_keeps_its_folder(half: Half, program: Any) -> None:
    binary = program(
        "open(sys.argv[0] + '.told', 'a').write(json.dumps(sys.argv[1:]) + '\\n')",
        "if sys.argv[1] == 'sessions': print(json.dumps({'cwd': '/its/folder'})); sys.exit()",
        "sys.exit(3)",
    )
    with pytest.raises(ServerDied):
        await half.create_agent(binary=binary, resume="s1", cwd="elsewhere")
    with pytest.raises(ServerDied):
        await half.create_agent(binary=binary, resume="s1", roots=["/mine"])
    asked, first, second = map(json.loads, pathlib.Path(binary + ".told").read_text().splitlines())
    assert asked == ["sessions", "show", "--output-format", "json", "--", "s1"]
    assert first[first.index("--root") + 1] == "/its/folder"
    assert second[second.index("--root") + 1] == "/mine"
