import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { userKeyOf } from '../../shared/crypto/federated-id.ts';
import type { GateId, IssuerId } from '../../shared/model/ids.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { leaseHolder, ofGate, ofPassport, wish } from '../support/service/lease-holder.ts';
import { type SidecarPair, startSidecarPair, tally } from '../support/service/sidecar-pair.ts';

let pair: SidecarPair;
beforeAll(async () => {
  pair = await startSidecarPair();
});
afterAll(() => pair.close());

const request = { permission_key: 'orders:create', amount: 1 };
const gateOf = async (constraints: object): Promise<GateId> => {
  const { gate_id } = await pair.api.createGate({ constraints });
  await pair.caughtUp();
  return gate_id;
};
const passportFor = (user?: string, more: object = {}): Promise<Reply['body']> =>
  pair.api.issuePassport({ agent_id: crypto.randomUUID(), ...(user !== undefined && { user }), ...more });
/** At the control plane itself. */
const checkHere = (gateId: string, passport: string, asked: object = request): Promise<Reply> =>
  pair.api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request: asked } });
const decisionOf = async (reply: Promise<Reply>): Promise<string> => {
  const { body } = await reply;
  return body.reason ?? body.decision;
};
const post = (url: string, body: object) => pair.api.call({ url: `/v1/${url}`, body });
const usage = async (gateId: string, query: string) => {
  const reply = await pair.api.call({ url: `/v1/gates/${gateId}/usage?${query}` });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.limits;
};

