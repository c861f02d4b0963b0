import { describe, expect, it } from 'vitest';
import { findFederation } from '../../control-plane/issuers/federation-store.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { must } from '../../shared/errors/assert.ts';
import { secondMs } from '../../shared/model/time.ts';
import {
  type FederationSettings,
  parseFederatedIssuer,
  parseStoredFederation,
  renderFederatedIssuer,
} from '../../shared/wire/api/federation.ts';
import { parsePassportClaims } from '../../shared/wire/api/passport-claims.ts';
import { expectError } from '../support/service/expect-error.ts';
import { block, permit, request, useFederation } from '../support/service/use-federation.ts';

const { api, sidecar, registered, decide, gate, setUp, untilUsed } = useFederation();

const issue = (body: object) =>
  api.call({
    url: '/v1/passports',
    body: { agent_id: crypto.randomUUID(), permissions: ['orders:create'], ...body },
  });
const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
const revokeSubject = async (issuerId: string, subject: string) => {
  const reply = await api.call({ url: `/v1/issuers/${issuerId}/revoke-subject`, body: { subject } });
  expect(reply.status).toBe(200);
  await sidecar.caughtUp();
};

describe('the user of a passport that is issued here', () => {
  it('is in answers and token, in the form in which names are compared, and lists find it', async () => {
    const { status, body } = await issue({ user: 'Ann@Example.COM', owner: 'team-7' });
    expect(status).toBe(201);
    expect(body).toMatchObject({ user: 'ann@example.com', owner: 'team-7' });
    expect(claimsOf(body.jwt)).toMatchObject({ user: 'ann@example.com' });
    expect(parsePassportClaims(claimsOf(body.jwt))).toMatchObject({ user: 'ann@example.com' });
    const read = (await api.call({ url: `/v1/passports/${body.passport_id}` })).body;
    expect(read.user).toBe('ann@example.com');
    const list = async (user: string) =>
      (await api.call({ url: `/v1/passports?user=${encodeURIComponent(user)}` })).body.items;
    expect(await list('ANN@example.com')).toMatchObject([
      { passport_id: body.passport_id, user: 'ann@example.com' },
    ]);
    // The whole text, and neither the owner nor a part.
    for (const other of ['ann', 'team-7', '%']) expect(await list(other)).toEqual([]);
    const other = await api.createAccount();
    expect(
      (await api.call({ url: '/v1/passports?user=ann%40example.com', key: other.key })).body.items,
    ).toEqual([]);
    expect(await decide(await gate(), body.jwt)).toEqual(permit);
  });

  it('is nobody by default, and then no claim', async () => {
    for (const body of [{}, { user: null }]) {
      const issued = (await issue(body)).body;
      expect(issued.user).toBeNull();
      expect(claimsOf(issued.jwt)).not.toHaveProperty('user');
    }
  });

  it('may be named in each variant', async () => {
    const { issuer_id } = await api.createIssuer();
    const machine = { issuer_id, subject: { agent_id: 'm' }, permissions: [], user: 'ann' };
    const unattended = { agent_type: 'bot', permissions: [], user: 'ann' };
    for (const body of [machine, unattended])
      expect((await api.call({ url: '/v1/passports', body })).body.user).toBe('ann');
  });

  it.each<[unknown]>([[''], [7], [{ a: 1 }], [['ann']], ['a'.repeat(256)], ['🙂'.repeat(128)], ['a\u202eb']])(
    'is a text of 1 to 255: not %j',
    async (user) => {
      expectError(await issue({ user }), 'invalid_request', 'user');
    },
  );

  it('is stopped by nothing that stops subjects of others: what is suspended is its owner', async () => {
    const { issuerId } = await registered();
    await revokeSubject(issuerId, 'bob');
    const { jwt } = (await issue({ user: 'bob', owner: 'bob' })).body;
    const gateId = await gate();
    expect(await decide(gateId, jwt)).toEqual(permit);
    await api.call({ url: '/v1/owners/bob/suspend', body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, jwt)).toEqual(block('passport_suspended'));
  });
});

