import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noCarried } from '../../shared/model/attestation.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { ownerOf } from '../support/service/exports.ts';
import {
  connectSidecar,
  expectSoundStore,
  predatePassport,
  recordOf,
  refusedRecordOf,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: string;
let gateId: string;
let passport: Reply['body'];
/** Nine records of the passport at the gate, a minute apart, every third a BLOCK; in order of arrival. */
let ids: string[];
let startMs: number;
let other: { readonly accountId: string; readonly key: string };
let testKey: string;

beforeAll(async () => {
  ({ accountId } = await ownerOf(api));
  gateId = (await api.createGate()).gate_id;
  passport = await api.issuePassport();
  other = await api.createAccount();
  testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
  startMs = api.deps.clock.now() - 3_600_000;
  await predatePassport(api, passport.passport_id, 7_200_000);
  const records = Array.from({ length: 9 }, (_, i) =>
    recordOf(
      api,
      { gateId, passport },
      {
        timestamp_ms: startMs + i * 60_000,
        ...(i % 3 === 2 ? { decision: 'BLOCK', reason: 'domain_not_allowed' } : {}),
      },
    ),
  );
  ids = records.map(({ id }) => id);
  const sidecar = await connectSidecar(api);
  expect((await sidecar.send(1, records)).status).toBe(200);
});
afterAll(() => expectSoundStore(api));

const list = (query = '', key?: string) =>
  api.call({ url: `/v1/attestations${query}`, ...(key === undefined ? {} : { key }) });
const listedIds = async (query: string, key?: string): Promise<string[]> => {
  const { status, body } = await list(query, key);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.attestations.map(({ id }: { id: string }) => id);
};

describe('GET /v1/attestations', () => {
  it('answers the newest first, with all fields of a record', async () => {
    const { body } = await list();
    expect(body.attestations.map(({ id }: { id: string }) => id)).toEqual(ids.toReversed());
    expect(body.next_cursor).toBeNull();
    expect(body.attestations.at(-1)).toEqual({
      ...{ id: ids[0], passport_id: passport.passport_id, gate_id: gateId, chain_id: passport.passport_id },
      ...{ decision: 'PERMIT', reason: null, request_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
      ...{ permission_key: 'orders:create', amount_micro_usd: 12_500_000 },
      ...{ constraints_evaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission'], pii: [] },
      ...{ test: false, resolution: null, refers_to: null, source_account: expect.stringMatching(/^acct_/) },
      ...{ source: expect.stringMatching(/^side_/), timestamp: new Date(startMs).toISOString() },
      // In form 2, though the sidecar has sent form 1.
      ...{ policy_hash: null, trust_level: null, domain: null, state_age_ms: null, approval_id: null },
      ...{ wallet_id: null, hold_expires_at: null, proof: null, asserted: false, sequence: 1 },
      ...{ ...noCarried, wallet_path: null },
      ...{ previous_attestation_hash: null, hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
      signature: expect.stringMatching(/^[A-Za-z0-9_-]{86}$/),
      signing_key_id: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    });
  });

  it.each([
    ['reason=refused', 'reason'],
    ['permission_key=a:b&permission_key=c:d', 'permission_key'],
    ['limit=501', 'limit'],
    ['decision=permit', 'decision'],
    ['since=yesterday', 'since'],
  ])('refuses %s', async (query, param) => {
    expectError(await list(`?${query}`), 'invalid_request', param);
  });
});

describe('the readers of an attestation', () => {
  /** Sends the record from a sidecar of that account. */
  async function arrive(record: ReturnType<typeof recordOf>, key = api.adminKey): Promise<string> {
    const sidecar = await connectSidecar(api, { key });
    expect(await sidecar.send(1, [record])).toMatchObject({ status: 200 });
    return record.id;
  }
  async function expectSeenBy(id: string, ...seers: readonly ('own' | 'other' | 'test')[]): Promise<void> {
    const keys = { own: api.adminKey, other: other.key, test: testKey };
    for (const [who, key] of Object.entries(keys)) {
      const isSeen = seers.some((seer) => seer === who);
      const reply = await api.call({ url: `/v1/attestations/${id}`, key });
      if (isSeen) expect(reply.body.id, `${who} sees it`).toBe(id);
      else expectError(reply, 'attestation_not_found');
      expect((await listedIds('?limit=500', key)).includes(id), `${who} finds it in the list`).toBe(isSeen);
    }
  }

  it('the account of passport and gate, and no other', async () => {
    await expectSeenBy(ids[0] ?? '', 'own');
  });

  it('the account of the passport and the account of the gate', async () => {
    const otherGate = (await api.createGate({}, other.key)).gate_id;
    const record = recordOf(api, { gateId: otherGate, passport });
    await expectSeenBy(await arrive(record, other.key), 'own', 'other');
  });

  it('each in its own mode', async () => {
    const testPassport = await api.issuePassport({}, testKey);
    const mismatch = { decision: 'BLOCK', reason: 'mode_mismatch' };
    const record = recordOf(api, { gateId, passport: testPassport }, mismatch);
    await expectSeenBy(await arrive(record), 'own', 'test');
    const testGate = (await api.createGate({}, testKey)).gate_id;
    await expectSeenBy(await arrive(recordOf(api, { gateId: testGate, passport: testPassport })), 'test');
  });

  it('of a refused token: the account of the gate', async () => {
    await expectSeenBy(await arrive(refusedRecordOf(api, { gateId, accountId })), 'own');
  });

  it('of a refused token without a gate: the account that asked, in the mode of the key that asked', async () => {
    const record = refusedRecordOf(api, { gateId: null, accountId }, { caller_mode: 'test' });
    await expectSeenBy(await arrive(record), 'test');
  });

  it('of a passport without a gate: the account of the passport, and the one that asked', async () => {
    const id = await arrive(recordOf(api, { gateId: null, passport }), other.key);
    // Its id was in the answer to the other account, so that one reads it by the id, and lists only what is
    // of its own passports and gates.
    expect((await api.call({ url: `/v1/attestations/${id}`, key: other.key })).body.id).toBe(id);
    const listed = (await list('', other.key)).body.attestations;
    expect(listed.map((each: { id: string }) => each.id)).not.toContain(id);
    expect((await api.call({ url: `/v1/attestations/${id}` })).status).toBe(200);
    expectError(await api.call({ url: `/v1/attestations/${id}`, key: testKey }), 'attestation_not_found');
  });
});

describe('counters', () => {
  it('count decisions at the gate and PERMITs at the passport', async () => {
    const gate = (await api.createGate()).gate_id;
    const visitor = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const about = { gateId: gate, passport: visitor };
    const nowMs = api.deps.clock.now();
    await sidecar.send(1, [
      recordOf(api, about, { timestamp_ms: nowMs }),
      recordOf(api, about, { timestamp_ms: nowMs - 5_000 }),
      recordOf(api, about, { decision: 'BLOCK', reason: 'domain_missing', timestamp_ms: nowMs + 5_000 }),
      refusedRecordOf(api, { gateId: gate, accountId }, { timestamp_ms: nowMs - 9_000 }),
    ]);
    const { stats } = (await api.call({ url: `/v1/gates/${gate}` })).body;
    expect(stats).toEqual({
      ...{ total_requests: 4, permits: 2, blocks: 2, last_request_at: new Date(nowMs + 5_000).toISOString() },
    });
    expect((await api.call({ url: `/v1/passports/${visitor.passport_id}` })).body).toMatchObject({
      use_count: 2,
      last_used_at: new Date(nowMs).toISOString(),
    });
  });
});
