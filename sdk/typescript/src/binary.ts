import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

import { ServerProcessError } from './errors.js';
import type { Environment } from './server.js';

const NAME = process.platform === 'win32' ? 'narthex.exe' : 'narthex';

/**
 * Finds the program: as given, else as `NARTHEX_BIN` says, else the first on `PATH`.
 *
 * What is named and is not there is an error, even if another one could be found.
 */
export function findBinary(given: string | undefined, env: Environment): string {
  if (given !== undefined) return named(given, 'the option binary');
  const fromEnv = env['NARTHEX_BIN'];
  if (fromEnv) return named(fromEnv, 'NARTHEX_BIN');
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const found = folders.map((folder) => join(folder, NAME)).find(isProgram);
  // Absolute, since the program may be started in another folder than this one.
  if (found !== undefined) return resolve(found);
  throw new ServerProcessError(
    `no program '${NAME}' on PATH: install it, or name it with NARTHEX_BIN or the option binary`,
  );
}

function named(path: string, by: string): string {
  if (isProgram(path)) return resolve(path);
  throw new ServerProcessError(`${by} names '${path}', which is no program that can be started`);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
