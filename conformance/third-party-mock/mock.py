"""The mock model server as a child process."""
import json
import pathlib
import socket
import subprocess
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
CLI = HERE / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
START_SECONDS_MAX = 20


def install():
    """Installs the mock from the lock file where it is missing."""
    if not CLI.is_file():
        print("installing the mock (a few seconds)", flush=True)
        subprocess.run(["npm", "ci", "--no-fund", "--no-audit"], cwd=HERE, check=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Mock:
    """One server; unmatched requests are refused with 503."""

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = ["node", str(CLI), "--host", "127.0.0.1", "--port", str(self.port),
                   "--fixtures", str(HERE / "fixtures.json"), "--strict", "--validate-on-load",
                   "--log-level", "silent"]
        self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._wait()

    def _wait(self):
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.journal()
                return
            except OSError:
                if self._child.poll() is not None or time.monotonic() > end:
                    self.close()
                    raise RuntimeError("the mock did not start") from None
                time.sleep(0.05)

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, method=method, headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def journal(self):
        """Returns every request that the server has seen."""
        return self._call("GET", "/__aimock/journal")

    def fault(self, **rates):
        """Sets how likely each fault is, from 0 to 1."""
        self._call("POST", "/__aimock/chaos", rates)

    def close(self):
        self._child.terminate()
        self._child.wait(timeout=10)