describe('a limit per user', () => {
  it('counts all agents of a user together, at two sidecars and the control plane, and never one too many', async () => {
    const gateId = await gateOf({ rate_limits: { requests_per_day: 20, per: 'user' } });
    const ofAnn = [await passportFor('ann'), await passportFor('ann'), await passportFor('ann')];
    const [ofBob, ofNobody] = [await passportFor('bob'), await passportFor()];
    const tokens = [...ofAnn, ofBob, ofNobody].map(({ jwt }) => jwt);
    const replies = tokens.map(async (token) =>
      Promise.all(
        Array.from({ length: 26 }, (_, i) =>
          i % 13 === 12 ? checkHere(gateId, token) : pair.check(i, gateId, token, request),
        ),
      ),
    );
    const [one = [], two = [], three = [], bob = [], nobody = []] = await Promise.all(replies);
    expect(tally([...one, ...two, ...three])).toEqual({ PERMIT: 20, rate_limit_exceeded: 58 });
    for (const each of [bob, nobody]) expect(tally(each)).toEqual({ PERMIT: 20, rate_limit_exceeded: 6 });
  });

  it('counts their money, too', async () => {
    const gateId = await gateOf({ spend_limits: { daily_usd: 10, per: 'user' } });
    const ofAnn = [await passportFor('ann'), await passportFor('ann')];
    const replies = await Promise.all(
      ofAnn.flatMap(({ jwt }) => Array.from({ length: 12 }, (_, i) => pair.check(i, gateId, jwt, request))),
    );
    expect(tally(replies)).toEqual({ PERMIT: 10, spend_limit_exceeded: 14 });
    const miss = await pair.check(0, gateId, ofAnn[0].jwt, request);
    expect(miss.body).toMatchObject({ limit: 10, requested: 1 });
  });

  it('is none of a passport, of another issuer, or of whom a text imitates', async () => {
    const gateId = await gateOf({ rate_limits: { requests_per_day: 1, per: 'user' } });
    const other = await pair.api.createIssuer();
    const nobody = await passportFor();
    const tokens = [
      await passportFor('ann'),
      await passportFor('ann', { issuer_id: other.issuer_id }),
      nobody,
      await passportFor(nobody.passport_id),
      await passportFor(`user_${userKeyOf(nobody.issuer_id, 'ann')}`),
      await passportFor('Ann'),
    ];
    for (const [i, { jwt }] of tokens.entries()) {
      expect(await decisionOf(pair.check(i, gateId, jwt, request))).toBe('PERMIT');
      expect(await decisionOf(checkHere(gateId, jwt))).toBe('rate_limit_exceeded');
    }
    // An address in another spelling is the same one.
    const forms = [await passportFor('eve@example.com'), await passportFor('EVE@Example.com')];
    expect(await decisionOf(pair.check(0, gateId, forms[0].jwt, request))).toBe('PERMIT');
    expect(await decisionOf(pair.check(1, gateId, forms[1].jwt, request))).toBe('rate_limit_exceeded');
  });

  it('is of a gate alone, and begins anew where a limit was counted otherwise', async () => {
    const limits = { rate_limits: { requests_per_day: 1, per: 'user' } };
    const reply = await post('passports', { agent_id: 'x', permissions: [], constraints: limits });
    expectError(reply, 'invalid_request', 'constraints.rate_limits.per');
    const gateId = await gateOf({ rate_limits: { requests_per_day: 1 } });
    const { jwt } = await passportFor('ann');
    expect(await decisionOf(pair.check(0, gateId, jwt, request))).toBe('PERMIT');
    expect(await decisionOf(pair.check(1, gateId, jwt, request))).toBe('rate_limit_exceeded');
    await pair.api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { constraints: limits } });
    await pair.caughtUp();
    expect(await decisionOf(pair.check(1, gateId, jwt, request))).toBe('PERMIT');
  });

  it('is held by an approval, given back, and held again', async () => {
    const gateId = await gateOf({
      spend_limits: { daily_usd: 10, per: 'user' },
      approvals: { above_usd: 5 },
    });
    const [one, two] = [await passportFor('ann'), await passportFor('ann')];
    const large = { ...request, amount: 8 };
    const { body } = await pair.check(0, gateId, one.jwt, large);
    expect(body.decision).toBe('SUSPEND');
    const small = { ...request, amount: 3 };
    expect(await decisionOf(pair.check(1, gateId, two.jwt, small))).toBe('spend_limit_exceeded');
    expect((await post(`approvals/${body.approval_id}/deny`, {})).status).toBe(200);
    expect((await post(`approvals/${body.approval_id}/undo`, {})).status).toBe(200);
    expect(await decisionOf(pair.check(1, gateId, two.jwt, small))).toBe('spend_limit_exceeded');
    expect((await post(`approvals/${body.approval_id}/approve`, {})).status).toBe(200);
    const presented = { ...large, approval_id: body.approval_id };
    expect(await decisionOf(pair.check(1, gateId, one.jwt, presented))).toBe('PERMIT');
    expect(await usage(gateId, `passport_id=${two.passport_id}`)).toMatchObject([{ used: 8, remaining: 2 }]);
  });

  it('pays what a held PERMIT costs beyond its hold, for the same user', async () => {
    const gateId = await gateOf({
      ...{ spend_limits: { daily_usd: 10, per: 'user' }, holds: { overrun: 'charge' } },
    });
    const [one, two] = [await passportFor('ann'), await passportFor('ann')];
    const held = { ...request, amount: 4, hold: true };
    const ids: string[] = [];
    for (const ask of [checkHere(gateId, one.jwt, held), pair.check(0, gateId, two.jwt, held)]) {
      const { body } = await ask;
      expect(body.decision).toBe('PERMIT');
      await pair.attestation(body.attestation_id);
      ids.push(body.attestation_id);
    }
    const used = async () => (await usage(gateId, `passport_id=${one.passport_id}`))[0].used;
    for (const id of ids) {
      const outcome = (amount: number) => post(`attestations/${id}/outcome`, { outcome: 'served', amount });
      expectError(await outcome(7), 'spend_limit_exceeded');
      expect((await outcome(5)).status).toBe(200);
    }
    expect(await used()).toBe(10);
    expect((await post(`attestations/${ids[1]}/refund`, { amount: 2 })).status).toBe(201);
    expect(await used()).toBe(8);
  });

  it('shows its use to whoever names a passport for the user', async () => {
    const gateId = await gateOf({ rate_limits: { requests_per_day: 5, per: 'user' } });
    const [one, two, nobody] = [await passportFor('ann'), await passportFor('ann'), await passportFor()];
    for (const { jwt } of [one, two, nobody]) await checkHere(gateId, jwt);
    expect(await usage(gateId, '')).toMatchObject([{ per: 'user', used: null }]);
    expect(await usage(gateId, `passport_id=${one.passport_id}`)).toMatchObject([{ per: 'user', used: 2 }]);
    // Whom a passport is for is on record here: nobody says otherwise.
    expect(await usage(gateId, `passport_id=${one.passport_id}&user=bob`)).toMatchObject([{ used: 2 }]);
    expect(await usage(gateId, `passport_id=${nobody.passport_id}`)).toMatchObject([{ used: 1 }]);
    const { key } = await pair.api.createKey({ scopes: ['gates:read'] });
    const url = `/v1/gates/${gateId}/usage?passport_id=${one.passport_id}`;
    expect((await pair.api.call({ url, key })).body.limits).toMatchObject([{ used: null }]);
  });

  it('is told once it is nearly spent, whichever passports have spent it and wherever', async () => {
    const hook = await post('webhooks', { url: null, events: ['spend_limit.approaching'] });
    expect(hook.status).toBe(201);
    const gateId = await gateOf({ spend_limits: { daily_usd: 10, per: 'user' } });
    const [one, two, bob] = [await passportFor('ann'), await passportFor('ann'), await passportFor('bob')];
    const pay = async (reply: Promise<Reply>) => {
      const { body } = await reply;
      expect(body.decision).toBe('PERMIT');
      await pair.attestation(body.attestation_id);
    };
    const four = { ...request, amount: 4 };
    await pay(pair.check(0, gateId, one.jwt, four));
    await pay(pair.check(1, gateId, bob.jwt, four));
    await pay(checkHere(gateId, two.jwt, four));
    await pay(pair.check(1, gateId, one.jwt, request));
    const rows = await pair.api.deps.sql<{ body: string }[]>`
      SELECT body FROM webhook_events WHERE event = 'spend_limit.approaching'`;
    expect(rows.map(({ body }) => JSON.parse(body).data)).toEqual([
      expect.objectContaining({ gate_id: gateId, passport_id: two.passport_id, spent_usd: 8, limit_usd: 10 }),
    ]);
  });
});

