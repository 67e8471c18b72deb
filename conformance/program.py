"""The built narthex program, as the conformance scripts start it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def find():
    """Returns the program: NARTHEX_BIN, else the release build, else the debug build."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    named = os.environ.get("NARTHEX_BIN")
    places = [pathlib.Path(named)] if named else [
        target / kind / "narthex" for kind in ("release", "debug")]
    for place in places:
        if place.is_file():
            return place.resolve()
    sys.exit(f"no narthex program at {' or '.join(map(str, places))}; build it, or set NARTHEX_BIN")


class Done:
    """How one run ended."""

    def __init__(self, finished):
        self.code = finished.returncode
        self.out = finished.stdout
        self.err = finished.stderr

    def result(self):
        """Returns the result object of `--output-format json`; None where none was printed."""
        try:
            value = json.loads(self.out)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def events(self):
        """Returns the events of `--output-format stream-json`."""
        return [json.loads(line) for line in self.out.splitlines() if line.strip()]

    def __str__(self):
        return f"exit {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class Place:
    """A fresh home and project folder for runs of the program."""

    def __init__(self, settings="", files=None):
        self._folder = tempfile.TemporaryDirectory(prefix="narthex-conformance-")
        base = pathlib.Path(self._folder.name)
        self.home, self.project = base / "home", base / "project"
        self.home.mkdir(mode=0o700)
        self.project.mkdir()
        (self.home / "config.toml").write_text(settings)
        for name, text in (files or {}).items():
            (self.project / name).write_text(text)

    def run(self, *args, env=None, timeout=120):
        """Runs the program with these arguments; it must end within `timeout` seconds."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        kept |= {"HOME": str(self.home), "NARTHEX_HOME": str(self.home), **(env or {})}
        finished = subprocess.run(
            [str(find()), *args], cwd=self.project, env=kept, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout)
        return Done(finished)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()
