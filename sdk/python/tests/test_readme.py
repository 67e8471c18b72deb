"""The examples of the README, run as they stand."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from test_real import pytestmark  # noqa: F401

from real import Daemon, ModelServer, Place

HERE = pathlib.Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text("utf-8"), re.DOTALL)
# (a word in the block, what the model answers, what is printed)
EXPECTED = [
    ("def decide", "Repaired.", "Repaired.\ncompleted, "),
    ("agent.stream", "A hall.", "A hall."),
    ("with narthex.connect()", "Validated.", "Validated."),
    ("connect_async", "Two of them.", "prompt_finished"),
]


@pytest.fixture
def model(tmp_path: pathlib.Path) -> Iterator[ModelServer]:
    server = ModelServer(tmp_path)
    yield server
    server.close()


def test_every_example_is_run() -> None:
    assert len(BLOCKS) == len(EXPECTED)


@pytest.mark.parametrize(("word", "answer", "printed"), EXPECTED, ids=[e[0] for e in EXPECTED])
def test_an_example_runs(
    word: str, answer: str, printed: str, tmp_path: pathlib.Path, model: ModelServer
) -> None:
    (block,) = [block for block in BLOCKS if word in block]
    place = Place(tmp_path, model)
    model.push(text=answer)
    daemon = Daemon(place) if "connect" in word else None
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-W", "error", "-c", block],
            cwd=place.project,
            env={
                **place.env,
                "NARTHEX_HOME": str(place.home),
                "NARTHEX_BIN": os.environ["NARTHEX_BIN"],
                "PYTHONPATH": str(HERE / "src"),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        if daemon is not None:
            daemon.stop()
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert done.stderr == ""


def test_the_examples_are_typed(tmp_path: pathlib.Path) -> None:
    paths = [HERE.parent.parent / "examples" / "python" / "review.py"]
    for number, block in enumerate(BLOCKS):
        paths.append(tmp_path / f"example{number}.py")
        paths[-1].write_text(block)
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\npython_version = 3.10\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir"]
    done = subprocess.run(
        [*command, os.devnull, *map(str, paths)],
        env={**os.environ, "MYPYPATH": str(HERE / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
