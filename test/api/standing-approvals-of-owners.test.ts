import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GateId } from '../../shared/model/ids.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import type { TestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  approveAhead,
  askingRules,
  endStanding,
  order,
  standingApprovalOf,
  standingBody,
} from '../support/service/standing-approvals.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
let provider: ForeignProvider;
const sidecars = [1, 2].map(() => useSidecar(() => ({ api, quotaWaitMs: 1_000 })));
beforeAll(async () => {
  provider = await startForeignProvider();
  await provider.addKey('RS256');
});
afterAll(() => provider.close());
const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};

let owners = 0;
const newOwner = () => `team ${++owners}`;

/** A gate that asks, an owner, and what is approved ahead for it; all sidecars know. */
async function standing(change: object = {}) {
  const gateId: GateId = (await api.createGate({ constraints: askingRules })).gate_id;
  const owner = newOwner();
  const made = await approveAhead(api, { gate_id: gateId, owner, ...change });
  await caughtUp();
  return { gateId, owner, made, id: made.standing_approval_id as string };
}

const passportOf = async (owner: string | null): Promise<Reply['body']> =>
  api.issuePassport(owner === null ? {} : { owner });

/** Asks the sidecar with that number again while it is told to. */
const ask = (i: number, gateId: string, token: string, request: object): Promise<Reply> =>
  untilAnswer(
    () => (sidecars[i % sidecars.length] as TestSidecar).check(gateId, token, request),
    (reply) => !isPassing(reply),
    { what: 'an answer that stays' },
  );

/** What the control plane and each sidecar decide; `n` tells the requests apart. */
async function decisions(gateId: string, token: string, n: string): Promise<readonly string[]> {
  const body = { passport: token, request: order(1.5, { n }) };
  const here = await api.call({ url: `/v1/gates/${gateId}/check`, body });
  const there = await Promise.all(
    sidecars.map((_, i) => ask(i, gateId, token, order(1.5, { n: `${n} ${i}` }))),
  );
  return [here, ...there].map((reply) => reply.body.decision);
}

const all = (decision: string) => Array.from({ length: sidecars.length + 1 }, () => decision);

