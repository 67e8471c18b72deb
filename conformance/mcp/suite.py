"""The client scenarios of the official suite, against our pool as it is."""
import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

# Each revision with the least number of checks that have to pass: a scenario that is silently
# passed over shows.
REVISIONS = {"2026-07-28": 470, "2025-11-25": 315}

# How long one revision may take; it takes a fraction of that.
SECONDS_MAX = 150

# A line of the suite's summary.
LINE = re.compile(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


def left_out():
    lines = (HERE / "left-out.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def mistakes(revision, done):
    """Returns what is not as it should be, one sentence each."""
    output = done.stdout + done.stderr
    found = {name: (mark == "✓", int(passed)) for mark, name, passed, _ in LINE.findall(output)}
    known = left_out()
    wrong = [f"{name} fails" for name, (is_well, _) in found.items()
             if not is_well and name not in known]
    wrong += [f"{name} passes: take it out of left-out.txt" for name, (is_well, _) in found.items()
              if is_well and name in known]
    wrong += [f"{name} was not run: take it out of left-out.txt" for name in known - found.keys()]
    passed = sum(count for _, count in found.values())
    least = REVISIONS[revision]
    if passed < least:
        wrong.append(f"{passed} checks passed, and {least} have to")
    if done.returncode != 0:
        wrong.append(f"the suite ended with {done.returncode}")
    return passed, wrong


def run(node, client):
    is_well = True
    for revision in REVISIONS:
        with tempfile.TemporaryDirectory(prefix="narthex-suite-") as out:
            done = subprocess.run(
                [str(node), str(SUITE), "client", "--command", str(client),
                 "--requirements", revision, "-o", out],
                cwd=out, capture_output=True, text=True, timeout=SECONDS_MAX)
        passed, wrong = mistakes(revision, done)
        if wrong:
            is_well = False
            print(done.stdout[-20_000:], done.stderr[-5_000:], sep="\n")
        print(f"{'FAIL' if wrong else 'ok  '} suite {revision}: {passed} checks passed", flush=True)
        for sentence in wrong:
            print(f"     {sentence}")
    return is_well
