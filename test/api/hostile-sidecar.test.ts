import { beforeAll, describe, expect, it } from 'vitest';
import { dayMs, minuteMs } from '../../shared/model/time.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * A sidecar of another account that was shown a token once, and from then on writes what it likes, with a
 * key of its own and its own gates. `victim` owns the passports.
 */
const api = useApi(startOwnApi);
let victim: { readonly accountId: string; readonly key: string };
let hostile: { readonly accountId: string; readonly key: string };
let gateId: string;
let passport: Reply['body'];

beforeAll(async () => {
  victim = await api.createAccount();
  hostile = await api.createAccount();
  gateId = (await api.createGate({ trust_level: 'L1' }, hostile.key)).gate_id;
  passport = await api.issuePassport({ permissions: ['orders:read'] }, victim.key);
});

/** Connects as a new sidecar and ships the records as one batch. */
const ship = async (records: readonly object[]): Promise<Reply> =>
  (await connectSidecar(api, { key: hostile.key })).send(1, records);

const about = (of: Reply['body'], at: string | null, change: Partial<SpooledRecord> = {}) =>
  recordOf(api, { gateId: at, passport: of }, { permission_key: 'orders:read', ...change });

const chainOf = async (id: string): Promise<readonly Reply['body'][]> =>
  (await api.call({ url: `/v1/attestations?passport_id=${id}`, key: victim.key })).body.attestations;

async function rowsLeft(): Promise<unknown> {
  const [row] = await api.deps.sql`
    SELECT (SELECT count(*) FROM sidecar_epochs) AS epochs, (SELECT count(*) FROM chains) AS chains,
      (SELECT count(*) FROM attestations) AS attestations`;
  return row;
}

async function expectRefused(record: SpooledRecord, message: string): Promise<void> {
  const before = await rowsLeft();
  const reply = await ship([record]);
  expect(reply).toMatchObject({
    status: 400,
    body: { error: { code: 'record_refused', refused: [{ seq: 1, message }] } },
  });
  expect(await rowsLeft()).toEqual(before);
}

describe('a claim that the database contradicts is refused, reported, and leaves no row:', () => {
  it('a PERMIT of what is not granted, of nothing, of a time before the passport or ahead; a SUSPEND', async () => {
    const soon = api.deps.clock.now() + minuteMs + 5_000;
    const claims: [Partial<SpooledRecord>, string][] = [
      [{ permission_key: 'payments:send' }, 'permission_key is not granted by passport_id'],
      [{ permission_key: null }, 'permission_key is missing'],
      [{ timestamp_ms: 0 }, 'timestamp_ms is before passport_id was issued'],
      [{ timestamp_ms: soon }, 'timestamp_ms is in the future'],
      [{ decision: 'SUSPEND', reason: 'approval_required' }, 'decision is not valid'],
    ];
    for (const [change, message] of claims) await expectRefused(about(passport, gateId, change), message);
  });

  it('a passport that is not valid yet at a time when it is', async () => {
    const issuedAtMs = Math.floor(Date.parse(passport.issued_at) / 1_000) * 1_000;
    const at = (timestamp_ms: number) =>
      about(passport, gateId, {
        decision: 'BLOCK',
        reason: 'passport_not_yet_valid',
        constraints_evaluated: ['passport'],
        timestamp_ms,
      });
    await expectRefused(at(issuedAtMs - minuteMs), 'timestamp_ms is after passport_id was issued');
    // As a sidecar decides while the clock of PostgreSQL goes back.
    expect(await ship([at(issuedAtMs - minuteMs - 1)])).toMatchObject({ status: 200 });
  });

  it('a time after the end of the passport, and an end that has not come', async () => {
    const short = await api.issuePassport({ permissions: ['orders:read'], expires_in: '60s' }, victim.key);
    const endMs = Date.parse(short.expires_at);
    const blocked = { decision: 'BLOCK', reason: 'passport_expired', constraints_evaluated: ['passport'] };
    await expectRefused(
      about(short, gateId, { ...blocked, timestamp_ms: endMs - 1 }),
      'timestamp_ms is before the end of passport_id',
    );
    api.advance(2 * minuteMs);
    await expectRefused(
      about(short, gateId, { timestamp_ms: endMs }),
      'timestamp_ms is after the end of passport_id',
    );
    expect(await ship([about(short, gateId, { ...blocked, timestamp_ms: endMs })])).toMatchObject({
      status: 200,
    });
  });

  it('a passport of the other mode, but that it was blocked for it', async () => {
    const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, victim.key);
    const test = await api.issuePassport({ permissions: ['orders:read'] }, key);
    await expectRefused(about(test, gateId), 'passport_id is of another mode');
    await expectRefused(about(test, null, { caller_mode: 'live' }), 'passport_id is of another mode');
    const mismatch = { decision: 'BLOCK', reason: 'mode_mismatch', constraints_evaluated: ['passport'] };
    await expectRefused(about(passport, gateId, mismatch), 'passport_id is of the same mode');
    expect(await ship([about(test, gateId, mismatch)])).toMatchObject({ status: 200 });
  });

  it('a PERMIT that passed over a limit of the passport itself', async () => {
    const constraints = { spend_limits: { daily_usd: 20 }, allowed_domains: ['api.example.com'] };
    const capped = await api.issuePassport({ permissions: ['orders:read'], constraints }, victim.key);
    const checks = ['passport', 'trust_level', 'issuer', 'permission', 'domain_allowlist', 'spend_limit'];
    for (const name of ['domain_allowlist', 'spend_limit']) {
      const constraints_evaluated = checks.filter((each) => each !== name);
      await expectRefused(
        about(capped, gateId, { constraints_evaluated }),
        'constraints_evaluated lacks a check that a PERMIT has to pass',
      );
    }
  });
});

