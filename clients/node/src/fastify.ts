import type { FastifyReply, FastifyRequest } from 'fastify';
import { decide, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';
import { bodyOf } from './incoming-body.ts';
import { headerOf, rawBodyOf } from './node-answer.ts';
import { reportWhenEnded } from './settle.ts';

export { GuardError, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of the guard of this route. */
    agentTrust?: PassedDecision;
  }
}

/** A request of Fastify whose body and parameters have any type, as those of a route without types. */
export type GuardedFastifyRequest = Pick<FastifyRequest, 'method' | 'url' | 'raw' | 'headers'> & {
  // biome-ignore lint/suspicious/noExplicitAny: a route without types has none of its body either
  readonly body: any;
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  readonly params: any;
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  readonly query: any;
  agentTrust?: PassedDecision;
};

/**
 * Makes `guard`, the `preHandler` of a route for Fastify 5: the body is parsed and valid by then. The handler
 * runs on a PERMIT only, available as `request.agentTrust`.
 */
export function fastifyGuard(
  setup: GuardSetup,
): (
  options: GuardOptions<GuardedFastifyRequest, FastifyReply>,
) => (request: GuardedFastifyRequest, reply: FastifyReply) => Promise<FastifyReply | undefined> {
  return (options) => async (request, reply) => {
    const verdict = await decide(setup, options, request, {
      method: request.method,
      path: request.url,
      header: headerOf(request.raw),
      body: bodyOf(request.raw, request.body),
      rawBody: rawBodyOf(request),
    });
    if (verdict.kind === 'pass') {
      request.agentTrust = verdict.decision;
      reportWhenEnded(setup, options, verdict.decision, { request, answer: reply, response: reply.raw });
      return undefined;
    }
    const headers = { 'cache-control': 'no-store', ...verdict.headers };
    return reply.code(verdict.status).headers(headers).send(verdict.body);
  };
}
