import type { Context, MiddlewareHandler } from 'hono';
import { decide, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

export { GuardError, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of the guard of this route. */
    agentTrust: PassedDecision;
  }
}

/** What the functions of a guard are called with. The body is read by then: they can be synchronous. */
export interface HonoRequest {
  readonly context: Context;
  /** The body as JSON; undefined: there is none, or it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: as `c.req.json()` of Hono has it
  readonly body: any;
}

/**
 * Makes `guard`, the middleware of a route for Hono 4 on Node. The handler runs on a PERMIT alone, which it
 * finds as `c.get('agentTrust')`. The guard reads the body first; `c.req.json()` and the like go on working.
 */
export function honoGuard(setup: GuardSetup): (options: GuardOptions<HonoRequest>) => MiddlewareHandler {
  return (options) => async (context, next) => {
    const text = await context.req.text();
    const { pathname, search } = new URL(context.req.url);
    const verdict = await decide(
      setup,
      options,
      { context, body: parse(text) },
      {
        method: context.req.method,
        path: pathname + search,
        header: (name) => context.req.header(name),
        body: text === '' ? undefined : text,
      },
    );
    if (verdict.kind === 'pass') {
      context.set('agentTrust', verdict.decision);
      return next();
    }
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store', ...verdict.headers };
    return new Response(JSON.stringify(verdict.body), { status: verdict.status, headers });
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Another type of content, or none.
    return undefined;
  }
}
