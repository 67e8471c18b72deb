"""The built program with MCP servers of others: from npm everything, filesystem and memory, from
PyPI time and fetch."""
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import traceback

from stand import MODEL, SECONDS_MAX, Failed, Model, Stand, expect, words

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = HERE / "node_modules" / "@modelcontextprotocol"


class World:
    """Where the servers are."""

    def __init__(self, node, python, model):
        self.node, self.python, self.model = node, python, model

    def npm(self, name, *args):
        """A server from npm that speaks over its streams."""
        return {"command": str(self.node),
                "args": [str(PACKAGES / name / "dist" / "index.js"), *args]}

    def pypi(self, name, *args):
        return {"command": str(self.python / name), "args": list(args)}

    def stand(self, servers, **mcp):
        return Stand(self.model, servers, **mcp)

    def through(self, line, *args):
        """The everything server, started by a line of shell that is given `args` before it."""
        server = self.npm("server-everything")
        args = [*map(str, args), server["command"], *server["args"]]
        return {"every": {"command": "sh", "args": ["-c", line, "sh", *args]}}

    def logged(self, folder, **more):
        """The same, with a copy of all that it is sent in the file `sent.log`."""
        servers = self.through('log=$1; shift; tee -a "$log" | "$@"', folder / "sent.log")
        servers["every"] |= more
        return servers

    @contextlib.contextmanager
    def over_http(self):
        """The everything server behind an address; gives the address and the process."""
        script = PACKAGES / "server-everything" / "dist" / "index.js"
        child = subprocess.Popen(
            [str(self.node), "--require", str(HERE / "loopback.cjs"), str(script),
             "streamableHttp"], env=os.environ | {"PORT": "0"}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            port = next(found.group(1) for line in child.stderr
                        if (found := re.match(r"port=(\d+)", line)))
            # It would stop once nobody takes what it says.
            threading.Thread(target=child.stderr.read, daemon=True).start()
            yield {"url": f"http://127.0.0.1:{port}/mcp"}, child
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def scratch():
    """A folder for a check alone."""
    with tempfile.TemporaryDirectory(prefix="narthex-mcp-") as folder:
        yield pathlib.Path(folder)


def sent(log, method):
    """Returns the messages of a method that a log has."""
    lines = log.read_text().splitlines() if log.exists() else []
    messages = [json.loads(line) for line in lines]
    return [message for message in messages if message.get("method") == method]


def eventually(what, look):
    until = time.monotonic() + SECONDS_MAX
    while not (found := look()):
        expect(time.monotonic() < until, f"never came: {what}")
        time.sleep(0.05)
    return found


def all_connect(world):
    """all five are reached, and `connections status` says so"""
    servers = {
        "everything": world.npm("server-everything"),
        "files": world.npm("server-filesystem", str(HERE)),
        "memory": world.npm("server-memory"),
        "time": world.pypi("mcp-server-time"),
        "fetch": world.pypi("mcp-server-fetch"),
    }
    with world.stand(servers) as stand:
        done, stands = stand.status()
        expect(done.code == 0, "not all are connected", done)
        least = {"everything": 13, "files": 10, "memory": 8, "time": 2, "fetch": 1}
        for name, count in least.items():
            one = stands[name]
            expect(one["state"] == "connected" and one["tools"] >= count, f"{name}: {one}")


def everything_results(world):
    """everything: text, structure, images, links and resources become what a model reads"""
    with world.stand({"every": world.npm("server-everything")}) as stand:
        for tool, arguments, part in [
            ("echo", {"message": "grüße"}, "Echo: grüße"),
            ("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5"),
            ("get-structured-content", {"location": "Chicago"}, "temperature"),
            ("get-tiny-image", {}, "image/png"),
            ("get-resource-links", {"count": 2}, "[resource "),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "[resource "),
            ("get-annotated-message", {"messageType": "error"}, "Error"),
        ]:
            result = stand.call(f"mcp__every__{tool}", **arguments)
            expect(not result["isError"] and part in words(result), f"{tool}: {part}", result)


def everything_progress(world):
    """everything: progress is shown while a call runs"""
    with world.stand({"every": world.npm("server-everything")}) as stand:
        events = stand.events("mcp__every__trigger-long-running-operation", duration=1, steps=4)
        shown = "".join(json.dumps(event) for event in events if event["type"] == "tool_progress")
        for step in range(1, 5):
            expect(f"{step} of 4" in shown, f"step {step} is not shown", shown)


