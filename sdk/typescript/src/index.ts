/// <reference lib="esnext.disposable" preserve="true" />
export * from './client.js';
export { Agent, createAgent } from './agent.js';
export type { AgentOptions, AgentRuntime, PromptOptions, StreamOptions } from './agent.js';
export { ServerProcessError } from './errors.js';
export { type Environment, type Server, type ServerOptions, startServer } from './server.js';
