import { expect } from 'vitest';
import type { Api, Reply } from './api.ts';

/** Makes a wallet, by the operator's key unless another is given. */
export async function makeWallet(api: Api, body: object, key?: string): Promise<Reply['body']> {
  const call = { url: '/v1/wallets', body: { name: 'a wallet', ...body } };
  const reply = await api.call(key === undefined ? call : { ...call, key });
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return reply.body;
}

export const walletOf = async (api: Api, id: string): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/wallets/${id}` })).body;

export const putWallet = (api: Api, id: string, patch: object): Promise<Reply> =>
  api.call({ method: 'PUT', url: `/v1/wallets/${id}`, body: patch });

export const setFrozen = (api: Api, id: string, verb: 'freeze' | 'unfreeze'): Promise<Reply> =>
  api.call({ url: `/v1/wallets/${id}/${verb}`, body: {} });

export const moveToWallet = (api: Api, passportId: string, walletId: string | null): Promise<Reply> =>
  api.call({ url: `/v1/passports/${passportId}/wallet`, body: { wallet_id: walletId } });