def m4_stop(world):
    """M4: a stop of the turn is told to the server"""
    with scratch() as folder, world.stand(world.logged(folder)) as stand:
        log = folder / "sent.log"
        stand.script("mcp__every__trigger-long-running-operation", {"duration": 60, "steps": 60})
        child = stand.start("run", "--model", MODEL, "--mode", "full-auto", "go",
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
        call = eventually("the call", lambda: sent(log, "tools/call"))[0]
        child.send_signal(signal.SIGINT)
        told = eventually("the cancellation", lambda: sent(log, "notifications/cancelled"))[0]
        expect(told["params"]["requestId"] == call["id"], "another request is cancelled", told)
        expect(child.wait(SECONDS_MAX) == 130, "the run does not end as stopped")


def m4_time_out(world):
    """M4: a call that takes too long is cancelled on the wire, and fails"""
    with scratch() as folder, world.stand(world.logged(folder, call_timeout_ms=500)) as stand:
        log = folder / "sent.log"
        result = stand.call("mcp__every__trigger-long-running-operation", duration=60, steps=60)
        expect(result["isError"] and "did not answer within" in words(result), "no failure", result)
        call, told = sent(log, "tools/call")[0], sent(log, "notifications/cancelled")[0]
        expect(told["params"]["requestId"] == call["id"], "another request is cancelled", told)


ANSWERS = {"email": "ada@example.org", "uri": "https://example.org", "date": "1990-12-10"}


def answer(question):
    """Takes what the server proposes, else something that fits."""
    options = question["options"]
    proposed = [one["id"] for one in options if one.get("description") == "the default"]
    if proposed:
        return {"answers": proposed}
    choices = [one["id"] for one in options if one["label"] not in ("Leave it out", "Do not answer")]
    if choices:
        return {"answers": choices[:1]}
    kind = next((kind for kind in ANSWERS if kind in question["question"]), None)
    return {"answers": [], "other": ANSWERS.get(kind, "Ada Lovelace")}


def a4_elicitation(world):
    """A4: what a server asks reaches the person as questions, and the answers the server"""
    with world.stand({"every": world.npm("server-everything")}) as stand:
        asked = []

        def answers(question):
            asked.append(question["question"])
            return answer(question)

        events = stand.talk("mcp__every__trigger-elicitation-request", {}, answers)
        result = next(event for event in events if event["type"] == "tool_result")
        expect(len(asked) >= 10 and all("every asks" in one for one in asked), "questions", asked)
        for part in ("Ada Lovelace", "It was a dark and stormy night.", "hero-1"):
            expect(part in words(result), f"{part} did not arrive", words(result))


def a4_elicitation_of_nobody(world):
    """A4: with nobody to ask, what a server asks is dismissed and the call goes on"""
    with world.stand({"every": world.npm("server-everything")}) as stand:
        result = stand.call("mcp__every__trigger-elicitation-request")
        expect("cancel" in words(result), "the dialog was not dismissed", result)


def a4_address(world):
    """A4: an address is shown to the person, and nothing opens it"""
    with world.stand({"every": world.npm("server-everything")}) as stand:
        asked = []

        def answers(question):
            asked.append(question["question"])
            return {"answers": [question["options"][0]["id"]]}

        url = "https://desk.example/form"
        events = stand.talk("mcp__every__trigger-url-elicitation", {"url": url}, answers)
        result = next(event for event in events if event["type"] == "tool_result")
        expect(len(asked) == 1 and url in asked[0], "the address is not shown", asked)
        expect("accept" in words(result), "the server did not hear of it", words(result))


def streamable_http(world):
    """everything over Streamable HTTP: results, progress, questions"""
    with world.over_http() as (server, _), world.stand({"every": server}) as stand:
        done, stands = stand.status()
        expect(stands["every"]["state"] == "connected", "not connected", done)
        result = stand.call("mcp__every__echo", message="over http")
        expect("Echo: over http" in words(result), "no echo", result)
        events = stand.events("mcp__every__trigger-long-running-operation", duration=1, steps=3)
        shown = "".join(json.dumps(event) for event in events if event["type"] == "tool_progress")
        expect("3 of 3" in shown, "no progress", events)
        events = stand.talk("mcp__every__trigger-elicitation-request", {}, answer)
        result = next(event for event in events if event["type"] == "tool_result")
        expect("Ada Lovelace" in words(result), "the answers did not arrive", words(result))


def m1_http(world):
    """M1: an address that is gone is told, with what may help"""
    with world.over_http() as (server, child), world.stand({"every": server}) as stand:
        child.kill()
        child.wait()
        done, stands = stand.status()
        expect(done.code == 1, "a server that is gone counts as there", done)
        error = stands["every"]["error"]
        expect("does it run, and is its url right?" in error, "no help", error)


def m1_killed(world):
    """M1: a server killed between calls fails one call at most, and comes back with its tools"""
    with scratch() as folder:
        pids = folder / "pids"
        servers = world.through('echo $$ >>"$1"; shift; exec "$@"', pids)
        with world.stand(servers) as stand:
            killed_between(stand, pids)


def killed_between(stand, pids):
    kill = f"kill -9 $(tail -n 1 {pids})"
    echo = {"name": "mcp__every__echo"}
    stand.model.push(calls=[echo | {"args": {"message": "one"}}])
    stand.model.push(calls=[{"name": "run_shell", "args": {"command": kill}}])
    stand.model.push(calls=[echo | {"args": {"message": "two"}}])
    stand.model.push(calls=[echo | {"args": {"message": "three"}}])
    stand.model.push(text="done")
    done = stand.go()
    results = [event for event in done.events() if event["type"] == "tool_result"]
    expect(len(results) == 4, "four results", done)
    # It is a matter of a millisecond whether the loss is noticed before the call or by it.
    lost = "lost during the call" in words(results[2])
    expect(lost or "Echo: two" in words(results[2]), "neither failed nor answered", results)
    expect("Echo: three" in words(results[3]), "the server did not come back", results)
    expect(len(pids.read_text().split()) == 2, "it was not started anew", pids.read_text())


def m3_list_changed(world):
    """M3: tools that a server brings after it has begun are there"""
    # It knows only then what its client can do, and says that its list has changed.
    with world.stand({"every": world.npm("server-everything")}) as stand:
        result = stand.call("mcp__every__trigger-elicitation-request")
        expect("there is no tool" not in words(result), "the new tool is not there", result)


def deferral(world):
    """more tools than the threshold: one finds the others"""
    with world.stand({"every": world.npm("server-everything")}, defer_threshold=10) as stand:
        stand.model.push(calls=[{"name": "mcp_find_tools", "args": {"query": "echo a message"}}])
        stand.script("mcp__every__echo", {"message": "found"})
        done = stand.go()
        expect(done.code == 0 and "Echo: found" in done.out, "the found tool was not called", done)


def filesystem(world):
    """filesystem: reads and writes below its folder, and nothing else"""
    with scratch() as folder, world.stand(
            {"files": world.npm("server-filesystem", str(folder))}) as stand:
        (folder / "note.txt").write_text("pineapple\n")
        result = stand.call("mcp__files__read_text_file", path=str(folder / "note.txt"))
        expect("pineapple" in words(result), "the file was not read", result)
        made = folder / "new.txt"
        stand.call("mcp__files__write_file", path=str(made), content="written")
        expect(made.read_text() == "written", "the file was not written")
        result = stand.call("mcp__files__read_text_file", path="/etc/hostname")
        expect(result["isError"], "a file outside was read", result)


def memory(world):
    """memory: keeps what it is told between two runs"""
    with scratch() as folder, world.stand({"memory": world.npm("server-memory") | {
            "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}}}) as stand:
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
        result = stand.call("mcp__memory__create_entities", entities=[entity])
        expect(not result["isError"], "nothing was kept", result)
        result = stand.call("mcp__memory__search_nodes", query="programs")
        expect("Ada" in words(result), "it was forgotten", result)


def clock(world):
    """time: tells and converts"""
    with world.stand({"time": world.pypi("mcp-server-time")}) as stand:
        result = stand.call("mcp__time__get_current_time", timezone="UTC")
        expect("UTC" in words(result), "no time", result)
        result = stand.call("mcp__time__convert_time", source_timezone="UTC", time="12:00",
                            target_timezone="Asia/Tokyo")
        expect("21:00" in words(result), "no conversion", result)
        result = stand.call("mcp__time__get_current_time", timezone="Nowhere/Land")
        expect(result["isError"], "an unknown zone has a time", result)


class Page(http.server.BaseHTTPRequestHandler):
    """One page, and nothing for robots."""

    def do_GET(self):
        is_page = self.path == "/page"
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if is_page:
            self.wfile.write(b"<html><body><h1>Pears</h1><p>ripe pears</p></body></html>")

    def log_message(self, *_):
        pass


def fetch(world):
    """fetch: reads a page"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{pages.server_port}/page"
        try:
            with world.stand({"fetch": world.pypi("mcp-server-fetch", "--allow-private-ips")}) as stand:
                result = stand.call("mcp__fetch__fetch", url=url)
                expect("ripe pears" in words(result), "the page was not read", result)
        finally:
            pages.shutdown()


CHECKS = [all_connect, everything_results, everything_progress, m4_stop, m4_time_out,
          a4_elicitation, a4_elicitation_of_nobody, a4_address, streamable_http, m1_http, m1_killed,
          m3_list_changed, deferral, filesystem, memory, clock, fetch]


def run(node, python, model_server):
    is_well = True
    for check in CHECKS:
        model = Model(model_server)
        begun = time.monotonic()
        try:
            check(World(node, python, model))
            trouble = None
        except Failed as error:
            trouble = str(error)
        except Exception:  # A check that breaks is one that fails; the others still run.
            trouble = traceback.format_exc()
        finally:
            model.close()
        took = time.monotonic() - begun
        print(f"{'FAIL' if trouble else 'ok  '} {check.__doc__} ({took:.1f} s)", flush=True)
        if trouble:
            is_well = False
            print("     " + trouble[-6_000:].replace("\n", "\n     "))
    return is_well
