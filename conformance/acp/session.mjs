// A whole session of an editor, over a restart of the agent.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { methods } from "@agentclientprotocol/sdk";
import { Editor, callOf, textOf } from "./editor.mjs";
import { Model } from "./model.mjs";

const { NARTHEX_BIN, MODEL_SERVER } = process.env;
const base = realpathSync(mkdtempSync(join(tmpdir(), "narthex-acp-")));
const [home, cwd] = [join(base, "home"), join(base, "project")];
mkdirSync(home, { mode: 0o700 });
mkdirSync(cwd);
const notes = join(cwd, "notes.txt");
writeFileSync(notes, "saved words\n");

const model = await Model.start(MODEL_SERVER);
const env = {
  PATH: process.env.PATH,
  HOME: home,
  NARTHEX_HOME: home,
  ANTHROPIC_API_KEY: "a-key",
  ANTHROPIC_BASE_URL: model.bases.anthropic,
};
const call = (name, args) => ({ calls: [{ name, args }] });
const says = (text) => ({ text });

let editor = new Editor(NARTHEX_BIN, { env, cwd });
let session;
let count = 0;
const editors = [editor];

/** Runs one check and says how it went. */
async function check(what, body) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it took more than 60 seconds")), 60_000);
  });
  try {
    await Promise.race([body(), late]);
    count += 1;
    console.log(`ok    ${what}`);
  } catch (error) {
    console.log(`FAILS ${what}\n${error.stack}\n--- log of the agent\n${editor.log}`);
    console.log(JSON.stringify(editor.updates.slice(-12), null, 1));
    for (const { child } of editors) child.kill("SIGKILL");
    process.exit(1);
  } finally {
    clearTimeout(timer);
  }
}

await check("hello: version and capabilities", async () => {
  const told = await editor.hello();
  assert.equal(told.protocolVersion, 1);
  assert.equal(told.agentCapabilities.loadSession, true);
  assert.ok(told.agentCapabilities.sessionCapabilities.list);
});

