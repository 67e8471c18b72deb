// The loop of the seed as it stands, around an agent like that of its first example.
import { createAgent } from '@narthex/sdk';

const agent = await createAgent({
  cwd: '/path/to/repo',
  model: 'anthropic/claude-sonnet-5-5',
  mode: 'ask',
});

for await (const e of agent.stream('Summarize the README')) {
  if (e.type === 'text_delta') process.stdout.write(e.text);
}

await agent.close();
