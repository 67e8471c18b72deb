"""The example program against the real binary and the scripted model."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from test_real import pytestmark  # noqa: F401

from real import MODEL, ModelServer, Place

HERE = pathlib.Path(__file__).resolve().parent.parent
REVIEW = HERE.parent.parent / "examples" / "python" / "review.py"


@pytest.fixture
def model(tmp_path: pathlib.Path) -> Iterator[ModelServer]:
    server = ModelServer(tmp_path)
    yield server
    server.close()


def review(
    place: Place, *args: str, said: str = "", folder: str = "."
) -> subprocess.CompletedProcess[str]:
    (place.project / "main.py").write_text("print(1 / 0)\n")
    return subprocess.run(
        [sys.executable, "-B", "-W", "error", str(REVIEW), folder, "--model", MODEL, *args],
        cwd=place.project if folder == "." else place.project.parent,
        env={
            **place.env,
            "NARTHEX_HOME": str(place.home),
            "NARTHEX_BIN": os.environ["NARTHEX_BIN"],
            "PYTHONPATH": str(HERE / "src"),
        },
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("folder", [".", "project"])
def test_the_review_is_what_is_printed(
    folder: str, tmp_path: pathlib.Path, model: ModelServer
) -> None:
    place = Place(tmp_path, model)
    model.call("read_file", path="main.py")
    model.call("write_file", path="main.py", content="print(1)\n")
    model.push(text="It divides by zero: main.py:1.")
    done = review(place, "--yes", folder=folder)
    assert (done.returncode, done.stdout) == (0, "It divides by zero: main.py:1.\n"), done.stderr
    assert "read_file" in done.stderr
    assert "denied: " in done.stderr
    assert "completed after 3 steps" in done.stderr
    assert (place.project / "main.py").read_text() == "print(1 / 0)\n"


@pytest.mark.parametrize(("said", "made"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_person_decides(
    said: str, made: bool, tmp_path: pathlib.Path, model: ModelServer
) -> None:
    place = Place(tmp_path, model)
    model.call("run_shell", command="touch made")
    model.push(text="Done.")
    done = review(place, said=said)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "run_shell wants to execute: " in done.stderr
    assert (place.project / "made").exists() is made


def test_a_failure_is_told(tmp_path: pathlib.Path, model: ModelServer) -> None:
    place = Place(tmp_path, model)
    model.push(status=400, error="no such model")
    done = review(place, "--yes")
    assert done.returncode == 1
    assert "error after " in done.stderr
    assert "no such model" in done.stderr
