import { beforeEach, describe, expect, it } from 'vitest';
import { emitEvents } from '../../control-plane/webhooks/emit-events.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import {
  connectSidecar,
  expectSoundStore,
  recordOf,
  refusedRecordOf,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { type Endpoint, subscribe } from '../support/service/webhooks.ts';

/** Which operation causes which event, and who gets it (contract §14). */
const api = useApi(startOwnApi);
let own: { readonly accountId: string; readonly key: string };
let other: { readonly accountId: string; readonly key: string };
/** Of both accounts, and of the test world of the first; none has a URL, so what they get can be listed. */
let ownHook: Endpoint;
let otherHook: Endpoint;
let testHook: Endpoint;

const everything = { url: null, events: [...webhookEvents] };

beforeEach(async () => {
  own = await api.createAccount();
  other = await api.createAccount();
  ownHook = await subscribe(api, everything, own.key);
  otherHook = await subscribe(api, everything, other.key);
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, own.key);
  testHook = await subscribe(api, everything, test.key);
});

/** What the endpoint got, oldest first: event and data. */
const got = async (hook: Endpoint): Promise<[string, Reply['body']][]> =>
  (await hook.deliveries()).toReversed().map(({ payload }) => [payload.event, payload.data]);

const check = async (gateId: string, jwt: string, key: string) =>
  (
    await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create' } },
      key,
    })
  ).body;

describe('passport.revoked', () => {
  it('goes to the account of the passport, once', async () => {
    const passport = await api.issuePassport({}, own.key);
    const url = `/v1/passports/${passport.passport_id}/revoke`;
    const { body } = await api.call({ method: 'POST', url, body: { reason: 'leaked' }, key: own.key });
    await api.call({ method: 'POST', url, key: own.key });
    const { passport_id, agent_id } = passport;
    const told = { passport_id, agent_id, revoked_at: body.revoked_at, reason: 'leaked' };
    expect(await got(ownHook)).toEqual([['passport.revoked', told]]);
    expect([await got(otherHook), await got(testHook)]).toEqual([[], []]);
  });
});

describe('a decision of the control plane', () => {
  it('is sent to the account of the gate and to that of the passport', async () => {
    const { gate_id } = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, own.key);
    const passport = await api.issuePassport({}, other.key);
    const { attestation_id } = await check(gate_id, passport.jwt, own.key);
    const { passport_id, agent_id } = passport;
    const told = { passport_id, agent_id, gate_id, decision: 'allow', reason: null, attestation_id };
    expect((await got(ownHook)).slice(1)).toEqual([['passport.verified', told]]);
    expect(await got(otherHook)).toEqual([['passport.verified', told]]);
    const [one] = await ownHook.deliveries();
    const [same] = await otherHook.deliveries();
    expect([one.event_id, one.payload]).toEqual([same.event_id, same.payload]);
  });

  it('is sent once if both are the same account', async () => {
    const { gate_id } = await api.createGate({}, own.key);
    const passport = await api.issuePassport({ permissions: ['orders:read'] }, own.key);
    const { attestation_id } = await check(gate_id, passport.jwt, own.key);
    const { passport_id, agent_id } = passport;
    const told = { gate_id, decision: 'block', reason: 'permission_not_granted', attestation_id };
    expect((await got(ownHook)).slice(1)).toEqual([['passport.denied', { passport_id, agent_id, ...told }]]);
    expect(await got(otherHook)).toEqual([]);
  });

  it('about a token that does not verify is sent to the account of the gate, without a passport', async () => {
    const { gate_id } = await api.createGate({}, own.key);
    const { attestation_id } = await check(gate_id, 'no token', own.key);
    const told = { gate_id, decision: 'block', reason: 'passport_malformed', attestation_id };
    expect((await got(ownHook)).slice(1)).toEqual([
      ['passport.denied', { passport_id: null, agent_id: null, ...told }],
    ]);
  });

  it('without a gate is sent to the account of the passport only', async () => {
    const { jwt } = await api.issuePassport({}, other.key);
    const body = { passport: jwt, request: {} };
    await api.call({ url: '/v1/enforce', body, key: own.key });
    expect(await got(ownHook)).toEqual([]);
    expect(await got(otherHook)).toMatchObject([
      ['passport.denied', { gate_id: null, reason: 'issuer_untrusted' }],
    ]);
  });

  it('is not sent for a gate test', async () => {
    const { gate_id } = await api.createGate({}, own.key);
    const { jwt } = await api.issuePassport({}, own.key);
    const body = { passport_token: jwt, requested_action: 'orders:create' };
    expect((await api.call({ url: `/v1/gates/${gate_id}/test`, body, key: own.key })).status).toBe(200);
    expect((await got(ownHook)).map(([event]) => event)).toEqual(['gate.created']);
  });
});