await check("a new session has modes, models and commands", async () => {
  const opened = await editor.open(cwd);
  session = opened.sessionId;
  assert.equal(opened.modes.currentModeId, "ask");
  const ids = opened.configOptions.map((it) => it.id);
  assert.deepEqual(ids, ["mode", "model"]);
  const limit = Date.now() + 10_000;
  while (!editor.updates.some((it) => it.sessionUpdate === "available_commands_update")) {
    assert.ok(Date.now() < limit, "no commands were told");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

await check("a prompt is answered in pieces", async () => {
  await model.says({ thinking: "Let me see.", signature: "sealed", text: "Good morning!", deltas: 4 });
  const { reason, updates } = await editor.prompt(session, "greet me");
  assert.equal(reason, "end_turn");
  assert.equal(textOf(updates, "agent_message_chunk"), "Good morning!");
  assert.equal(textOf(updates, "agent_thought_chunk"), "Let me see.");
});

await check("a read sees what the editor has not saved", async () => {
  editor.unsaved.set(notes, "unsaved words\n");
  await model.says(call("read_file", { path: "notes.txt" }), says("I read it."));
  const { reason, updates } = await editor.prompt(session, "read the notes");
  assert.equal(reason, "end_turn");
  const read = callOf(updates, "notes.txt");
  assert.equal(read.kind, "read");
  assert.equal(read.status, "completed");
  assert.deepEqual(read.locations[0].path, notes);
  assert.match(read.content[0].content.text, /unsaved words/);
});

await check("an edit is asked for with its diff and goes through the editor", async () => {
  const args = { path: "notes.txt", old_string: "unsaved", new_string: "edited" };
  await model.says(call("edit_file", args), says("Edited."));
  const { reason, updates } = await editor.prompt(session, "edit the notes");
  assert.equal(reason, "end_turn");
  const asked = editor.permissions.at(-1);
  const kinds = asked.options.map((it) => it.kind);
  for (const kind of ["allow_once", "allow_always", "reject_once", "reject_always"]) {
    assert.ok(kinds.includes(kind), kind);
  }
  const shown = asked.toolCall.content.find((it) => it.type === "diff");
  assert.deepEqual(
    [shown.path, shown.oldText, shown.newText],
    [notes, "unsaved words\n", "edited words\n"],
  );
  const edit = callOf(updates, "notes.txt");
  assert.equal(edit.kind, "edit");
  assert.equal(edit.status, "completed");
  assert.equal(edit.content[0].type, "diff");
  assert.deepEqual(editor.written, [notes]);
  assert.equal(readFileSync(notes, "utf8"), "edited words\n");
});

await check("a command runs in a terminal of the editor, which its call shows", async () => {
  await model.says(call("run_shell", { command: "echo out of $PWD; exit 3" }), says("It ended with 3."));
  const { reason, updates } = await editor.prompt(session, "run it");
  assert.equal(reason, "end_turn");
  assert.equal(editor.terminals.size, 1);
  const [id, terminal] = [...editor.terminals][0];
  assert.match(terminal.output, new RegExp(`out of ${cwd}`));
  const run = callOf(updates, "echo out");
  assert.equal(run.kind, "execute");
  assert.deepEqual(run.content, [{ type: "terminal", terminalId: id }]);
});

await check("a refused command does not run", async () => {
  editor.decide = () => "reject_once";
  await model.says(call("run_shell", { command: "touch never" }), says("All right."));
  const { reason, updates } = await editor.prompt(session, "touch it");
  assert.equal(reason, "end_turn");
  assert.equal(callOf(updates, "touch never").status, "failed");
  assert.equal(editor.terminals.size, 1);
  editor.decide = () => "allow_once";
});

await check("a cancelled turn ends with cancelled, and its command with it", async () => {
  await model.says(call("run_shell", { command: "sleep 600" }));
  editor.onTerminal = () => {
    editor.agent.notify(methods.agent.session.cancel, { sessionId: session });
  };
  const { reason, updates } = await editor.prompt(session, "wait");
  editor.onTerminal = () => {};
  assert.equal(reason, "cancelled");
  assert.equal(callOf(updates, "sleep 600").status, "failed");
  const last = [...editor.terminals.values()].at(-1);
  const status = await last.ended;
  assert.equal(status.signal, "SIGKILL");
});

await check("a cancelled turn takes its question back", async () => {
  editor.decide = () => null;
  await model.says(call("run_shell", { command: "echo never" }));
  editor.onPermission = () => {
    editor.agent.notify(methods.agent.session.cancel, { sessionId: session });
    editor.cancelPermission?.();
  };
  const { reason } = await editor.prompt(session, "ask me");
  editor.onPermission = () => {};
  editor.decide = () => "allow_once";
  assert.equal(reason, "cancelled");
});

await check("mode and options are changed and told", async () => {
  await editor.agent.request(methods.agent.session.setMode, { sessionId: session, modeId: "auto-edit" });
  const set = { sessionId: session, configId: "mode", value: "ask" };
  const answer = await editor.agent.request(methods.agent.session.setConfigOption, set);
  assert.equal(answer.configOptions[0].currentValue, "ask");
  const told = editor.updates.filter((it) => it.sessionUpdate === "current_mode_update");
  assert.equal(told[0].currentModeId, "auto-edit");
});

await check("a wrong request gets an error that names the field", async () => {
  const wrong = editor.agent.request(methods.agent.session.new, { cwd: "not/absolute", mcpServers: [] });
  await assert.rejects(wrong, /cwd: expected an absolute path/);
  await assert.rejects(editor.agent.request("no/such/method", {}), /method/);
});

await check("the session is listed", async () => {
  const listed = await editor.agent.request(methods.agent.session.list, { cwd });
  assert.deepEqual(listed.sessions.map((it) => it.sessionId), [session]);
});

await check("the agent ends with its input", async () => {
  assert.deepEqual(await editor.leave(), { code: 0, signal: null });
});

await check("a session is loaded after a restart and goes on", async () => {
  editor = new Editor(NARTHEX_BIN, { env, cwd });
  editors.push(editor);
  await editor.hello();
  const loaded = await editor.agent.request(methods.agent.session.load, {
    sessionId: session,
    cwd,
    mcpServers: [],
  });
  assert.equal(loaded.modes.currentModeId, "ask");
  const said = textOf(editor.updates, "user_message_chunk");
  assert.match(said, /^greet meread the notesedit the notes/);
  assert.match(textOf(editor.updates, "agent_message_chunk"), /Good morning!.*Edited\./s);
  const edit = editor.updates.filter((it) => it.kind === "edit");
  assert.equal(edit.length, 1);
  assert.equal(callOf(editor.updates, "sleep 600").status, "failed");
  await model.says(says("We go on."));
  const { reason, updates } = await editor.prompt(session, "go on");
  assert.equal(reason, "end_turn");
  assert.equal(textOf(updates, "agent_message_chunk"), "We go on.");
});

await check("the session is closed and erased", async () => {
  await editor.agent.request(methods.agent.session.close, { sessionId: session });
  await editor.agent.request(methods.agent.session.delete, { sessionId: session });
  const listed = await editor.agent.request(methods.agent.session.list, {});
  assert.deepEqual(listed.sessions, []);
  assert.deepEqual(await editor.leave(), { code: 0, signal: null });
});

await check("each line of the agent is as the schema of the library wants it", async () => {
  for (const { errors } of editors) assert.deepEqual(errors.map(String), []);
  const lines = editors.reduce((sum, { wire }) => sum + wire.lines, 0);
  assert.ok(lines > 40, `${lines} lines`);
});

await check("the model was asked as its provider wants", async () => {
  const report = await model.close();
  assert.deepEqual(report.violations, []);
  assert.equal(report.unscripted, 0);
});

rmSync(base, { recursive: true });
console.log(`${count} checks`);
