#!/usr/bin/env python3
"""Drives the scripted model server with the official client libraries of the three vendors.

    python3 conformance/clients/run.py [VENV]

VENV is made where it is missing (default: .venv/conformance in the repository) and holds the
versions of requirements.txt. Prints one line per check; exits 0 when all of them pass.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def prepare(venv):
    """Makes the environment, or brings it up to date, and returns its interpreter."""
    python = venv / "bin" / "python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = venv / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"preparing {venv} (about a minute)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "-r", str(HERE / "requirements.txt")], check=True)
    stamp.write_text(wanted)
    return python


def build():
    """Builds the server and returns its path, as cargo itself reports it."""
    command = ["cargo", "build", "--quiet", "-p", "testkit", "--example", "model_server"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / "examples" / "model_server"


def main():
    venv = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".venv" / "conformance"
    python = prepare(venv.resolve())
    server = build()
    checks = HERE / "checks.py"
    return subprocess.run([str(python), str(checks), str(server)]).returncode


if __name__ == "__main__":
    sys.exit(main())
