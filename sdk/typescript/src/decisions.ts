import type { InteractionRequest, Mode, PermissionRequest, Persist } from './event.js';
import type { PlanRequest, QuestionRequest } from './event.js';
import type { Answer, PermissionAnswer, PlanAnswer, QuestionAnswer } from './wire.js';

/** What to do with a call that needs approval: the answer of the wire, or its short form. */
export type PermissionDecision =
  | PermissionAnswer
  | { kind: 'allow_once' }
  | { kind: 'allow_always'; rule?: string; persist?: Persist }
  | { kind: 'deny'; feedback?: string };

/** What to say to a question. */
export type QuestionDecision =
  QuestionAnswer | { kind: 'answered'; answers?: string[]; other?: string } | { kind: 'dismissed' };

/** What to do with a plan. */
export type PlanDecision =
  PlanAnswer | { kind: 'approved'; mode?: Mode } | { kind: 'rejected'; feedback?: string };

/** What a callback gets beside its request. */
export interface Asking {
  /** Aborted when the answer is not wanted any more: decided elsewhere, or the prompt is over. */
  signal: AbortSignal;
}

type Decide<Request, Decision> = (request: Request, asking: Asking) => Decision | Promise<Decision>;

/** Who answers what a prompt asks. Without them: denied, dismissed, rejected. */
export interface Callbacks {
  onPermission?: Decide<PermissionRequest, PermissionDecision> | undefined;
  onQuestion?: Decide<QuestionRequest, QuestionDecision> | undefined;
  onPlan?: Decide<PlanRequest, PlanDecision> | undefined;
}

/** Asks the callback that a request is for and returns what to send. */
export async function decide(
  callbacks: Callbacks,
  request: InteractionRequest,
  asking: Asking,
): Promise<Answer> {
  const { onPermission, onQuestion, onPlan } = callbacks;
  switch (request.type) {
    case 'permission_request':
      if (onPermission === undefined) break;
      return body('onPermission', await onPermission(request, asking));
    case 'question_request':
      if (onQuestion === undefined) break;
      return body('onQuestion', await onQuestion(request, asking));
    case 'plan_request':
      if (onPlan === undefined) break;
      return body('onPlan', await onPlan(request, asking));
  }
  return refusal(request);
}

/** What is answered where nobody decides; a question takes no words with it. */
export function refusal(request: InteractionRequest, feedback?: string): Answer {
  const words = feedback === undefined ? {} : { feedback };
  switch (request.type) {
    case 'permission_request':
      return { answer: 'deny', ...words };
    case 'question_request':
      return { answer: { dismissed: true } };
    case 'plan_request':
      return { answer: { approved: false, ...words } };
  }
}

type Decision = PermissionDecision | QuestionDecision | PlanDecision;

function body(callback: string, decision: Decision): Answer {
  if (decision === null || typeof decision !== 'object') {
    throw new TypeError(`${callback} must return an object with 'answer' or 'kind'`);
  }
  if (!('kind' in decision)) return decision;
  switch (decision.kind) {
    case 'allow_once':
    case 'allow_always':
    case 'deny': {
      const { kind: answer, ...rest } = decision;
      return { answer, ...rest } as PermissionAnswer;
    }
    case 'answered': {
      const { kind: _, answers = [], ...answer } = decision;
      return { answer: { answers, ...answer } };
    }
    case 'dismissed':
      return { answer: { dismissed: true } };
    case 'approved': {
      const { kind: _, ...answer } = decision;
      return { answer: { approved: true, ...answer } };
    }
    case 'rejected': {
      const { kind: _, ...answer } = decision;
      return { answer: { approved: false, ...answer } };
    }
    default: {
      const { kind } = decision as { kind: unknown };
      throw new TypeError(`${callback} returned the unknown kind '${String(kind)}'`);
    }
  }
}