describe('the user of a token of another issuer', () => {
  const claims = { agent_id: '/azp', user: '/sub' };

  it('is nobody where no pointer is set', async () => {
    const { provider, issuerId, gateId } = await setUp();
    await revokeSubject(issuerId, 'ann');
    expect(await decide(gateId, await provider.sign({ user: 'ann', act: { sub: 'ann' } }))).toEqual(permit);
  });

  it('is stopped as a subject of the issuer, seen or not, whichever agent acts for him', async () => {
    const { provider, issuerId, gateId } = await setUp({ claims });
    const tokenOf = (azp: string, sub: string) => provider.sign({ azp, sub });
    expect(await decide(gateId, await tokenOf('shop', 'ann'))).toEqual(permit);
    await revokeSubject(issuerId, 'ann');
    for (const azp of ['shop', 'mail']) {
      expect(await decide(gateId, await tokenOf(azp, 'ann'))).toEqual(block('passport_revoked'));
      expect(await decide(null, await tokenOf(azp, 'ann'))).toEqual(block('passport_revoked'));
      expect(await decide(gateId, await tokenOf(azp, 'bob'))).toEqual(permit);
    }
    const passportId = federatedPassportId(issuerId, 'ann');
    await api.call({ url: `/v1/passports/${passportId}/reactivate`, body: {} });
    await api.call({ url: `/v1/passports/${passportId}/suspend`, body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, await tokenOf('shop', 'ann'))).toEqual(block('passport_suspended'));
    await api.call({ url: `/v1/passports/${passportId}/reactivate`, body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, await tokenOf('shop', 'ann'))).toEqual(permit);
  });

  it('is a subject of his own issuer alone', async () => {
    const [one, other] = [await registered({ claims }), await registered({ claims })];
    await revokeSubject(one.issuerId, 'ann');
    const gateId = await gate();
    expect(await decide(gateId, await other.provider.sign({ azp: 'a', sub: 'ann' }))).toEqual(permit);
    expect(await decide(gateId, await one.provider.sign({ azp: 'a', sub: 'ann' }))).toEqual(
      block('passport_revoked'),
    );
  });

  it('is stopped by an event of the issuer about him', async () => {
    const { provider, issuerId, gateId } = await setUp({ claims });
    const token = await provider.sign({ azp: 'shop', sub: 'ann' });
    expect(await decide(gateId, token)).toEqual(permit);
    const event = await provider.signExactly(
      {
        ...{ iss: provider.issuer, aud: 'gate', jti: crypto.randomUUID() },
        iat: Math.floor(Date.now() / secondMs),
        events: {
          'https://schemas.openid.net/secevent/risc/event-type/account-disabled': {
            subject: { format: 'iss_sub', iss: provider.issuer, sub: 'ann' },
          },
        },
      },
      { typ: 'secevent+jwt' },
    );
    const headers = { 'content-type': 'application/secevent+jwt' };
    const reply = await api.call({ url: `/v1/issuers/${issuerId}/events`, key: null, headers, body: event });
    expect(reply.status, JSON.stringify(reply.body)).toBe(202);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
    expect(await decide(gateId, await provider.sign({ azp: 'shop', sub: 'bob' }))).toEqual(permit);
  });

  it.each([
    { user: 7 },
    { user: { id: 'ann' } },
    { user: ['ann'] },
    { user: '' },
    { user: 'a'.repeat(256) },
    { user: true },
  ])('that is no text makes no passport: %j', async ({ user }) => {
    const { provider, gateId } = await setUp({ claims: { user: '/user' } });
    expect(await decide(gateId, await provider.sign({ user }))).toEqual(block('passport_malformed'));
    expect(await decide(gateId, await provider.sign({ user: null }))).toEqual(permit);
  });

  it('is refused a settled PERMIT, too, where only the database knows that he is stopped', async () => {
    const { provider, issuerId, gateId } = await setUp({ claims });
    const token = await provider.sign({ azp: 'shop', sub: 'ann' });
    expect(await decide(gateId, token)).toEqual(permit);
    const { sql } = api.deps;
    const passportId = federatedPassportId(issuerId, 'cid');
    await revokeSubject(issuerId, 'cid');
    await api.call({ url: `/v1/passports/${passportId}/reactivate`, body: {} });
    await sidecar.caughtUp();
    await sql`UPDATE passports SET status = 'suspended' WHERE passport_id = ${passportId}`;
    const ofCid = await provider.sign({ azp: 'shop', sub: 'cid' });
    const settled = { permission_key: 'orders:create', amount: 1, idempotency_key: 'once' };
    expect((await sidecar.check(gateId, ofCid, settled)).body.reason).toBe('passport_suspended');
    await sql`UPDATE passports SET status = 'active' WHERE passport_id = ${passportId}`;
  });

  it('has his own units of a limit per user, whichever agent acts for him, apart from those of other issuers', async () => {
    const [one, other] = [await registered({ claims }), await registered({ claims })];
    const gateId = await gate({
      constraints: {
        ...{ rate_limits: { requests_per_day: 3, per: 'user' }, holds: { overrun: 'charge' } },
        spend_limits: { daily_usd: 10, per: 'user' },
      },
    });
    const reasonAt = async (place: number, of: typeof one, azp: string, sub?: string) => {
      const passport = await of.provider.sign({ azp, sub });
      const here = () => api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
      const reply = place % 2 === 0 ? await here() : await sidecar.check(gateId, passport, request);
      return reply.body.reason ?? reply.body.decision;
    };
    for (const of of [one, other]) {
      for (const sub of ['ann', 'bob'])
        for (const [place, azp] of ['shop', 'mail', 'shop'].entries())
          expect(await reasonAt(place, of, azp, sub)).toBe('PERMIT');
      for (const place of [0, 1])
        expect(await reasonAt(place, of, 'mail', 'ann')).toBe('rate_limit_exceeded');
    }
    const used = async (user: string) => {
      const passportId = federatedPassportId(one.issuerId, 'mail');
      const query = `passport_id=${passportId}&user=${user}`;
      return (await api.call({ url: `/v1/gates/${gateId}/usage?${query}` })).body.limits[1];
    };
    await untilUsed(federatedPassportId(one.issuerId, 'shop'), 4);
    expect(await used('ann')).toMatchObject({ per: 'user', unit: 'usd', used: 3 });
    expect(await used('cid')).toMatchObject({ used: 0 });
    // What is beyond a hold is taken from the user whom the token named, which is gone.
    const held = { ...request, amount: 4, hold: true };
    const passport = await one.provider.sign({ azp: 'mail', sub: 'cid' });
    const { attestation_id: id } = (await sidecar.check(gateId, passport, held)).body;
    await untilUsed(federatedPassportId(one.issuerId, 'mail'), 3);
    const outcome = (amount: number) =>
      api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'served', amount } });
    expectError(await outcome(11), 'spend_limit_exceeded');
    expect((await outcome(9)).status).toBe(200);
    expect(await used('cid')).toMatchObject({ used: 9 });
  });

  it('is asked for by himself: nobody else has the approval, nor its money', async () => {
    const { provider } = await registered({ claims });
    const gateId = await gate({
      constraints: { spend_limits: { daily_usd: 10, per: 'user' }, approvals: { above_usd: 5 } },
    });
    const large = { ...request, amount: 8 };
    const tokenOf = (sub: string) => provider.sign({ azp: 'shop', sub });
    const askHere = async (sub: string, asked: object) =>
      (
        await api.call({
          url: `/v1/gates/${gateId}/check`,
          body: { passport: await tokenOf(sub), request: asked },
        })
      ).body;
    const askThere = async (sub: string, asked: object) =>
      (await sidecar.check(gateId, await tokenOf(sub), asked)).body;
    const [ann, bob] = [await askHere('ann', large), await askThere('bob', large)];
    expect([ann.decision, bob.decision]).toEqual(['SUSPEND', 'SUSPEND']);
    expect(bob.approval_id).not.toBe(ann.approval_id);
    // The same request of the same user waits for the same answer, at either program.
    expect((await askThere('ann', large)).approval_id).toBe(ann.approval_id);
    expect((await askHere('bob', large)).approval_id).toBe(bob.approval_id);
    const shown = async (query: string) => (await api.call({ url: `/v1/approvals${query}` })).body;
    expect(await shown(`/${ann.approval_id}`)).toMatchObject({ user: 'ann' });
    expect((await shown('?user=bob')).items).toMatchObject([{ approval_id: bob.approval_id, user: 'bob' }]);
    await api.call({ url: `/v1/approvals/${ann.approval_id}/approve`, body: {} });
    const presented = { ...large, approval_id: ann.approval_id };
    for (const ask of [askHere, askThere])
      expect(await ask('bob', presented)).toMatchObject({ decision: 'BLOCK', reason: 'approval_mismatch' });
    expect(await askThere('ann', presented)).toMatchObject({ decision: 'PERMIT' });
  });

  it('is shown with what a passport of this service asks for, and not where another account names him', async () => {
    const other = await api.createAccount();
    const foreign = await api.issuePassport({ user: 'ann' }, other.key);
    const own = (await issue({ user: 'ann' })).body;
    const gateId = await gate({ constraints: { approvals: { above_usd: 0.5 }, trusted_issuers: ['*'] } });
    const userAt = async (passport: string) => {
      const { approval_id: id } = (await sidecar.check(gateId, passport, request)).body;
      return (await api.call({ url: `/v1/approvals/${id}` })).body.user;
    };
    expect(await userAt(own.jwt)).toBe('ann');
    expect(await userAt(foreign.jwt)).toBeNull();
  });

  it('is explained with the chain of those who act', async () => {
    const { provider, issuerId } = await registered({ claims });
    const token = await provider.sign({ azp: 'shop', sub: 'ann', act: { sub: 'shop', act: { sub: 'hub' } } });
    const explain = async () =>
      (await api.call({ url: `/v1/issuers/${issuerId}/try-token`, body: { token } })).body;
    expect((await explain()).passport).toMatchObject({
      user: 'ann',
      actors: [
        { iss: null, sub: 'shop' },
        { iss: null, sub: 'hub' },
      ],
    });
    expect((await explain()).steps).toContainEqual(
      expect.objectContaining({ claim: '/sub', becomes: 'It acts for ann.' }),
    );
    await revokeSubject(issuerId, 'ann');
    expect(await explain()).toMatchObject({ reason: 'passport_revoked', passport: { status: 'revoked' } });
  });

  it('has sidecars of before, which would pass over him, trust no token of the issuer', async () => {
    const { issuerId } = await registered({ claims });
    const told = renderFederatedIssuer(
      must(await findFederation(api.deps.sql, issuerId), 'it is there'),
      true,
    );
    expect(told.settings).toMatchObject({ claims, constraints: { user: true } });
    expect(parseFederatedIssuer(told).federation).toMatchObject({ claims: { user: '/sub' } });
    // What 0.3.0 does with it.
    expect(() => parseStoredFederation(told.settings as FederationSettings)).toThrow(/user/);
    const shown = (await api.call({ url: `/v1/issuers/${issuerId}` })).body;
    expect(shown.federation).toMatchObject({ claims, constraints: {} });
  });
});
