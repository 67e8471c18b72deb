"""The built binary against the scripted model server."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import time
from typing import Any

MODEL = "anthropic/claude-sonnet-4-6"
READY_SECONDS = 60.0


class ModelServer:
    """The scripted model server; `push` queues an answer, routes answer by what was said."""

    def __init__(self, folder: pathlib.Path, routes: list[dict[str, Any]] | None = None) -> None:
        scenario = folder / "scenario.json"
        scenario.write_text(json.dumps({"answers": [], "routes": routes or [], "strict": True}))
        self._child = subprocess.Popen(
            [os.environ["NARTHEX_MODEL_SERVER"], str(scenario)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.bases: dict[str, str] = json.loads(self._read())

    def _read(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline()

    def push(self, **answer: Any) -> None:
        """Queues an answer, in the form of a scenario file."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(answer) + "\n")
        assert json.loads(self._read()) == "ok", answer

    def call(self, name: str, **args: Any) -> None:
        """Queues a tool call."""
        self.push(calls=[{"name": name, "args": args}])

    def close(self) -> None:
        """Ends the server; what it saw has to have been right."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        report = json.loads(self._child.stdout.read())
        self._child.stdout.close()
        self._child.wait(30)
        assert not report.get("violations"), report


class Place:
    """A home and a project folder, and a server in them that can be killed and started again."""

    def __init__(self, folder: pathlib.Path, model: ModelServer) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir(mode=0o700)
        self.project.mkdir()
        self.env = {
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": model.bases["anthropic"],
            "ANTHROPIC_API_KEY": "k",
        }

    def options(self, **more: Any) -> dict[str, Any]:
        """Arguments of `start_server`, and with `cwd` those of `create_agent`."""
        return {"home": self.home, "env": self.env, "ready_timeout": READY_SECONDS, **more}


class Daemon:
    """A server that others have started, on a port that stays the same."""

    def __init__(self, place: Place, token: str = "a-token-of-the-tests") -> None:
        self._place, self.token = place, token
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [os.environ["NARTHEX_BIN"], "serve", "--json-ready", "--model", MODEL]
        command += ["--port", str(self.port), "--root", str(self._place.project)]
        env = {**os.environ, **self._place.env, "NARTHEX_HOME": str(self._place.home)}
        self.child = subprocess.Popen(
            command,
            env={**env, "NARTHEX_SERVER_TOKEN": self.token},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.child.stdout is not None
        assert json.loads(self.child.stdout.readline())["url"] == self.url

    def kill(self) -> None:
        self.child.kill()
        self._end()

    def stop(self) -> None:
        self.child.terminate()
        self._end()

    def _end(self) -> None:
        self.child.wait(30)
        assert self.child.stdout is not None
        self.child.stdout.close()


def wait_for(path: pathlib.Path, seconds: float = 30.0) -> None:
    """Waits for a file."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.01)
