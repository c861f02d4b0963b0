import { call, type Reply } from '../support/base/http-client.ts';
import type { Installation, Running } from '../support/programs/installation.ts';

export const order = { permission_key: 'orders:create' };

/** Calls of whoever fills a database for a dump, which throw where the answer is not the one meant. */
export function useWorld(world: Installation) {
  const send = async (method: string, path: string, body?: unknown): Promise<Reply['body']> => {
    const { status, body: answer } = await world.api(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  };
  const check = async (
    at: Running,
    gate: string,
    passport: { readonly jwt: string },
    request: object,
    key = world.adminKey,
  ): Promise<Reply['body']> =>
    (
      await call(`${at.origin}/v1/gates/${gate}/check`, {
        key,
        body: { passport: passport.jwt, request },
      })
    ).body;
  return {
    send,
    create: (path: string, body: unknown) => send('POST', path, body),
    gate: (name: string, body: object = {}) => send('POST', '/gates', { name, trust_level: 'L1', ...body }),
    check,
    expectDecision: async (want: string, answer: Promise<Reply['body']>): Promise<Reply['body']> => {
      const got = await answer;
      if (got.decision !== want) throw new Error(`wanted ${want}, got ${JSON.stringify(got)}`);
      return got;
    },
  };
}
