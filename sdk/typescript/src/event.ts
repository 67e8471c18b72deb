import type { components } from './generated/event.js';
import type { components as httpComponents } from './generated/http.js';

type Schemas = components['schemas'];
type Http = httpComponents['schemas'];

export type Mode = Schemas['Mode'];
export type Effect = Schemas['Effect'];
export type Risk = Schemas['Risk'];
export type Persist = Schemas['Persist'];
export type Block = Schemas['Block'];
export type Target = Schemas['Target'];
export type Usage = Schemas['Usage'];
export type Checkpoint = Schemas['Checkpoint'];
export type TurnEnd = Schemas['TurnEnd'];
export type TurnResult = Schemas['TurnResult'];

/** One event of the schema, with its envelope. */
export type AgentEvent = Schemas['Event'];

/** Stands where a stream could not give all that was recorded. No place to resume from. */
export type ReplayGap = Http['ReplayGap'];

// An enum member is a type of its own that equals no literal, and still a string: comparing `type`
// with a known name rules this event out, and what is left can be read. Nothing exists at run time.
declare enum UnknownType {
  Newer = '(a type that this package does not know)',
}

/** An event of a server that is newer than this package. */
export interface UnknownEvent {
  /** Its name; a string that none of the known names equals. */
  type: UnknownType;
  [field: string]: unknown;
}

/**
 * What streams yield. Comparing `type` narrows to one event; what no comparison named, new types
 * of newer servers included, is left for the `default:` branch:
 *
 * ```ts
 * switch (event.type) {
 *   case 'text_delta': process.stdout.write(event.text); break;
 *   default: console.error(event.type);
 * }
 * ```
 */
export type Event = AgentEvent | ReplayGap | UnknownEvent;

type Named<T extends string> = Extract<AgentEvent, { type: T }>;

export type PermissionRequest = Named<'permission_request'>;
export type QuestionRequest = Named<'question_request'>;
export type PlanRequest = Named<'plan_request'>;
/** An interaction that waits for an answer. */
export type InteractionRequest = PermissionRequest | QuestionRequest | PlanRequest;
