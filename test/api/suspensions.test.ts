import { afterAll, describe, expect, it } from 'vitest';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi();
const sidecar = useSidecar(() => ({ api, accountKey: api.adminKey }));
const providers: ForeignProvider[] = [];
afterAll(async () => {
  await Promise.all(providers.map((each) => each.close()));
});

const request = { permission_key: 'orders:create' };
const caep = 'https://schemas.openid.net/secevent/caep/event-type/';
const risc = 'https://schemas.openid.net/secevent/risc/event-type/';
const revoked = `${caep}session-revoked`;
const disabled = `${risc}account-disabled`;
const enabled = `${risc}account-enabled`;
const since = expect.stringMatching(/\.\d{3}Z$/);
const byAccount = { cause: 'account', since, event: null };

/** A provider whose keys are pasted, with the owner in `/email`; and what it signs. */
async function registered(claims: object = { owner: '/email' }) {
  const provider = await startForeignProvider();
  providers.push(provider);
  await provider.addKey('ES256');
  const iss = `https://provider-${providers.length}-${Date.now()}.example`;
  const { issuer_id } = await api.createIssuer({
    name: iss,
    federation: {
      ...{ type: 'jwks', issuer: iss, jwks: { keys: provider.keys }, audiences: ['gate'], claims },
      permissions: ['orders:create'],
    },
  });
  const issuerId = issuer_id as IssuerId;
  await sidecar.caughtUp();
  const push = async (type: string, subject: object, change: object = {}) => {
    const jti = crypto.randomUUID();
    const iat = Math.floor(Date.now() / secondMs);
    const events = { [type]: { subject } };
    const body = await provider.signExactly(
      { iss, aud: 'gate', jti, iat, events, ...change },
      { typ: 'secevent+jwt' },
    );
    const headers = { 'content-type': 'application/secevent+jwt' };
    const reply = await api.call({ url: `/v1/issuers/${issuerId}/events`, key: null, headers, body });
    expect(reply.status, JSON.stringify(reply.body)).toBe(202);
    await sidecar.caughtUp();
  };
  return {
    issuerId,
    push,
    sign: (change: Record<string, unknown> = {}) => provider.sign({ iss, ...change }),
    passportOf: (subject: string) => `/v1/passports/${federatedPassportId(issuerId, subject)}`,
    ofSubject: (sub: string) => ({ format: 'iss_sub', iss, sub }),
  };
}

const email = (text: string) => ({ format: 'email', email: text });

/** What both programs decide; they must agree. */
async function reasonOf(token: string): Promise<string | null> {
  const here = await api.call({ url: '/v1/enforce', body: { passport: token, request } });
  const there = await sidecar.check(null, token, request, api.adminKey);
  expect([here.status, there.status]).toEqual([200, 200]);
  expect(there.body.reason).toBe(here.body.reason);
  return there.body.reason;
}

async function post(url: string, body: object = {}) {
  const reply = await api.call({ url, body });
  await sidecar.caughtUp();
  return reply;
}
const ownerUrl = (owner: string) => `/v1/owners/${encodeURIComponent(owner)}`;
const read = async (url: string) => (await api.call({ url })).body;
let made = 0;
const fresh = (what: string) => `${what}-${++made}-${Date.now()}`;

