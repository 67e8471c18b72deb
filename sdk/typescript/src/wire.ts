import type { InteractionRequest, TurnResult } from './event.js';
import type { components } from './generated/http.js';

type Schemas = components['schemas'];

/** What a session to create is like; everything is optional. */
export type CreateSession = Schemas['CreateSession'];
/** A session as it is now. */
export type SessionInfo = Schemas['Session'];
/** What goes with a prompt. */
export type Attachment = Schemas['Attachment'];
/** A prompt that the server has taken. */
export type PromptAccepted = Schemas['Accepted'];
/** One entry of the transcript. */
export type Message = Schemas['Message'];
/** A part of the transcript. */
export type MessagePage = Schemas['Messages'];
/** A point to go back to: before one of the prompts. */
export type CheckpointInfo = Schemas['CheckpointState'];
export type RewindScope = Schemas['RewindScope'];
export type RewindResult = Schemas['RewindResult'];
export type UndoResult = Schemas['UndoResult'];
/** Something that runs beside the conversation. */
export type Task = Schemas['Task'];
/** What a session has used. */
export type SessionUsage = Schemas['SessionSpending'];
export type SlashCommand = Schemas['Command'];
export type ModelInfo = Schemas['Model'];
/** Without a valid token only the status is told. */
export type Health = Schemas['Health'];
/** What the stream over all sessions tells. */
export type FeedEvent = Schemas['FeedEvent'];

/** What came of a prompt. */
export type RunResult = TurnResult & { sessionId: string };

/** A request as the list of those that wait shows it. */
export type PendingRequest = InteractionRequest;
/** Whether a prompt was stopped. */
export type Interrupted = Schemas['Interrupted'];

/** Bodies of answers, as the wire has them. */
export type Answer = Schemas['Answer'];
export type PermissionAnswer = Extract<Answer, { answer: string }>;
export type PlanAnswer = Extract<Answer, { answer: { approved: boolean } }>;
export type QuestionAnswer = Exclude<Answer, PermissionAnswer | PlanAnswer>;
