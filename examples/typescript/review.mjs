// Asks an agent to read a folder and prints a review of it: `node review.mjs FOLDER`.
import { createInterface } from 'node:readline/promises';

import { createAgent } from '@narthex/sdk';

const folder = process.argv[2] ?? '.';
const terminal = createInterface({ input: process.stdin, output: process.stderr });
const stop = new AbortController();
terminal.on('SIGINT', () => stop.abort(new Error('stopped at the terminal')));
process.on('SIGINT', () => stop.abort(new Error('stopped at the terminal')));

/** Shows what the agent wants to do and asks for a yes. */
async function onPermission(request, { signal }) {
  console.error(`\n${request.toolName} wants to ${request.effect}: ${request.target.summary}`);
  const said = await terminal.question('Allow it? [y/N, or why not] ', { signal });
  const answer = said.trim();
  if (/^y(es)?$/i.test(answer)) return { kind: 'allow_once' };
  return /^(no?)?$/i.test(answer) ? { kind: 'deny' } : { kind: 'deny', feedback: answer };
}

const agent = await createAgent({ cwd: folder, mode: 'ask', onPermission });
try {
  const result = await agent.prompt(
    'Read what lies in this folder. Say in a few sentences what it is, what is good about it, ' +
      'and name the three things that most deserve attention. Change nothing.',
    {
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type === 'text_delta') process.stdout.write(event.text);
        if (event.type === 'tool_call')
          console.error(`· ${event.toolName} ${event.target.summary}`);
      },
    },
  );
  const { usage, costUsd, turns } = result;
  const price = costUsd == null ? 'price unknown' : `$${costUsd.toFixed(4)}`;
  console.log();
  console.error(
    `\n${result.reason} after ${turns} steps, ${usage.outputTokens} tokens written, ${price}`,
  );
  if (result.reason !== 'completed') process.exitCode = 1;
} catch (error) {
  console.error(`\n${error.message}`);
  process.exitCode = 1;
} finally {
  terminal.close();
  await agent.close();
}