describe('decisions that a sidecar ships', () => {
  it('are sent with the batch, exactly as often as they are stored', async () => {
    const accountId = (await api.deps.sql`SELECT account_id FROM accounts WHERE is_operator`)[0]?.[
      'account_id'
    ];
    const hook = await subscribe(api, everything);
    const { gate_id: gateId } = await api.createGate();
    const passport = await api.issuePassport();
    const visitor = await api.issuePassport({}, other.key);
    const sidecar = await connectSidecar(api);
    const records = [
      recordOf(api, { gateId, passport }),
      recordOf(api, { gateId, passport }, { decision: 'BLOCK', reason: 'domain_missing' }),
      recordOf(api, { gateId, passport: visitor }),
      refusedRecordOf(api, { gateId, accountId }),
    ];
    await sidecar.send(1, records);
    await sidecar.send(1, records);
    const told = (await got(hook))
      .slice(1)
      .map(([event, data]) => [event, data.attestation_id, data.agent_id]);
    expect(told.toSorted()).toEqual(
      [
        ['passport.verified', records[0]?.id, passport.agent_id],
        ['passport.denied', records[1]?.id, passport.agent_id],
        ['passport.verified', records[2]?.id, visitor.agent_id],
        ['passport.denied', records[3]?.id, null],
      ].toSorted(),
    );
    expect(await got(otherHook)).toMatchObject([['passport.verified', { attestation_id: records[2]?.id }]]);
    await expectSoundStore(api);
  });
});

describe('the outbox', () => {
  const event = (accountId: string) => ({
    event: 'gate.created' as const,
    to: [{ accountId: accountId as AccountId, mode: 'live' as const }],
    data: {},
    timestampMs: api.deps.clock.now(),
  });
  const stored = async (): Promise<number> =>
    (await api.deps.sql`SELECT count(*)::int AS n FROM webhook_events`)[0]?.['n'];

  it('stays empty without an enabled subscriber of the event', async () => {
    const third = await api.createAccount();
    const hook = await subscribe(api, { url: null, events: ['passport.denied'] }, third.key);
    const disabled = await subscribe(api, everything, third.key);
    await api.call({ method: 'PUT', url: disabled.url, body: { status: 'disabled' }, key: third.key });
    const before = await stored();
    await api.createGate({}, third.key);
    expect(await stored()).toBe(before);
    expect([await got(hook), await got(disabled)]).toEqual([[], []]);
  });

  it('forgets what its transaction undoes', async () => {
    const before = await stored();
    const undone = api.deps.sql.begin(async (tx) => {
      await emitEvents(tx, api.deps, [event(own.accountId)]);
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect([await stored(), await got(ownHook)]).toEqual([before, []]);
    await api.deps.sql.begin((tx) => emitEvents(tx, api.deps, [event(own.accountId)]));
    expect(await got(ownHook)).toHaveLength(1);
  });

  it('holds one event and a delivery for each endpoint, doubles dropped', async () => {
    const second = await subscribe(api, { url: null, events: ['gate.created'] }, own.key);
    const before = await stored();
    const { to, ...rest } = event(own.accountId);
    await api.deps.sql.begin((tx) => emitEvents(tx, api.deps, [{ ...rest, to: [...to, ...to] }]));
    expect([await stored(), (await got(ownHook)).length, (await got(second)).length]).toEqual([
      before + 1,
      1,
      1,
    ]);
  });
});
