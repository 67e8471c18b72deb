// What the compiler must accept and refuse; nothing in here does anything at run time.
import { test } from 'node:test';

import type {
  Answer,
  Event,
  PermissionDecision,
  PlanDecision,
  QuestionDecision,
} from '@narthex/sdk';
import type { components } from '../../dist/generated/http.js';

/** Our forms of answers are those that the server takes. */
export const taken = (answer: Answer): components['schemas']['Answer'] => answer;

/** Comparing `type` narrows to one event, and leaves unknown ones for the rest. */
export function narrows(event: Event): string | number {
  if (event.type === 'text_delta') return event.text satisfies string;
  switch (event.type) {
    case 'usage':
      return event.outputTokens satisfies number;
    case 'permission_request':
      return event.target.summary satisfies string;
    case 'replay_gap':
      return event.dropped satisfies number;
    case 'session_start':
      // @ts-expect-error: an event has the fields of its type alone.
      return event.text;
    default:
      return event.type satisfies string;
  }
}

export const permissions: PermissionDecision[] = [
  { answer: 'allow_once' },
  { answer: 'allow_always', rule: 'run_shell(npm test *)', persist: 'session' },
  { answer: 'deny', feedback: 'use the staging database instead' },
  { kind: 'allow_always' },
  // @ts-expect-error: no such answer.
  { answer: 'maybe' },
  // @ts-expect-error: no such kind.
  { kind: 'approved' },
];
export const questions: QuestionDecision[] = [
  { answer: { answers: ['Postgres'], other: 'with pgvector' } },
  { answer: { dismissed: true } },
  { kind: 'answered', other: 'neither' },
];
export const plans: PlanDecision[] = [
  { answer: { approved: true, mode: 'auto-edit' } },
  { answer: { approved: false, feedback: 'split it in two PRs' } },
  { kind: 'rejected' },
  // @ts-expect-error: no such mode.
  { kind: 'approved', mode: 'fast' },
];

test('types: they compile', () => undefined);
