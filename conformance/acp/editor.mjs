// An editor: the official client library around `narthex acp`, with files and terminals.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Transform, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { Wire } from "./wire.mjs";

const { methods } = acp;

/** A command in a terminal of the editor. */
class Terminal {
  constructor({ command, args, cwd, env }) {
    const variables = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
    this.output = "";
    this.child = spawn(command, args ?? [], {
      cwd,
      env: { ...process.env, ...variables },
      stdio: ["ignore", "pipe", "pipe"],
      // Its processes are ended with it.
      detached: true,
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (piece) => (this.output += piece));
    }
    this.ended = once(this.child, "close").then(([code, signal]) => ({ exitCode: code, signal }));
    this.status = null;
    this.ended.then((status) => (this.status = status));
  }

  kill() {
    if (this.status === null) process.kill(-this.child.pid, "SIGKILL");
  }
}

export class Editor {
  updates = [];
  permissions = [];
  terminals = new Map();
  /** Texts that are not saved yet, by path. */
  unsaved = new Map();
  written = [];
  errors = [];
  /** Which option is taken, by the request. */
  decide = () => "allow_once";
  onPermission = () => {};
  onTerminal = () => {};

  /** Starts the agent; `env` and `cwd` are its. */
  constructor(command, { env, cwd }) {
    this.child = spawn(command, ["acp"], { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (piece) => (this.log += piece));
    this.exited = once(this.child, "exit");
    this.wire = new Wire();
    this.#connect();
  }

  #connect() {
    const { wire, errors } = this;
    let rest = "";
    const read = new Transform({
      transform(piece, _, done) {
        rest += piece;
        const lines = rest.split("\n");
        rest = lines.pop();
        for (const line of lines) {
          try {
            wire.read(line);
          } catch (error) {
            errors.push(error);
          }
        }
        done(null, piece);
      },
    });
    const sent = new Transform({
      transform(piece, _, done) {
        for (const line of piece.toString().split("\n").filter(Boolean)) {
          try {
            wire.sent(JSON.parse(line));
          } catch {
            // A test sends lines that are no JSON.
          }
        }
        done(null, piece);
      },
    });
    sent.pipe(this.child.stdin);
    this.input = sent;
    const stream = acp.ndJsonStream(Writable.toWeb(sent), Readable.toWeb(this.child.stdout.pipe(read)));
    const app = acp
      .client({ name: "conformance" })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params.update);
      })
      .onRequest(methods.client.session.requestPermission, ({ params, signal }) => {
        this.permissions.push(params);
        this.onPermission(params);
        const choice = this.decide(params);
        if (choice !== null) return { outcome: { outcome: "selected", optionId: choice } };
        // As when a person does not answer before the turn is cancelled.
        return new Promise((resolve) => {
          this.cancelPermission = () => resolve({ outcome: { outcome: "cancelled" } });
          signal.addEventListener("abort", () => this.cancelPermission());
        });
      })
      .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
        if (this.unsaved.has(params.path)) return { content: this.unsaved.get(params.path) };
        try {
          return { content: await readFile(params.path, "utf8") };
        } catch {
          throw acp.RequestError.resourceNotFound(params.path);
        }
      })
      .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
        this.unsaved.delete(params.path);
        this.written.push(params.path);
        await writeFile(params.path, params.content);
        return {};
      })
      .onRequest(methods.client.terminal.create, ({ params }) => {
        const terminalId = `terminal-${this.terminals.size + 1}`;
        this.terminals.set(terminalId, new Terminal(params));
        this.onTerminal(terminalId);
        return { terminalId };
      })
      .onRequest(methods.client.terminal.output, ({ params }) => {
        const { output, status } = this.terminals.get(params.terminalId);
        return { output, truncated: false, exitStatus: status };
      })
      .onRequest(methods.client.terminal.waitForExit, ({ params }) =>
        this.terminals.get(params.terminalId).ended,
      )
      .onRequest(methods.client.terminal.kill, ({ params }) => {
        this.terminals.get(params.terminalId).kill();
        return {};
      })
      .onRequest(methods.client.terminal.release, ({ params }) => {
        this.terminals.get(params.terminalId).kill();
        return {};
      });
    this.connection = app.connect(stream);
    this.agent = this.connection.agent;
  }

  /** Says hello, with everything that an editor lends. */
  hello() {
    return this.agent.request(methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        terminal: true,
      },
      clientInfo: { name: "conformance", version: "1" },
    });
  }

  open(cwd) {
    return this.agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
  }

  /** Prompts, and returns the reason of the end and the updates on the way. */
  async prompt(sessionId, text) {
    const before = this.updates.length;
    const prompt = [{ type: "text", text }];
    const answer = await this.agent.request(methods.agent.session.prompt, { sessionId, prompt });
    return { reason: answer.stopReason, updates: this.updates.slice(before) };
  }

  /** Closes the agent's input, and returns how it ended. */
  async leave() {
    this.child.stdin.end();
    const [code, signal] = await this.exited;
    return { code, signal };
  }
}

/** The text of all chunks of one kind. */
export function textOf(updates, kind) {
  return updates
    .filter((it) => it.sessionUpdate === kind)
    .map((it) => it.content.text ?? "")
    .join("");
}

/** A tool call as its updates left it. */
export function callOf(updates, title) {
  const begun = updates.find((it) => it.sessionUpdate === "tool_call" && it.title.includes(title));
  if (!begun) return undefined;
  const later = updates.filter(
    (it) => it.sessionUpdate === "tool_call_update" && it.toolCallId === begun.toolCallId,
  );
  return Object.assign({}, begun, ...later);
}
