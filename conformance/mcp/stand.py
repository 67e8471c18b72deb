"""What the checks of real servers need: a home with settings, and a model that plays a script."""
import json
import os
import subprocess
import threading

from program import Place, find

MODEL = "anthropic/claude-sonnet-4-6"

# How long a run may take; it takes seconds.
SECONDS_MAX = 60


class Failed(Exception):
    """A check that did not hold."""


def expect(is_right, what, seen=""):
    if not is_right:
        raise Failed(f"{what}\n{seen}")


class Model:
    """The scripted model server as a child process."""

    def __init__(self, path):
        self._child = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, bufsize=1)
        self.env = {
            "ANTHROPIC_BASE_URL": json.loads(self._child.stdout.readline())["anthropic"],
            "ANTHROPIC_API_KEY": "k",
        }

    def push(self, **answer):
        self._child.stdin.write(json.dumps(answer) + "\n")
        self._child.stdin.flush()
        expect(json.loads(self._child.stdout.readline() or "null") == "ok", "the answer is refused",
               answer)

    def close(self):
        """Ends it; its report is that of answers left over, which a failed check has."""
        self._child.communicate(timeout=SECONDS_MAX)


def settings(servers, **mcp):
    """Writes settings: `servers` by name, as they stand in [mcp.servers.NAME]."""
    lines = ["[mcp]", *(f"{key} = {json.dumps(value)}" for key, value in mcp.items())]
    for name, fields in servers.items():
        lines += [f"[mcp.servers.{name}]"]
        # A value of JSON is one of TOML, but for tables.
        lines += [f"{key} = {toml(value)}" for key, value in fields.items()]
    return "\n".join(lines) + "\n"


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


class Stand:
    """A home with servers, and a program that uses them."""

    def __init__(self, model, servers, **mcp):
        # Whatever a check calls is offered as it is, unless the check says otherwise.
        self.place = Place(settings(servers, **({"defer_threshold": 1000} | mcp)))
        self.model = model

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.place.__exit__()

    def status(self):
        """Returns how it stands with each server, by name."""
        done = self.place.run("connections", "status", "--json", timeout=SECONDS_MAX)
        return done, {one["name"]: one for one in json.loads(done.out)["connections"]}

    def call(self, tool, **arguments):
        """Lets the model call one tool, and returns what the tool said."""
        events = self.events(tool, **arguments)
        results = [event for event in events if event["type"] == "tool_result"]
        expect(len(results) == 1, f"no single result of {tool}", events)
        return results[0]

    def events(self, tool, **arguments):
        """Lets the model call one tool, and returns all events of the run."""
        self.script(tool, arguments)
        done = self.go()
        expect(done.code == 0, f"the run with {tool} failed", done)
        return done.events()

    def go(self):
        """Runs one prompt to its end."""
        return self.place.run("run", "--model", MODEL, "--mode", "full-auto", "--output-format",
                              "stream-json", "go", env=self.model.env, timeout=SECONDS_MAX)

    def script(self, tool, arguments):
        self.model.push(calls=[{"name": tool, "args": arguments}])
        self.model.push(text="done")

    def talk(self, tool, arguments, answers):
        """As `events`; `answers` gives the answer to each question, by its event."""
        self.script(tool, arguments)
        talk = Talk(self)
        try:
            return talk.run(answers)
        finally:
            talk.end()

    def start(self, *args, **more):
        """Starts the program and returns its process."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        home = str(self.place.home)
        return subprocess.Popen([str(find()), *args], cwd=self.place.project, text=True,
                                env=kept | {"HOME": home, "NARTHEX_HOME": home} | self.model.env,
                                **more)


class Talk:
    """A run over its standard streams."""

    def __init__(self, stand):
        self.child = stand.start(
            "run", "--model", MODEL, "--mode", "full-auto", "--input-format", "stream-json",
            "--output-format", "stream-json", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, answers):
        self.say({"type": "prompt", "text": "go"})
        # A run that hangs ends with its program, and the lines with it.
        patience = threading.Timer(SECONDS_MAX, self.child.kill)
        patience.start()
        events = []
        for line in self.child.stdout:
            events.append(json.loads(line))
            if events[-1]["type"] == "question_request":
                request, answer = events[-1]["requestId"], answers(events[-1])
                self.say({"type": "answer", "requestId": request, "answer": answer})
            if events[-1]["type"] == "done":
                break
        else:
            raise Failed(f"the run did not end by itself\n{events}")
        patience.cancel()
        self.child.stdin.close()
        expect(self.child.wait(SECONDS_MAX) == 0, "the run failed", events)
        return events

    def say(self, line):
        self.child.stdin.write(json.dumps(line) + "\n")
        self.child.stdin.flush()

    def end(self):
        self.child.stdout.close()
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


def words(result):
    """Returns what a result says."""
    output = result["output"]
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