describe('a lease of a limit per user', () => {
  it('is had for a user, and of a passport that has none, and otherwise not', async () => {
    const gateId = await gateOf({ rate_limits: { requests_per_minute: 9, per: 'user' } });
    const forAll = await gateOf({ rate_limits: { requests_per_minute: 9 } });
    const passport = await passportFor();
    const own = await leaseHolder(pair.api);
    const user = userKeyOf(passport.issuer_id as IssuerId, 'ann');
    const grants = await own.lease([
      wish({ ...ofGate('gate_rate', gateId), user }, 'minute', 2),
      wish(ofPassport('gate_rate', passport, gateId), 'minute', 2),
      wish(ofGate('gate_rate', gateId), 'minute', 2),
      wish({ ...ofGate('gate_rate', forAll), user }, 'minute', 2),
    ]);
    expect(grants.map(({ granted }) => granted)).toEqual([2, 2, 0, 0]);
    const stranger = await leaseHolder(pair.api, { key: (await pair.api.createAccount()).key });
    const [strange] = await stranger.lease([wish({ ...ofGate('gate_rate', gateId), user }, 'minute', 1)]);
    expect(strange?.granted).toBe(0);
    for (const wrong of [
      { ...ofPassport('gate_rate', passport, gateId), user },
      { ...ofPassport('passport_rate', passport), user },
      { ...ofGate('gate_rate', gateId), user: 'ann' as typeof user },
    ])
      expect((await own.call([wish(wrong, 'minute', 1)], [], { seq: 2 })).status).toBe(400);
  });
});
