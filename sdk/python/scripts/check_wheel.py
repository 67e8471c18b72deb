"""Builds sdist and wheel, installs the wheel into an empty environment, and uses it there.

    python -m scripts.check_wheel [--keep FOLDER]

Nothing is written into the tree. With NARTHEX_BIN an agent is run as well.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent.parent

# Runs in the empty environment, in a folder that holds nothing of ours.
PROGRAM = """
import asyncio, importlib.metadata, importlib.resources, os, pathlib, sys
import narthex

assert "site-packages" in narthex.__file__, narthex.__file__
assert importlib.metadata.version("narthex-sdk") == narthex.__version__
assert importlib.resources.files("narthex").joinpath("py.typed").is_file()
needs = importlib.metadata.requires("narthex-sdk")
wanted = {"httpx", "anyio", "typing-extensions"}
assert {n.split(">")[0].split("<")[0].replace("_", "-") for n in needs} == wanted, needs
for name in narthex.__all__:
    getattr(narthex, name)
binary = os.environ.get("NARTHEX_BIN")
if binary:
    home = os.path.abspath("home")
    with narthex.create_agent(home=home, model="demo") as agent:
        assert agent.prompt("hello").reason == "completed"

    async def main():
        async with await narthex.create_agent_async(home=home, model="demo") as agent:
            kinds = [e["type"] async for e in agent.stream("hello")]
            assert kinds[-1] == "prompt_finished", kinds

    asyncio.run(main())
print(f"narthex-sdk {narthex.__version__} works" + (" and runs agents" if binary else ""))
"""


def built(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Builds from a copy, so that no build output lands in the tree."""
    copy = folder / "source"
    left_out = shutil.ignore_patterns("__pycache__", ".*_cache", ".venv", "dist", "build")
    shutil.copytree(HERE, copy, ignore=left_out)
    out = folder / "dist"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: pathlib.Path, wheel: pathlib.Path) -> None:
    """The wheel holds the package alone, the sdist what is needed to test it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    strange = [n for n in names if not n.startswith(("narthex/", "narthex_sdk-"))]
    assert not strange, f"the wheel holds {strange}"
    for name in ("narthex/__init__.py", "narthex/py.typed", "narthex/_sync/client.py"):
        assert name in names, f"the wheel has no {name}"
    assert any(n.endswith("licenses/LICENSE") for n in names), "the wheel has no licence"
    with tarfile.open(sdist) as archive:
        inner = {n.partition("/")[2] for n in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "tests/test_sse.py"):
        assert name in inner, f"the sdist has no {name}"


def check_use(folder: pathlib.Path, wheel: pathlib.Path) -> None:
    """Installs into an empty environment and runs a program there."""
    place = folder / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", str(wheel)], check=True)
    subprocess.run([*pip, "check"], check=True)
    project = folder / "project"
    project.mkdir()
    passed = ("PATH", "NARTHEX_BIN", "LANG")
    env = {name: os.environ[name] for name in passed if name in os.environ}
    env["HOME"] = str(folder)
    subprocess.run([str(python), "-W", "error", "-c", PROGRAM], check=True, cwd=project, env=env)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=pathlib.Path, help="copy sdist and wheel to this folder")
    keep: pathlib.Path | None = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="narthex-wheel-") as name:
        folder = pathlib.Path(name)
        sdist, wheel = built(folder)
        check_contents(sdist, wheel)
        check_use(folder, wheel)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy2(sdist, keep)
            shutil.copy2(wheel, keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