describe('what a suspension of an owner has stopped', () => {
  it('stays stopped under every other name, at a later sidecar too, until that cause ends', async () => {
    const { sign, passportOf } = await registered();
    const ann = `${fresh('ann')}@example.com`;
    const names = [ann, ann.toUpperCase(), ` ${ann}`, 'ben@example.com', undefined];
    const tokens = () => Promise.all(names.map((name) => sign({ sub: 'shop', email: name })));
    expect(await reasonOf(await sign({ sub: 'shop', email: ann }))).toBeNull();
    const { body } = await post(`${ownerUrl(ann)}/suspend`);
    expect(body).toEqual({
      ...{ owner: ann, status: 'suspended', suspended_by: [byAccount], passports: 1, seen: true },
    });
    for (const token of await tokens()) expect(await reasonOf(token)).toBe('passport_suspended');
    const passport = await read(passportOf('shop'));
    const shown = { status: 'suspended', suspended_by: [{ ...byAccount, owner: ann }] };
    expect(passport).toMatchObject(shown);
    expect((await read(`/v1/passports?status=suspended`)).items).toMatchObject([shown]);
    expect(await read(`${passportOf('shop')}/verify`)).toMatchObject({ reason: 'owner_suspended' });
    // It is the owner's to end; what stands is answered.
    const { passport_id } = passport;
    expect((await post(`${passportOf('shop')}/reactivate`)).body).toMatchObject({ passport_id, ...shown });
    const ended = await post(`${ownerUrl(ann.toUpperCase())}/reactivate`);
    expect(ended.body).toMatchObject({ owner: ann, status: 'active', suspended_by: [], passports: 1 });
    for (const token of await tokens()) expect(await reasonOf(token)).toBeNull();
  });

  it('is whoever is seen or issued with the owner meanwhile, too', async () => {
    const { sign, passportOf } = await registered();
    const team = fresh('team');
    expect((await post(`${ownerUrl(team)}/suspend`)).body).toMatchObject({ passports: 0, seen: false });
    const issued = await api.issuePassport({ owner: team, permissions: ['orders:create'] });
    const shown = { status: 'suspended', suspended_by: [{ ...byAccount, owner: team }] };
    expect(issued).toMatchObject(shown);
    const named = { sub: 'late', email: team };
    expect(await reasonOf(await sign(named))).toBe('passport_suspended');
    await sidecar.caughtUp();
    expect(await read(passportOf('late'))).toMatchObject(shown);
    expect(await reasonOf(await sign({ sub: 'late' }))).toBe('passport_suspended');
    // Told by itself: a sidecar of the version before knows no owners.
    const told = (await api.changes('global')).slice(-2).map(({ body }) => body.standing);
    expect(told).toEqual(['suspended', 'suspended']);
    expect((await post(`${ownerUrl(team)}/reactivate`)).body.passports).toBe(2);
    for (const token of [await sign(named), issued.jwt]) expect(await reasonOf(token)).toBeNull();
  });

  it('keeps the own status of each of them', async () => {
    const team = fresh('team');
    const [one, two, three] = await Promise.all(
      [1, 2, 3].map(() => api.issuePassport({ owner: team, permissions: ['orders:create'] })),
    );
    await post(`/v1/passports/${one.id}/suspend`);
    await post(`/v1/passports/${two.id}/revoke`);
    await post(`${ownerUrl(team)}/suspend`);
    const causes = (await read(`/v1/passports/${one.id}`)).suspended_by;
    expect(causes).toEqual([byAccount, { ...byAccount, owner: team }]);
    await post(`${ownerUrl(team)}/reactivate`);
    const statuses = [one, two, three].map(async ({ id }) => (await read(`/v1/passports/${id}`)).status);
    expect(await Promise.all(statuses)).toEqual(['suspended', 'revoked', 'active']);
  });

  it('is suspended though its owner is another one when both come at once', async () => {
    const { sign, passportOf } = await registered();
    const team = fresh('team');
    const subjects = Array.from({ length: 12 }, (_, place) => `racer ${place}`);
    const tokens = await Promise.all(subjects.map((sub) => sign({ sub, email: team })));
    await Promise.all([
      ...tokens.map((passport) => api.call({ url: '/v1/enforce', body: { passport, request } })),
      post(`${ownerUrl(team)}/suspend`),
    ]);
    const standing = subjects.map(async (sub) => (await read(passportOf(sub))).status);
    expect(new Set(await Promise.all(standing))).toEqual(new Set(['suspended']));
    for (const sub of subjects) expect(await reasonOf(await sign({ sub }))).toBe('passport_suspended');
  });
});

