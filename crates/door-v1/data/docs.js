"use strict";
// The token stays in this tab: never in an address, never on the disk.
const KEY = "narthex-token";
// Characters of a stream that stay on the page.
const SHOWN_MAX = 200000;
const base = new URL(".", location.href);
const at = (id) => document.getElementById(id);
let token = sessionStorage.getItem(KEY) || "";
let doc = null;

function el(name, props, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function say(text, bad) {
  at("said").textContent = text;
  at("said").className = bad ? "bad" : "";
}

const call = (path, more) => fetch(new URL(path.replace(/^\//, ""), base), {
  ...more, cache: "no-store", credentials: "omit",
  headers: { authorization: `Bearer ${token}`, ...(more && more.headers) },
});

function show(isIn) {
  at("enter").hidden = isIn;
  at("leave").hidden = !isIn;
  at("whole").hidden = !isIn;
  if (!isIn) at("token").focus();
}

async function open() {
  say("Loading…");
  try {
    const reply = await call("openapi.json");
    if (reply.status === 401) {
      sessionStorage.removeItem(KEY);
      show(false);
      return say("The server does not know this token.", true);
    }
    if (!reply.ok) return say(`The server answered ${reply.status}.`, true);
    doc = await reply.json();
  } catch (error) {
    show(false);
    return say(`The server cannot be reached: ${error.message}`, true);
  }
  sessionStorage.setItem(KEY, token);
  show(true);
  say(`version ${doc.info.version}`);
  draw();
}

// Words with code between back-ticks.
const prose = (text) => el("span", {}, ...text.split("`").map((piece, place) => (place % 2 ? el("code", {}, piece) : piece)));

const resolve = (node) => node && node.$ref
  ? node.$ref.slice(2).split("/").reduce((place, key) => place && place[key], doc) || node
  : node;

const json = (value) => JSON.stringify(value, null, 2);

function operations() {
  const found = [];
  for (const [path, item] of Object.entries(doc.paths))
    for (const [method, operation] of Object.entries(item)) found.push({ path, method, ...operation });
  return found;
}

function draw() {
  at("about").replaceChildren(prose(doc.info.description));
  at("operations").replaceChildren();
  at("types").replaceChildren();
  const all = operations();
  for (const tag of doc.tags) {
    at("operations").append(el("h2", {}, tag.name), el("p", {}, tag.description));
    for (const operation of all.filter((it) => it.tags.includes(tag.name)))
      at("operations").append(card(operation));
  }
  for (const [name, schema] of Object.entries(doc.components.schemas))
    at("types").append(el("details", { id: `schema-${name}` }, el("summary", {}, el("code", {}, name)),
      el("div", {}, schema.description ? el("p", {}, prose(schema.description)) : null, schemaBox(schema))));
  list("");
}

function list(word) {
  const nodes = [];
  const wanted = (it) => `${it.method} ${it.path} ${it.operationId} ${it.summary}`.toLowerCase().includes(word);
  for (const tag of doc.tags) {
    const own = operations().filter((it) => it.tags.includes(tag.name) && wanted(it));
    if (!own.length) continue;
    nodes.push(el("strong", {}, tag.name), el("ul", {}, ...own.map((it) =>
      el("li", {}, el("a", { href: `#${it.operationId}`, onclick: () => unfold(it.operationId) }, it.summary)))));
  }
  nodes.push(el("a", { href: "#schemas" }, "Schemas"));
  at("list").replaceChildren(...nodes);
}

function unfold(id) {
  const node = at(id);
  if (node) { node.open = true; node.querySelector("summary").focus(); }
}

// The schema as JSON, with its references as links.
function schemaBox(schema) {
  const box = el("pre", { tabindex: "0" });
  for (const piece of json(schema).split(/("#\/components\/schemas\/[^"]+")/)) {
    const name = (piece.match(/^"#\/components\/schemas\/([^"]+)"$/) || [])[1];
    box.append(name
      ? el("a", { href: `#schema-${name}`, onclick: () => unfold(`schema-${name}`) }, piece) : piece);
  }
  return box;
}

function table(head, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map((it) => el("th", { scope: "col" }, it)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((it) => el("td", {}, it))))));
}

function card(operation) {
  const inside = el("div");
  const node = el("details", { id: operation.operationId },
    el("summary", {}, el("span", { class: "verb" }, operation.method.toUpperCase()),
      el("span", { class: "path" }, operation.path), el("small", {}, operation.summary)), inside);
  // Filled when it is opened: the page is long.
  node.addEventListener("toggle", () => { if (node.open && !inside.hasChildNodes()) fill(operation, inside); });
  return node;
}

