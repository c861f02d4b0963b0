import type { IncomingMessage, ServerResponse } from 'node:http';
import { decide, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';
import { bodyOf } from './incoming-body.ts';
import { answer, headerOf } from './node-answer.ts';
import { reportWhenEnded } from './settle.ts';

export { GuardError, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

export interface HttpGuardSetup extends GuardSetup {
  /** Called with the error behind a 500: a `GuardError`, or the handler's. Default: console. */
  readonly onError?: (error: unknown) => void;
}

export type GuardedRequest = IncomingMessage & { readonly agentTrust: PassedDecision };
export type HttpHandler = (request: GuardedRequest, response: ServerResponse) => unknown;

/**
 * Makes `guard`, which wraps a handler of node:http. The handler runs on a PERMIT only, available as
 * `request.agentTrust`. The guard does not read the body: read it before, and return it in the option `body`,
 * or a request with a body gets no approval.
 */
export function httpGuard(
  setup: HttpGuardSetup,
): (
  options: GuardOptions<IncomingMessage, ServerResponse>,
  handler: HttpHandler,
) => (request: IncomingMessage, response: ServerResponse) => void {
  const { onError = console.error } = setup;
  return (options, handler) => {
    const run = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const verdict = await decide(setup, options, request, {
        method: request.method ?? '',
        path: request.url ?? '',
        header: headerOf(request),
        body: bodyOf(request, undefined),
      });
      if (verdict.kind === 'refuse') return answer(response, verdict);
      reportWhenEnded(setup, options, verdict.decision, { request, answer: response, response });
      await handler(Object.assign(request, { agentTrust: verdict.decision }), response);
    };
    return (request, response) => {
      run(request, response).catch((error: unknown) => {
        onError(error);
        if (response.headersSent) response.destroy();
        else answer(response, { kind: 'refuse', status: 500, headers: {}, body: internalError });
      });
    };
  };
}

const internalError = { error: { code: 'internal_error', message: 'internal error' } };
