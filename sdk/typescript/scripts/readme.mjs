// Writes the examples of README.md into test/it/readme/, so that they are compiled and run as tests.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const out = new URL('../test/it/readme/', import.meta.url);
mkdirSync(out, { recursive: true });
for (const [, name, code] of readme.matchAll(/^```ts\n\/\/ example: (\w+)\n(.*?)^```$/gms)) {
  writeFileSync(new URL(`${name}.ts`, out), code);
}