describe('several causes', () => {
  it('stand for themselves: an issuer ends its own alone, of subjects and of owners', async () => {
    const [one, other] = [await registered(), await registered()];
    const ann = `${fresh('ann')}@example.com`;
    const own = await api.issuePassport({ owner: ann, permissions: ['orders:create'] });
    const tokens = [own.jwt, await one.sign({ sub: 'a', email: ann }), await other.sign({ email: ann })];
    for (const token of tokens) expect(await reasonOf(token)).toBeNull();
    await one.push(disabled, email(ann.toUpperCase()));
    await other.push(revoked, email(ann));
    await post(`${ownerUrl(ann)}/suspend`);
    const by = async () =>
      (await read(`/v1/passports/${own.id}`)).suspended_by.map(({ cause }: { cause: string }) => cause);
    expect(await by()).toEqual([one.issuerId, other.issuerId, 'account']);
    await one.push(enabled, email(ann));
    expect(await by()).toEqual([other.issuerId, 'account']);
    for (const token of tokens) expect(await reasonOf(token)).toBe('passport_suspended');
    const stands = await post(`${ownerUrl(ann)}/reactivate`);
    expect(stands.body).toMatchObject({
      status: 'suspended',
      suspended_by: [{ cause: other.issuerId, since, event: revoked }],
    });
    for (const token of tokens) expect(await reasonOf(token)).toBe('passport_suspended');
    const last = await post(`${ownerUrl(ann)}/reactivate`, { issuer_id: other.issuerId });
    expect(last.body).toMatchObject({ status: 'active', suspended_by: [] });
    for (const token of tokens) expect(await reasonOf(token)).toBeNull();
    const { entries } = await read(`/v1/audit?operation=reactivateOwner&target=${encodeURIComponent(ann)}`);
    const ended = entries.map(({ after }: { after: { cause: string } }) => after.cause);
    expect(ended).toEqual([other.issuerId, 'account']);
  });

  it('of one passport end by reactivate, each by its name', async () => {
    const { issuerId, push, sign, ofSubject, passportOf } = await registered();
    const token = await sign();
    expect(await reasonOf(token)).toBeNull();
    await post(`${passportOf('planner')}/suspend`);
    await push(revoked, ofSubject('planner'));
    await push(enabled, ofSubject('planner'));
    expect(await reasonOf(token)).toBe('passport_suspended');
    await push(revoked, ofSubject('planner'));
    expectError(await post(`${passportOf('planner')}/suspend`), 'passport_state_conflict');
    const byIssuer = { cause: issuerId, since, event: revoked };
    const ended = await post(`${passportOf('planner')}/reactivate`);
    expect(ended.body).toMatchObject({ status: 'suspended', suspended_by: [byIssuer] });
    const tried = await post(`/v1/issuers/${issuerId}/try-token`, { token });
    expect(tried.body).toMatchObject({
      reason: 'passport_suspended',
      passport: { status: 'suspended', suspended_by: [byIssuer] },
    });
    for (const issuer_id of ['iss_01m7w8f9fn41y1y6091p33efsg', 'nonsense'])
      expectError(
        await post(`${passportOf('planner')}/reactivate`, { issuer_id }),
        'issuer_not_found',
        'issuer_id',
      );
    const last = await post(`${passportOf('planner')}/reactivate`, { issuer_id: issuerId });
    expect(last.body).toMatchObject({ status: 'active', suspended_by: [] });
    expect(await reasonOf(token)).toBeNull();
    expect((await post(`/v1/issuers/${issuerId}/try-token`, { token })).body.reason).toBeNull();
    expectError(await post(`${passportOf('planner')}/reactivate`), 'passport_state_conflict');
  });

  it('outlast a revocation, of which they may be', async () => {
    const { push, sign, ofSubject, passportOf, issuerId } = await registered();
    expect(await reasonOf(await sign())).toBeNull();
    await push(disabled, ofSubject('planner'));
    await post(`${passportOf('planner')}/revoke`);
    const lifted = await post(`${passportOf('planner')}/reactivate`);
    expect(lifted.body).toMatchObject({ status: 'suspended', suspended_by: [{ cause: issuerId }] });
    expect(await reasonOf(await sign())).toBe('passport_suspended');
    await push(enabled, ofSubject('planner'));
    expect(await reasonOf(await sign())).toBeNull();
    // One that comes while it is revoked stands after it.
    await post(`${passportOf('planner')}/revoke`);
    await push(disabled, ofSubject('planner'));
    expect(await reasonOf(await sign())).toBe('passport_revoked');
    expect((await post(`${passportOf('planner')}/reactivate`)).body.status).toBe('suspended');
  });

  it('are shown for a token whose passport is not there yet', async () => {
    const { issuerId, sign } = await registered();
    const team = fresh('team');
    await post(`${ownerUrl(team)}/suspend`);
    const { body } = await post(`/v1/issuers/${issuerId}/try-token`, { token: await sign({ email: team }) });
    expect(body).toMatchObject({
      reason: 'passport_suspended',
      passport: { status: 'suspended', suspended_by: [{ ...byAccount, owner: team }] },
    });
  });
});