function fill(operation, inside) {
  for (const text of (operation.description || "").split("\n\n")) if (text) inside.append(el("p", {}, prose(text)));
  inside.append(...form(operation), el("h3", {}, "Answers"));
  inside.append(table(["status", "meaning"], Object.entries(operation.responses).map(([status, reply]) => {
    const cell = el("div", {}, prose(resolve(reply).description));
    for (const [type, content] of Object.entries(resolve(reply).content || {}))
      cell.append(el("details", {}, el("summary", {}, type), el("div", {}, schemaBox(content.schema),
        content.example ? el("pre", { tabindex: "0" }, json(content.example)) : null)));
    return [status, cell];
  })));
}

// The form that sends the call.
function form(operation) {
  const parameters = (operation.parameters || []).map(resolve);
  const id = (name) => `${operation.operationId}-${name}`;
  const fields = parameters.map((it) => ({ it, input: el("input", { id: id(it.name), autocomplete: "off",
    required: it.required ? "" : undefined, placeholder: it.schema.enum ? it.schema.enum.join(" | ") : it.in }) }));
  const nodes = fields.length ? [el("h3", {}, "Parameters"), table(["name", "value", "meaning"], fields.map(({ it, input }) =>
    [el("label", { for: input.id }, `${it.name}${it.required ? " *" : ""}`), input, prose(it.description)]))] : [];
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  let body = null;
  if (content) {
    const examples = Object.entries(content.examples || {});
    body = el("textarea", { id: id("body"), spellcheck: "false" });
    const first = examples[0] ? examples[0][1].value : {};
    body.value = operation.requestBody.required ? json(first) : "";
    const pick = el("select", { id: id("example"), onchange: (event) => { body.value = json(examples[event.target.value][1].value); } },
      ...examples.map(([name], place) => el("option", { value: place }, name)));
    nodes.push(el("h3", {}, "Body"), el("p", {}, operation.requestBody.description), schemaBox(content.schema),
      el("div", { class: "row" }, el("label", { for: id("example") }, "Example"), pick),
      el("label", { for: id("body") }, "JSON"), body);
  }
  const out = el("div", { "aria-live": "polite" });
  const stop = el("button", { type: "button", hidden: "" }, "Stop");
  const whole = el("form", {}, ...nodes, el("div", { class: "row" }, el("button", {}, "Send"), stop), out);
  whole.addEventListener("submit", (event) => {
    event.preventDefault();
    send(operation, fields, body && body.value.trim(), out, stop);
  });
  return [whole];
}

async function send(operation, fields, body, out, stop) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { it, input } of fields) {
    if (it.in === "path") path = path.replace(`{${it.name}}`, encodeURIComponent(input.value));
    else if (input.value && it.in === "query") query.set(it.name, input.value);
    else if (input.value) headers[it.name] = input.value;
  }
  if (body) headers["content-type"] = "application/json";
  const end = new AbortController();
  stop.hidden = false;
  stop.onclick = () => end.abort();
  const status = el("p", {}, "Sent…");
  const text = el("pre", { tabindex: "0" });
  out.replaceChildren(status, text);
  const begin = performance.now();
  try {
    const reply = await call(path + (query.size ? `?${query}` : ""),
      { method: operation.method.toUpperCase(), headers, body: body || undefined, signal: end.signal });
    status.textContent = `${reply.status} after ${Math.round(performance.now() - begin)} ms, `
      + `request ${reply.headers.get("x-request-id") || "without id"}`;
    status.className = reply.ok ? "" : "bad";
    const type = reply.headers.get("content-type") || "";
    if (type.startsWith("text/event-stream")) return await follow(reply, text);
    const raw = await reply.text();
    try { text.textContent = json(JSON.parse(raw)); } catch { text.textContent = raw; }
  } catch (error) {
    status.textContent += error.name === "AbortError" ? " Stopped." : ` Failed: ${error.message}`;
  } finally {
    stop.hidden = true;
  }
}

async function follow(reply, text) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text.textContent = (text.textContent + value).slice(-SHOWN_MAX);
    text.scrollTop = text.scrollHeight;
  }
}

at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  open();
});
at("leave").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  token = "";
  doc = null;
  at("operations").replaceChildren();
  at("types").replaceChildren();
  show(false);
  say("");
});
at("find").addEventListener("input", (event) => list(event.target.value.toLowerCase()));
if (token) open();
else { show(false); say("This needs the token that the server printed at its start."); }
