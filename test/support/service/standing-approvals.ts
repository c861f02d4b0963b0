import { expect } from 'vitest';
import { hourMs, renderTime, type UnixMillis } from '../../../shared/model/time.ts';
import type { Api, Reply } from './api.ts';

/** A gate that asks a person about every order above 1 USD, and what its passports ask for. */
export const askingRules = { approvals: { above_usd: 1 } };
export const order = (amount: number, rest: object = {}) => ({
  permission_key: 'orders:create',
  amount,
  ...rest,
});

/** Ten USD each, a hundred in all, for an hour. */
export const standingBody = (api: Api, about: object) => ({
  permission_key: 'orders:create',
  each_usd: 10,
  total_usd: 100,
  expires_at: renderTime((api.deps.clock.now() + hourMs) as UnixMillis),
  ...about,
});

/** Makes one, by the operator's key unless another is given. */
export async function approveAhead(api: Api, about: object, key?: string): Promise<Reply['body']> {
  const call = { url: '/v1/approvals/standing', body: standingBody(api, about) };
  const reply = await api.call(key === undefined ? call : { ...call, key });
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return reply.body;
}

export const standingApprovalOf = async (api: Api, id: string): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/approvals/standing/${id}` })).body;

export const endStanding = async (api: Api, id: string): Promise<Reply> =>
  api.call({ method: 'DELETE', url: `/v1/approvals/standing/${id}` });

/** Micro-USD that the ledger counts as given out of its total. */
export async function givenOf(api: Api, id: string): Promise<number> {
  const [row] = await api.deps.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows WHERE counter LIKE ${`%:${id}`}`;
  return row?.leased ?? 0;
}