it('what a foreign sidecar says of no gate is on record under its account, and counts nowhere', async () => {
  const constraints = { spend_limits: { daily_usd: 20 } };
  const capped = await api.issuePassport({ permissions: ['orders:read'], constraints }, victim.key);
  await api.call({
    url: '/v1/webhooks',
    key: victim.key,
    body: { url: 'https://hooks.example.com/x', events: ['spend_limit.approaching'] },
  });
  const evaluated = ['passport', 'issuer', 'permission', 'spend_limit'];
  // Of a lease that has gone since.
  const spent = { amount_micro_usd: 19_000_000, constraints_evaluated: evaluated, took: [999_999] };
  expect(await ship([about(capped, null, spent), about(capped, null, spent)])).toMatchObject({
    status: 200,
  });

  const url = `/v1/passports/${capped.passport_id}`;
  expect((await api.call({ url, key: victim.key })).body).toMatchObject({
    use_count: 0,
    last_used_at: null,
  });
  const alerts = () => api.deps.sql`SELECT FROM webhook_events WHERE event = 'spend_limit.approaching'`;
  expect(await alerts()).toHaveLength(0);
  expect(await chainOf(capped.passport_id)).toMatchObject([
    { source_account: hostile.accountId, gate_id: null },
    { source_account: hostile.accountId, gate_id: null },
  ]);

  // At a gate that can be looked up it counts, and the one alert of the window is still to be given.
  const checks = ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit'];
  await ship([about(capped, gateId, { ...spent, constraints_evaluated: checks })]);
  expect((await api.call({ url, key: victim.key })).body).toMatchObject({ use_count: 1 });
  expect(await alerts()).toHaveLength(1);
});

describe('an honest sidecar', () => {
  it('is believed with a clock that is a little behind or ahead', async () => {
    const fresh = await api.issuePassport({ permissions: ['orders:*'] }, victim.key);
    const nowMs = api.deps.clock.now();
    const records = [-55_000, 0, 55_000].map((offMs) =>
      about(fresh, gateId, { timestamp_ms: nowMs + offMs, permission_key: 'orders:create' }),
    );
    expect(await ship(records)).toMatchObject({ status: 200 });
  });

  it('is believed when it was cut off during the revocation, because an L1 gate decides on its last state', async () => {
    const gone = await api.issuePassport({ permissions: ['orders:read'] }, victim.key);
    await api.call({ url: `/v1/passports/${gone.passport_id}/revoke`, key: victim.key, body: {} });
    api.advance(dayMs);
    expect(await ship([about(gone, gateId)])).toMatchObject({ status: 200 });
    const [record] = await chainOf(gone.passport_id);
    expect(record).toMatchObject({ decision: 'PERMIT', source_account: hostile.accountId });
  });

  it('leaves a sound store', () => expectSoundStore(api));
});