describe('a name that is an address', () => {
  it('is one name in every spelling, of owners and of subjects, at every door', async () => {
    const { issuerId, sign, push, passportOf } = await registered({ agent_id: '/email', owner: '/email' });
    const [ann, ben, eve] = ['ann', 'ben', 'eve'].map(fresh);
    const spellings = (name = '') => [
      ...[`${name}@bücher.example`, `${name}@xn--bcher-kva.example`, `${name.toUpperCase()}@BÜCHER.example`],
    ];
    const tokens = async (name = '') => Promise.all(spellings(name).map((each) => sign({ email: each })));
    const [first = '', , last = ''] = spellings(ann);
    for (const token of await tokens(ann)) expect(await reasonOf(token)).toBeNull();
    await push(disabled, email(last));
    for (const token of await tokens(ann)) expect(await reasonOf(token)).toBe('passport_suspended');
    await push(enabled, email(first));
    for (const token of await tokens(ann)) expect(await reasonOf(token)).toBeNull();
    const subject = { subject: spellings(ben)[2] };
    await post(`/v1/issuers/${issuerId}/revoke-subject`, subject);
    for (const token of await tokens(ben)) expect(await reasonOf(token)).toBe('passport_revoked');
    const [, canonical = ''] = spellings(eve);
    const native = await api.issuePassport({ owner: spellings(eve)[2], permissions: ['orders:create'] });
    expect(native.owner).toBe(canonical);
    expect(await read(passportOf(canonical))).toMatchObject({ error: { code: 'passport_not_found' } });
    for (const spelling of spellings(eve)) {
      const { items } = await read(`/v1/passports?owner=${encodeURIComponent(spelling)}`);
      expect(items).toMatchObject([{ passport_id: native.id }]);
      expect((await post(`${ownerUrl(spelling)}/suspend`)).body).toMatchObject({
        owner: canonical,
        passports: 1,
      });
      expect(await reasonOf(native.jwt)).toBe('passport_suspended');
      await post(`${ownerUrl(spelling)}/reactivate`);
    }
    // Other names stay as they are.
    for (const name of ['Team A', 'TEAM A', 'kir\u212a@example.com', '@handle'])
      expect((await post(`${ownerUrl(name)}/suspend`)).body).toMatchObject({ owner: name, seen: false });
  });
});

describe('an event', () => {
  const effectsOf = async (issuerId: string) => {
    const { entries } = await read(`/v1/audit?operation=receiveSecurityEvent&target=${issuerId}`);
    return entries.map(({ after }: { after: { effects: string[]; noted: string[] } }) => [
      after.effects,
      after.noted,
    ]);
  };

  it('reports an effect only where something was hit', async () => {
    const { issuerId, sign, push, ofSubject } = await registered();
    const team = `${fresh('team')}@example.com`;
    await push(disabled, email(team));
    await push(disabled, ofSubject('unseen'));
    expect(await reasonOf(await sign({ sub: 'unseen' }))).toBe('passport_suspended');
    expect(await reasonOf(await sign({ sub: 'seen', email: team }))).toBe('passport_suspended');
    await post(`${ownerUrl(team)}/suspend`);
    await push(enabled, email(team));
    await push(disabled, email(team));
    await push(disabled, email(team));
    await push(enabled, ofSubject('nobody'));
    expect(await effectsOf(issuerId)).toEqual([
      [[], []],
      [[], []],
      [[`suspend owner ${team}`], []],
      // The account's own stands.
      [[], [`reactivate owner ${team}`]],
      [[], ['suspend subject unseen']],
      [[], [`suspend owner ${team}`]],
    ]);
    const subjects = (await read(`/v1/passports?issuer_id=${issuerId}`)).items;
    expect(subjects.map(({ agent_name: name }: { agent_name: string }) => name).sort()).toEqual([
      'seen',
      'unseen',
    ]);
  });
});
