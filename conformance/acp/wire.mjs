// Each line of the agent, held against the JSON Schema that the library ships.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";

const require = createRequire(import.meta.url);
const path = require
  .resolve("@agentclientprotocol/sdk")
  .replace(/dist.*$/, "schema/v1/schema.json");
const schema = JSON.parse(readFileSync(path, "utf8"));

const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false, discriminator: false });
ajv.addSchema(schema, "acp");

/** Finds the type of a method's message: `ending` tells which of them. */
function typeOf(method, ...endings) {
  for (const [name, type] of Object.entries(schema.$defs)) {
    if (type["x-method"] === method && endings.some((it) => name.endsWith(it))) return name;
  }
  throw new Error(`the schema has no ${endings} of ${method}`);
}

function check(type, value, line) {
  const fits = ajv.getSchema(`acp#/$defs/${type}`);
  if (!fits) throw new Error(`the schema has no type ${type}`);
  if (!fits(value)) {
    const [first] = fits.errors;
    throw new Error(`no ${type}: ${first.instancePath} ${first.message}\n${line}`);
  }
}

/** What an agent wrote, against what it was asked. */
export class Wire {
  #asked = new Map();
  lines = 0;

  /** Takes a message that goes to the agent. */
  sent(message) {
    if (message.method && message.id !== undefined) this.#asked.set(message.id, message.method);
  }

  /** Takes a line of the agent; throws where it is not as the schema wants it. */
  read(line) {
    this.lines += 1;
    const message = JSON.parse(line);
    if (message.jsonrpc !== "2.0") throw new Error(`no JSON-RPC 2.0: ${line}`);
    if (message.method) {
      check(typeOf(message.method, "Request", "Notification"), message.params, line);
    } else if (message.error) {
      check("Error", message.error, line);
    } else {
      const method = this.#asked.get(message.id);
      if (!method) throw new Error(`an answer to nothing: ${line}`);
      check(typeOf(method, "Response"), message.result, line);
    }
  }
}
