import type { IncomingMessage, ServerResponse } from 'node:http';
import { decide, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';
import { bodyOf } from './incoming-body.ts';
import { answer, headerOf, rawBodyOf } from './node-answer.ts';
import { reportWhenEnded } from './settle.ts';

export { GuardError, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

declare global {
  namespace Express {
    interface Request {
      /** The decision of the guard of this route. */
      agentTrust?: PassedDecision;
    }
  }
}

/** The parts of a request of Express 4 and 5 that guards use. */
export interface ExpressRequest extends IncomingMessage {
  // biome-ignore lint/suspicious/noExplicitAny: as the types of Express have it
  body?: any;
  originalUrl: string;
  params: Record<string, string | string[]>;
  // biome-ignore lint/suspicious/noExplicitAny: as the types of Express have it
  query: any;
  agentTrust?: PassedDecision;
}

export type ExpressGuard = (
  request: ExpressRequest,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => Promise<void>;

/**
 * Makes `guard`, the middleware of a route for Express 4 and 5. The handler runs on a PERMIT only, available
 * as `request.agentTrust`. Put it after the body parser, so that approvals are bound to the body.
 */
export function expressGuard(
  setup: GuardSetup,
): (options: GuardOptions<ExpressRequest, ServerResponse>) => ExpressGuard {
  return (options) => async (request, response, next) => {
    try {
      const verdict = await decide(setup, options, request, {
        method: request.method ?? '',
        path: request.originalUrl,
        header: headerOf(request),
        body: bodyOf(request, request.body),
        rawBody: rawBodyOf(request),
      });
      if (verdict.kind === 'refuse') return answer(response, verdict);
      request.agentTrust = verdict.decision;
      reportWhenEnded(setup, options, verdict.decision, { request, answer: response, response });
    } catch (error) {
      return next(error);
    }
    next();
  };
}
