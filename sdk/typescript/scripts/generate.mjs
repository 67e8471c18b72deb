// Writes src/generated/*.ts from the schemas of the repository; with --check it only compares.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import openapiTS, { astToString } from 'openapi-typescript';

const SCHEMAS = new URL('../../../schema/', import.meta.url);
const OUT = new URL('../src/generated/', import.meta.url);

/** Keywords beside `$ref` are dropped by the generator: `allOf` says the same and is kept. */
function untangle(schema) {
  if (Array.isArray(schema)) return schema.map(untangle);
  if (schema === null || typeof schema !== 'object') return schema;
  const whole = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, untangle(value)]),
  );
  const { $ref, description, ...rest } = whole;
  if (typeof $ref !== 'string' || Object.keys(rest).length === 0) return whole;
  return { ...(description === undefined ? {} : { description }), allOf: [rest, { $ref }] };
}

/** A JSON Schema document with `$defs`, as the components of an OpenAPI document. */
function asComponents(document) {
  const text = JSON.stringify(document).replaceAll('#/$defs/', '#/components/schemas/');
  const { $schema: _, $defs, title, ...root } = JSON.parse(text);
  return {
    openapi: '3.1.0',
    info: { title, version: '1' },
    paths: {},
    components: { schemas: untangle({ [title]: root, ...$defs }) },
  };
}

async function render(source, document) {
  const tree = await openapiTS(document, { defaultNonNullable: false, silent: true });
  return `// Generated from schema/${source} by \`npm run generate\`. Do not edit.\n\n${astToString(tree)}`;
}

/** The bodies of an OpenAPI document; what its operations are, the client knows itself. */
function bodiesOf({ paths: _, ...document }) {
  return { ...document, paths: {} };
}

const jobs = [
  ['event.schema.json', 'event.ts', asComponents],
  ['v1.openapi.json', 'http.ts', bodiesOf],
];
const checks = process.argv.includes('--check');
let stale = 0;
for (const [source, target, prepare] of jobs) {
  const path = new URL(source, SCHEMAS);
  const text = await render(source, prepare(JSON.parse(readFileSync(path, 'utf8'))));
  const out = new URL(target, OUT);
  if (!checks) {
    writeFileSync(out, text);
  } else if (!existsSync(out) || readFileSync(out, 'utf8') !== text) {
    console.error(`${fileURLToPath(out)} is stale: run \`npm run generate\``);
    stale += 1;
  }
}
process.exitCode = stale === 0 ? 0 : 1;
