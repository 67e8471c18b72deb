"""The scripted model server as a child process: push answers, read its report at the end."""
import json
import pathlib
import subprocess


class Server:
    """One server. `push` takes an answer in the form of a scenario file."""

    def __init__(self, path):
        scenario = pathlib.Path(__file__).with_name("scenario.json")
        self._child = subprocess.Popen(
            [path, str(scenario)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.bases = json.loads(self._child.stdout.readline())

    def push(self, **answer):
        self._child.stdin.write(json.dumps(answer) + "\n")
        self._child.stdin.flush()
        reply = self._child.stdout.readline()
        if json.loads(reply or "null") != "ok":
            raise RuntimeError(f"the server did not take the answer {answer}")

    def close(self):
        """Ends the server and returns its report."""
        self._child.stdin.close()
        report = json.loads(self._child.stdout.read())
        self._child.wait(timeout=10)
        return report