describe('a standing approval of an owner', () => {
  it('is for passports that come later, and for none of others', async () => {
    const { gateId, owner, id } = await standing();
    const own = await passportOf(owner);
    const open = { ...askingRules, trusted_issuers: ['*'] };
    const openGate: GateId = (await api.createGate({ constraints: open })).gate_id;
    await approveAhead(api, { gate_id: openGate, owner });
    const { key } = await api.createAccount();
    // Of another account, which may give its passports any owner.
    const stranger = await api.issuePassport({ owner }, key);
    await caughtUp();
    expect(await decisions(gateId, own.jwt, 'own')).toEqual(all('PERMIT'));
    expect(await decisions(openGate, own.jwt, 'own, open')).toEqual(all('PERMIT'));
    expect(await decisions(openGate, stranger.jwt, 'stranger')).toEqual(all('SUSPEND'));
    for (const [name, other] of [
      ['none', null],
      ['part', owner.slice(0, -1)],
      ['case', owner.toUpperCase()],
    ] as const)
      expect(await decisions(gateId, (await passportOf(other)).jwt, name)).toEqual(all('SUSPEND'));
    await endStanding(api, id);
    await caughtUp();
    expect(await decisions(gateId, own.jwt, 'ended')).toEqual(all('SUSPEND'));
    expect(await standingApprovalOf(api, id)).toMatchObject({ status: 'revoked', owner });
  });

  it('follows the owner that each token of a subject of another issuer names', async () => {
    const issuer = await api.createIssuer({
      name: 'provider',
      federation: {
        ...{ type: 'oidc', issuer: provider.issuer, audiences: ['gate'], permissions: ['orders:create'] },
        ...{ trust_tier: 'L2', claims: { owner: '/team' } },
      },
    });
    expect(issuer.issuer_id).toMatch(/^iss_/);
    const { gateId, owner, id } = await standing();
    const token = (team: string) => provider.sign({ sub: 'moving', team });
    const [ofOwner, ofOther] = [await token(owner), await token('elsewhere')];
    for (const n of ['first', 'second']) {
      expect(await decisions(gateId, ofOwner, `${n}, of the owner`)).toEqual(all('PERMIT'));
      expect(await decisions(gateId, ofOther, `${n}, of another`)).toEqual(all('SUSPEND'));
    }
    await until(async () => (await standingApprovalOf(api, id)).used_usd === 9, {
      what: 'what was permitted by it on record',
    });
  });

  it('permits nothing while the owner is suspended', async () => {
    const { gateId, owner } = await standing();
    const { jwt } = await passportOf(owner);
    expect(await decisions(gateId, jwt, 'before')).toEqual(all('PERMIT'));
    await api.call({ url: `/v1/owners/${encodeURIComponent(owner)}/suspend`, body: {} });
    await caughtUp();
    expect(await decisions(gateId, jwt, 'suspended')).toEqual(all('BLOCK'));
  });

  it('is listed by its owner', async () => {
    const { owner, id, made, gateId } = await standing();
    expect(made).toMatchObject({ owner, passport_id: null, agent_id: null });
    const { passport_id } = await passportOf(owner);
    await approveAhead(api, { gate_id: gateId, passport_id });
    const list = async (query: string) =>
      (await api.call({ url: `/v1/approvals/standing?${query}` })).body.items.map(
        (each: Reply['body']) => each.standing_approval_id,
      );
    expect(await list(`owner=${encodeURIComponent(owner)}`)).toEqual([id]);
    expect(await list(`owner=${encodeURIComponent(owner)}&gate_id=${gateId}&status=active`)).toEqual([id]);
    expect(await list('owner=nobody')).toEqual([]);
  });

  it('names one of passport and owner', async () => {
    const gate_id = (await api.createGate({ constraints: askingRules })).gate_id;
    const create = (about: object) =>
      api.call({ url: '/v1/approvals/standing', body: standingBody(api, { gate_id, ...about }) });
    const { passport_id } = await passportOf('both');
    expectError(await create({}), 'invalid_request', 'passport_id');
    expectError(await create({ passport_id, owner: 'both' }), 'invalid_request', 'owner');
    expectError(await create({ owner: '' }), 'invalid_request', 'owner');
    expectError(await create({ owner: 'x'.repeat(257) }), 'invalid_request', 'owner');
    expectError(
      await create({ owner: 'not here', permission_key: 'orders:*' }),
      'invalid_request',
      'permission_key',
    );
  });

  it('is not for a person who could ask by a passport of that owner, or is the owner', async () => {
    const [ada, ben, admin] = [
      await api.createUser({ role: 'approver' }),
      await api.createUser({ role: 'approver' }),
      await api.createUser({ role: 'admin' }),
    ];
    const by = (person: typeof ada, body: object) =>
      api.call({ url: '/v1/approvals/standing', body, key: null, headers: person.headers });
    const gateOf = async (approvers: object) =>
      (await api.createGate({ constraints: { approvals: { above_usd: 1, approvers } } })).gate_id;
    const named = await gateOf({ users: [ada.userId, ben.userId, admin.userId] });
    const owner = newOwner();
    const about = standingBody(api, { gate_id: named, owner });
    expectError(await api.call({ url: '/v1/approvals/standing', body: about }), 'not_an_approver');
    const refused = await by(admin, about);
    expectError(refused, 'not_an_approver');
    expect(refused.body.error.message).toContain('issue passports');
    expect((await by(ada, about)).status).toBe(201);
    // Who could issue passports once, and has.
    const issued = await api.call({
      url: '/v1/passports',
      body: { agent_id: `of ${owner}`, permissions: ['orders:create'], owner },
      key: null,
      headers: admin.headers,
    });
    expect(issued.status).toBe(201);
    await api.deps.sql`UPDATE users SET role = 'approver' WHERE user_id = ${admin.userId}`;
    expectError(await by(admin, about), 'not_an_approver');
    expect((await by(admin, { ...about, owner: newOwner() })).status).toBe(201);
    const apart = await gateOf({ users: [ada.userId, ben.userId], not_owner: true });
    const ofBen = standingBody(api, { gate_id: apart, owner: ben.userId });
    expectError(await by(ben, ofBen), 'not_an_approver');
    expect((await by(ada, ofBen)).status).toBe(201);
  });

  it('may be made by an administrator where a gate lets requesters answer', async () => {
    const admin = await api.createUser({ role: 'admin' });
    const approvers = { users: [admin.userId], not_requester: false };
    const { gate_id } = await api.createGate({ constraints: { approvals: { above_usd: 1, approvers } } });
    const body = standingBody(api, { gate_id, owner: newOwner() });
    const reply = await api.call({ url: '/v1/approvals/standing', body, key: null, headers: admin.headers });
    expect(reply.status).toBe(201);
  });
});

it('leaves a sound store behind', async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});
