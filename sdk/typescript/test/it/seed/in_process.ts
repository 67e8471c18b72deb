// The first example of the seed as it stands, apart from the product's name.
import { createAgent } from '@narthex/sdk';

const agent = await createAgent({
  cwd: '/path/to/repo',
  model: 'anthropic/claude-sonnet-5-5',
  mode: 'ask',
  // Called whenever a tool call needs approval. Without it such calls are denied.
  onPermission: async (req) => {
    console.log(`${req.toolName}: ${req.target.summary}`);
    return req.target.effect === 'write' ? { kind: 'allow_once' } : { kind: 'deny', feedback: 'read-only please' };
  },
});

try {
  const result = await agent.prompt('Fix the failing test in src/parser.ts', {
    onEvent: (e) => {
      if (e.type === 'text_delta') process.stdout.write(e.text);
    },
  });
  console.log(`\n${result.reason}, ${result.usage.outputTokens} output tokens, $${result.costUsd ?? '?'}`);
} finally {
  await agent.close();
}
