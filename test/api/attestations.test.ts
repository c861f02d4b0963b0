import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import {
  connectSidecar,
  expectSoundStore,
  predatePassport,
  recordOf,
  refusedRecordOf,
} from '../support/test-sidecar.ts';

let api: Api;
let accountId: string;
let gateId: string;
let passport: Reply['body'];
/** Nine records of the passport at the gate, a minute apart, every third a BLOCK; in order of arrival. */
let ids: string[];
let startMs: number;
let other: { readonly accountId: string; readonly key: string };
let testKey: string;

beforeAll(async () => {
  api = await startApi();
  const rows = await api.deps.sql<
    { account_id: string }[]
  >`SELECT account_id FROM accounts WHERE is_operator`;
  accountId = rows[0]?.account_id ?? '';
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
afterAll(async () => {
  await expectSoundStore(api);
  await api.close();
});

const time = (minutes: number) => encodeURIComponent(new Date(startMs + minutes * 60_000).toISOString());
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
      id: ids[0],
      passport_id: passport.passport_id,
      gate_id: gateId,
      chain_id: passport.passport_id,
      decision: 'PERMIT',
      reason: null,
      request_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      permission_key: 'orders:create',
      amount_micro_usd: 12_500_000,
      constraints_evaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission'],
      pii: [],
      test: false,
      resolution: null,
      refers_to: null,
      source_account: expect.stringMatching(/^acct_/),
      source: expect.stringMatching(/^side_/),
      timestamp: new Date(startMs).toISOString(),
      // In form 2, though the sidecar has sent form 1.
      policy_hash: null,
      trust_level: null,
      domain: null,
      state_age_ms: null,
      approval_id: null,
      wallet_id: null,
      hold_expires_at: null,
      proof: null,
      asserted: false,
      sequence: 1,
      previous_attestation_hash: null,
      hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      signature: expect.stringMatching(/^[A-Za-z0-9_-]{86}$/),
      signing_key_id: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    });
  });

  it('is walked page by page, each record once, also while others arrive', async () => {
    const walked: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const { body }: Reply = await list(
        `?limit=4&passport_id=${passport.passport_id}${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      walked.push(...body.attestations.map(({ id }: { id: string }) => id));
      cursor = body.next_cursor;
      const sidecar = await connectSidecar(api);
      await sidecar.send(1, [recordOf(api, { gateId, passport: await api.issuePassport() })]);
    }
    expect(walked).toEqual(ids.toReversed());
  });

  it('ends without a cursor when the last page is exactly full', async () => {
    const { body } = await list(`?limit=9&passport_id=${passport.passport_id}`);
    expect(body.attestations).toHaveLength(9);
    expect(body.next_cursor).toBeNull();
  });

  it('filters by passport, gate, decision and time', async () => {
    const visitor = await api.issuePassport();
    const secondGate = (await api.createGate()).gate_id;
    const sidecar = await connectSidecar(api);
    const record = recordOf(api, { gateId: secondGate, passport: visitor });
    await sidecar.send(1, [record]);
    const mine = `passport_id=${passport.passport_id}`;
    expect(await listedIds(`?gate_id=${secondGate}`)).toEqual([record.id]);
    expect(await listedIds(`?passport_id=${visitor.passport_id}`)).toEqual([record.id]);
    expect(await listedIds(`?gate_id=${secondGate}&${mine}`)).toEqual([]);
    expect(await listedIds(`?${mine}&decision=BLOCK`)).toEqual([ids[8], ids[5], ids[2]]);
    expect(await listedIds(`?${mine}&since=${time(7)}`)).toEqual([ids[8], ids[7]]);
    expect(await listedIds(`?${mine}&until=${time(2)}`)).toEqual([ids[1], ids[0]]);
    expect(await listedIds(`?${mine}&since=${time(3)}&until=${time(4)}`)).toEqual([ids[3]]);
    expect(await listedIds('?passport_id=pass_unknown')).toEqual([]);
  });

  it('filters by reason and permission key, with other filters and alone', async () => {
    const mine = `passport_id=${passport.passport_id}`;
    const blocked = [ids[8], ids[5], ids[2]];
    expect(await listedIds(`?${mine}&reason=domain_not_allowed`)).toEqual(blocked);
    expect(await listedIds('?reason=domain_not_allowed&limit=2')).toEqual(blocked.slice(0, 2));
    expect(await listedIds(`?gate_id=${gateId}&reason=domain_not_allowed&since=${time(3)}`)).toEqual(
      blocked.slice(0, 2),
    );
    expect(await listedIds(`?${mine}&reason=domain_not_allowed&decision=PERMIT`)).toEqual([]);
    expect(await listedIds('?reason=rate_limit_exceeded')).toEqual([]);
    expect(await listedIds(`?${mine}&permission_key=orders:create`)).toEqual(ids.toReversed());
    expect(await listedIds(`?${mine}&permission_key=orders:create&reason=domain_not_allowed`)).toEqual(
      blocked,
    );
    expect(await listedIds('?permission_key=orders')).toEqual([]);
  });

  it('filters by agent: all its passports, including ended ones, and no other account’s', async () => {
    const agent_id = 'filtered-agent';
    const gate = (await api.createGate({ constraints: { trusted_issuers: ['*'] } })).gate_id;
    const visit = async (key?: string) => {
      const { passport_id, jwt } = await api.issuePassport({ agent_id }, key);
      const { body } = await api.call({
        method: 'POST',
        url: `/v1/gates/${gate}/check`,
        body: { passport: jwt, request: { permission_key: 'orders:create' } },
      });
      return { passport_id, attestation_id: body.attestation_id };
    };
    const first = await visit();
    await api.call({ method: 'POST', url: `/v1/passports/${first.passport_id}/revoke`, body: {} });
    const second = await visit();
    const stranger = await visit(other.key);
    const byAgent = `?agent_id=${agent_id}`;
    expect(await listedIds(byAgent)).toEqual([second.attestation_id, first.attestation_id]);
    expect(await listedIds(byAgent, other.key)).toEqual([stranger.attestation_id]);
    expect(await listedIds(byAgent, testKey)).toEqual([]);
    expect(await listedIds(`${byAgent}&passport_id=${first.passport_id}`)).toEqual([first.attestation_id]);
    expect(await listedIds(`${byAgent}&passport_id=${passport.passport_id}`)).toEqual([]);
    expect(await listedIds(`${byAgent}&gate_id=${gate}&permission_key=orders:create`)).toHaveLength(2);
    expect(await listedIds(`${byAgent}&gate_id=${gateId}`)).toEqual([]);
    expect(await listedIds('?agent_id=nobody')).toEqual([]);
    const { body } = await list(`${byAgent}&limit=1`);
    expect(await listedIds(`${byAgent}&cursor=${body.next_cursor}`)).toEqual([first.attestation_id]);
    expectError(await list(`?agent_id=nobody&cursor=${body.next_cursor}`), 'invalid_request', 'cursor');
  });

  it.each([
    ['reason=refused', 'reason'],
    ['reason=', 'reason'],
    ['permission_key=a:b&permission_key=c:d', 'permission_key'],
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['limit=x', 'limit'],
    ['decision=permit', 'decision'],
    ['since=yesterday', 'since'],
    ['until=2026-02-30T00:00:00Z', 'until'],
    ['passport=x', 'passport'],
    ['cursor=', 'cursor'],
    ['cursor=abc', 'cursor'],
    ['cursor=%00', 'cursor'],
  ])('refuses %s', async (query, param) => {
    expectError(await list(`?${query}`), 'invalid_request', param);
  });

  it('takes a limit of 500', async () => {
    expect((await list('?limit=500')).status).toBe(200);
  });

  it('refuses a cursor of another query, of another key, or with a character changed', async () => {
    const { next_cursor: cursor } = (await list('?limit=2')).body;
    expect((await list(`?limit=3&cursor=${cursor}`)).status).toBe(200);
    expectError(await list(`?decision=BLOCK&cursor=${cursor}`), 'invalid_request', 'cursor');
    expectError(await list(`?cursor=${cursor}`, other.key), 'invalid_request', 'cursor');
    expectError(await list(`?cursor=${cursor}`, testKey), 'invalid_request', 'cursor');
    expectError(await list(`?cursor=${cursor}A`), 'invalid_request', 'cursor');
    expectError(
      await list(`?cursor=${cursor[0] === 'M' ? 'N' : 'M'}${cursor.slice(1)}`),
      'invalid_request',
      'cursor',
    );
  });

  it('needs a key with attestations:read', async () => {
    expectError(await api.call({ url: '/v1/attestations', key: null }), 'unauthorized');
    const { key } = await api.createKey({ scopes: ['gates:manage'] });
    expectError(await list('', key), 'insufficient_scope');
    const reader = await api.createKey({ scopes: ['attestations:read'] });
    expect((await list('', reader.key)).status).toBe(200);
  });
});

describe('GET /v1/attestations/:id', () => {
  it('answers the same record as the list', async () => {
    const { body } = await list(`?passport_id=${passport.passport_id}&limit=1`);
    expect(await api.call({ url: `/v1/attestations/${ids[8]}` })).toMatchObject({
      status: 200,
      body: body.attestations[0],
    });
  });

  it.each(['att_unknown', 'pass_00000000000000000000000000', 'att_00000000000000000000000000'])(
    'answers 404 for %s',
    async (id) => {
      expectError(await api.call({ url: `/v1/attestations/${id}` }), 'attestation_not_found');
    },
  );
});

describe('the readers of an attestation', () => {
  /** Sends the record from a sidecar of that account. */
  async function arrive(record: ReturnType<typeof recordOf>, key = api.adminKey): Promise<string> {
    const sidecar = await connectSidecar(api, { key });
    expect(await sidecar.send(1, [record])).toMatchObject({ status: 200 });
    return record.id;
  }
  async function expectSeenBy(
    id: string,
    seen: Readonly<Record<'own' | 'other' | 'test', boolean>>,
  ): Promise<void> {
    const keys = { own: api.adminKey, other: other.key, test: testKey };
    for (const [who, key] of Object.entries(keys)) {
      const isSeen = seen[who as keyof typeof keys];
      const reply = await api.call({ url: `/v1/attestations/${id}`, key });
      if (isSeen) expect(reply.body.id, `${who} sees it`).toBe(id);
      else expectError(reply, 'attestation_not_found');
      expect((await listedIds('?limit=500', key)).includes(id), `${who} finds it in the list`).toBe(isSeen);
    }
  }

  it('the account of passport and gate, and no other', async () => {
    await expectSeenBy(ids[0] ?? '', { own: true, other: false, test: false });
  });

  it('the account of the passport and the account of the gate', async () => {
    const otherGate = (await api.createGate({}, other.key)).gate_id;
    await expectSeenBy(await arrive(recordOf(api, { gateId: otherGate, passport }), other.key), {
      own: true,
      other: true,
      test: false,
    });
  });

  it('each in its own mode', async () => {
    const testPassport = await api.issuePassport({}, testKey);
    const record = recordOf(
      api,
      { gateId, passport: testPassport },
      { decision: 'BLOCK', reason: 'mode_mismatch' },
    );
    await expectSeenBy(await arrive(record), { own: true, other: false, test: true });
    const testGate = (await api.createGate({}, testKey)).gate_id;
    await expectSeenBy(await arrive(recordOf(api, { gateId: testGate, passport: testPassport })), {
      own: false,
      other: false,
      test: true,
    });
  });

  it('of a refused token: the account of the gate', async () => {
    await expectSeenBy(await arrive(refusedRecordOf(api, { gateId, accountId })), {
      own: true,
      other: false,
      test: false,
    });
  });

  it('of a refused token without a gate: the account that asked, in the mode of the key that asked', async () => {
    await expectSeenBy(
      await arrive(refusedRecordOf(api, { gateId: null, accountId }, { caller_mode: 'test' })),
      {
        own: false,
        other: false,
        test: true,
      },
    );
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
      total_requests: 4,
      permits: 2,
      blocks: 2,
      last_request_at: new Date(nowMs + 5_000).toISOString(),
    });
    expect((await api.call({ url: `/v1/passports/${visitor.passport_id}` })).body).toMatchObject({
      use_count: 2,
      last_used_at: new Date(nowMs).toISOString(),
    });
  });

  it('leave gate tests out, which are attested all the same', async () => {
    const gate = (await api.createGate()).gate_id;
    const visitor = await api.issuePassport();
    const { body } = await api.call({
      url: `/v1/gates/${gate}/test`,
      body: { passport_token: visitor.jwt, requested_action: 'orders:create', context: {} },
    });
    expect(body.decision).toBe('allow');
    const attested = (await api.call({ url: `/v1/attestations/${body.attestation_id}` })).body;
    expect(attested).toMatchObject({ decision: 'PERMIT', test: true, source: 'control-plane' });
    const { stats } = (await api.call({ url: `/v1/gates/${gate}` })).body;
    expect(stats).toMatchObject({ total_requests: 0, permits: 0, blocks: 0 });
    expect((await api.call({ url: `/v1/passports/${visitor.passport_id}` })).body.use_count).toBe(0);
  });
});
