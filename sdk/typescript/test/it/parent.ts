// A program that dies with an agent open: says the process id of the runtime, then waits.
import { createAgent } from '@narthex/sdk';

const agent = await createAgent({ cwd: process.argv[2]!, mode: 'ask' });
console.log(agent.runtime.pid);
if (process.argv[3] === 'forgets') {
  // Nothing is left to do: the program ends although nobody closed the agent.
} else {
  await agent.prompt('wait for ever');
}
