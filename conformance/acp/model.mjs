// The scripted model server as a child process.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { once } from "node:events";

export class Model {
  #child;
  #lines;

  /** Starts a server that answers nothing yet. */
  static async start(path) {
    const model = new Model();
    model.#child = spawn(path, { stdio: ["pipe", "pipe", "inherit"] });
    model.#lines = createInterface({ input: model.#child.stdout })[Symbol.asyncIterator]();
    model.bases = JSON.parse((await model.#lines.next()).value);
    return model;
  }

  /** Adds answers, each in the form of a scenario file, to be taken one by one. */
  async says(...answers) {
    for (const answer of answers) {
      this.#child.stdin.write(JSON.stringify(answer) + "\n");
      const reply = (await this.#lines.next()).value;
      if (JSON.parse(reply ?? "null") !== "ok") {
        throw new Error(`the model does not take ${JSON.stringify(answer)}`);
      }
    }
  }

  /** Ends it and returns its report. */
  async close() {
    this.#child.stdin.end();
    const report = JSON.parse((await this.#lines.next()).value);
    if (this.#child.exitCode === null) await once(this.#child, "exit");
    return report;
  }
}
