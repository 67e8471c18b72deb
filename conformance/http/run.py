#!/usr/bin/env python3
"""Holds `narthex serve` against its own OpenAPI document: schemathesis makes requests from it,
good and bad ones, alone and in chains along the links, and checks each answer.

    python3 conformance/http/run.py [--seconds N] [schemathesis option…]

Exits 0 when no answer is a 5xx, has an undocumented status or breaks its schema.
"""
import json
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import program  # noqa: E402

# Long enough for several hundred requests to each operation.
SECONDS = 60

# How long the server may take until it says that it is ready: it takes a fraction of a second.
READY_SECONDS = 60

# How much longer than asked for a run may take: requests that were begun, chains that are told
# apart, the report.
FURTHER_SECONDS = 300

# The event streams do not end, so a request to them is a success without an end. They have
# tests of their own.
STREAMS = ["streamSession", "streamAll"]

# What is told apart there is no mistake: see README.md.
LEFT_OUT_CHECKS = ["positive_data_acceptance", "ensure_resource_availability"]


def prepare(venv):
    """Makes the environment, or brings it up to date, and returns its program."""
    python = venv / "bin" / "python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = venv / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"preparing {venv} (about a minute)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", "-r", str(HERE / "requirements.txt")],
                       check=True)
        stamp.write_text(wanted)
    return venv / "bin" / "schemathesis"


class Server:
    """A server with the scripted model, in a fresh home and folder."""

    def __init__(self, base):
        self.base = base
        home, folder = base / "home", base / "folder"
        home.mkdir(mode=0o700)
        folder.mkdir()
        (folder / "notes.txt").write_text("alpha\n")
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.log = open(base / "server.log", "wb")
        self.process = subprocess.Popen(
            [str(program.find()), "serve", "--port", "0", "--json-ready", "--exit-on-stdin-close",
             "--model", "demo", "--max-sessions", "10000", "--root", str(folder),
             "--permission-timeout", "500"],
            cwd=folder, env=kept | {"HOME": str(home), "NARTHEX_HOME": str(home)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        line = self.ready_line()
        if not line:
            self.process.kill()
            sys.exit("the server did not start:\n" + (base / "server.log").read_text())
        ready = json.loads(line)
        self.url, self.token = ready["url"], ready["token"]

    def ready_line(self):
        """Returns the first line of output; it comes whole, or not in time and is empty."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return self.process.stdout.readline() if selector.select(READY_SECONDS) else b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("the server did not stop when its input ended")
        if code != 0:
            sys.exit(f"the server ended with {code}:\n" + (self.base / "server.log").read_text())


def main():
    arguments = sys.argv[1:]
    seconds = SECONDS
    if arguments[:1] == ["--seconds"]:
        seconds, arguments = int(arguments[1]), arguments[2:]
    schemathesis = prepare(ROOT / ".venv" / "http")
    with tempfile.TemporaryDirectory(prefix="narthex-http-") as folder:
        base = pathlib.Path(folder)
        with Server(base) as server:
            command = [
                str(schemathesis), "run", str(ROOT / "schema" / "v1.openapi.json"),
                "--url", server.url, "--header", f"Authorization: Bearer {server.token}",
                "--phases", "examples,coverage,fuzzing,stateful", "--checks", "all",
                "--exclude-checks", ",".join(LEFT_OUT_CHECKS), "--mode", "all",
                "--max-time", str(seconds), "--request-timeout", "20", "--continue-on-failure",
                "--no-color"]
            for name in STREAMS:
                command += ["--exclude-operation-id", name]
            limit = seconds + FURTHER_SECONDS
            try:
                return subprocess.run(command + arguments, cwd=base, timeout=limit).returncode
            except subprocess.TimeoutExpired:
                print(f"schemathesis did not end within {limit} seconds", file=sys.stderr)
                return 1


if __name__ == "__main__":
    sys.exit(main())
