// The remote client of the seed as it stands, apart from the product's name.
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { connect } from '@narthex/sdk';

const { url, token } = JSON.parse(readFileSync(`${homedir()}/.narthex/server.json`, 'utf8'));
const client = connect({ url, token });

const session = await client.createSession({ cwd: '/home/me/src/app', mode: 'ask' });
const result = await session.run('Add input validation to the signup form', {
  onEvent: (e) => {
    if (e.type === 'text_delta') process.stdout.write(e.text);
  },
  onPermission: (req) => (req.effect === 'write' ? { answer: 'allow_once' } : { answer: 'deny' }),
  onQuestion: (q) => ({ answer: { answers: [q.options[0]!.label] } }),
});
console.log(`\n${result.reason}`);
await session.close();
