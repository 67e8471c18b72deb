#!/usr/bin/env python3
"""Lets the official client library of the Agent Client Protocol hold sessions with `narthex acp`,
and holds each line of ours against the JSON Schema that the library ships.

    python3 conformance/acp/run.py

Prints one line per check; exits 0 when all of them pass.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import program  # noqa: E402

# How long all of it may take: it takes some seconds.
SECONDS_MAX = 300


def prepare():
    """Installs what the lock file says, where that is not there yet."""
    wanted = (HERE / "package-lock.json").read_text()
    stamp = HERE / "node_modules" / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the packages of package-lock.json (a few seconds)", flush=True)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"], cwd=HERE,
                   check=True)
    stamp.write_text(wanted)


def model_server():
    """Builds the scripted model server and returns its path."""
    subprocess.run(["cargo", "build", "--quiet", "-p", "testkit", "--example", "model_server"],
                   cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / "examples" / "model_server"


def main():
    prepare()
    found = {"NARTHEX_BIN": str(program.find()), "MODEL_SERVER": str(model_server())}
    finished = subprocess.run(["node", str(HERE / "session.mjs")], env=os.environ | found,
                              timeout=SECONDS_MAX)
    sys.exit(finished.returncode)


if __name__ == "__main__":
    main()
