import { beforeAll, expect, it } from 'vitest';
import { issuersLimits } from '../../control-plane/issuers/limits.ts';
import { federationCarrier } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
const provider = useStarted(startForeignProvider);
beforeAll(() => provider.addKey('ES256'));

interface Account {
  readonly accountId: string;
  readonly key: string;
}
const max = issuersLimits.trustingAccountsMax;
const permit = { decision: 'PERMIT', reason: null };

const naming = (issuerId: string) => ({ constraints: { trusted_issuers: ['own', issuerId] } });
const create = ({ key }: Account, issuerId: string) =>
  api.call({ url: '/v1/gates', key, body: { name: 'Orders', trust_level: 'L1', ...naming(issuerId) } });
const put = ({ key }: Account, gateId: string, body: object) =>
  api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, key, body });
const check = async ({ key }: Account, gateId: string, passport: string) => {
  const body = { passport, request: { permission_key: 'orders:create' } };
  return (await api.call({ url: `/v1/gates/${gateId}/check`, key, body })).body;
};
/** What the sidecars of an account are told of the issuer, oldest first. */
const toldTo = async (accountId: string, issuerId: string) => {
  const carrier = federationCarrier(issuerId as IssuerId);
  return (await api.changes(accountId)).filter(({ body }) => body.gate_id === carrier);
};

it('an issuer is trusted by so many other accounts; one more is told so, and loses nothing', async () => {
  const federation = {
    ...{ type: 'oidc', issuer: provider.issuer, audiences: ['gate'], trust_tier: 'L2' },
    permissions: ['orders:create'],
  };
  const issuer = await api.createIssuer({ name: 'Wanted', federation });
  const issuerId: string = issuer.issuer_id;
  const accounts: Account[] = [];
  while (accounts.length < max - 1) {
    const room = Math.min(10, max - 1 - accounts.length);
    accounts.push(...(await Promise.all(Array.from({ length: room }, () => api.createAccount()))));
  }
  for (const account of accounts) expect((await create(account, issuerId)).status).toBe(201);

  // The last one for whom there is room, by a change of a gate.
  const last = await api.createAccount();
  const { gate_id: lastGate } = await api.createGate({}, last.key);
  expect((await put(last, lastGate, naming(issuerId))).status).toBe(200);
  const token = await provider.sign();
  expect(await check(last, lastGate, token)).toMatchObject(permit);

  const late = await api.createAccount();
  const before = await api.createGate({}, late.key);
  const passport = await api.issuePassport({}, late.key);
  const feed = (await api.changes(late.accountId)).length;
  const refusals = [await create(late, issuerId), await put(late, before.gate_id, naming(issuerId))];
  for (const refused of refusals) {
    expect(refused.body.error.message).toContain(`at most ${max} other accounts`);
    expectError(refused, 'invalid_request', 'constraints.trusted_issuers');
  }
  const { items: gates } = (await api.call({ url: '/v1/gates', key: late.key })).body;
  expect(gates.map((gate: { gate_id: string }) => gate.gate_id)).toEqual([before.gate_id]);
  const { body: after } = await api.call({ url: `/v1/gates/${before.gate_id}`, key: late.key });
  expect(after.constraints).toEqual(before.constraints);
  expect((await api.changes(late.accountId)).length).toBe(feed);
  expect(await check(late, before.gate_id, token)).toMatchObject({ decision: 'BLOCK' });
  expect(await check(late, before.gate_id, passport.jwt)).toMatchObject(permit);

  // Those that are in, and the account of the issuer, go on as before.
  expect((await put(last, lastGate, { ...naming(issuerId), name: 'Renamed' })).status).toBe(200);
  expect((await create(last, issuerId)).status).toBe(201);
  const own = await api.createGate();
  expect(await check({ accountId: '', key: api.adminKey }, own.gate_id, token)).toMatchObject(permit);
  const moved = { ...federation, audiences: ['moved'] };
  const url = `/v1/issuers/${issuerId}`;
  const changed = await api.call({ method: 'PUT', url, body: { federation: moved } });
  expect(changed.status, JSON.stringify(changed.body)).toBe(200);
  for (const account of [...accounts, last]) {
    const told = (await toldTo(account.accountId, issuerId)).at(-1);
    expect(told?.body.federation.settings.audiences).toEqual(['moved']);
  }
  expect(await toldTo(late.accountId, issuerId)).toEqual([]);
  expect(await check(last, lastGate, token)).toMatchObject({ reason: 'issuer_untrusted' });

  // A place that is given up is free: by a gate that is deleted, and one that names it no more.
  const [first, second] = accounts as [Account, Account];
  const gateOf = async ({ key }: Account) =>
    (await api.call({ url: '/v1/gates', key })).body.items[0].gate_id;
  const firstGate = await gateOf(first);
  await api.call({ method: 'DELETE', url: `/v1/gates/${firstGate}`, key: first.key });
  expect((await put(late, before.gate_id, naming(issuerId))).status).toBe(200);
  expect(await check(late, before.gate_id, await provider.sign({ aud: 'moved' }))).toMatchObject(permit);
  expectError(await create(first, issuerId), 'invalid_request', 'constraints.trusted_issuers');
  const secondGate = await gateOf(second);
  expect((await put(second, secondGate, { constraints: { trusted_issuers: null } })).status).toBe(200);
  expect((await create(first, issuerId)).status).toBe(201);
  expect(await brokenRules(api.deps.sql)).toEqual({});
}, 120_000);
