// Removes folders of this package: `node scripts/clean.mjs dist build`.
import { rmSync } from 'node:fs';

for (const name of process.argv.slice(2)) {
  rmSync(new URL(`../${name}`, import.meta.url), { recursive: true, force: true });
}
