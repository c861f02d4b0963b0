import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { dayMs } from '../../shared/model/time.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { operatorOf } from '../support/service/exports.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  expectSoundStore,
  recordOf,
  refusedRecordOf,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let gateId: string;
let passport: Reply['body'];
let accountId: string;
let sidecar: ConnectedSidecar;
/** Another account with a gate and a passport of its own. */
let other: { readonly accountId: string; readonly key: string };
let otherGateId: string;
let otherPassport: Reply['body'];

beforeAll(async () => {
  gateId = (await api.createGate()).gate_id;
  passport = await api.issuePassport();
  other = await api.createAccount();
  otherGateId = (await api.createGate({}, other.key)).gate_id;
  otherPassport = await api.issuePassport({}, other.key);
  sidecar = await connectSidecar(api);
  ({ accountId } = await operatorOf(api));
});
afterAll(() => expectSoundStore(api));

const permit = (change: Partial<SpooledRecord> = {}) => recordOf(api, { gateId, passport }, change);
const block = (change: Partial<SpooledRecord> = {}) =>
  permit({ decision: 'BLOCK', reason: 'permission_not_granted', ...change });
/** Of the records given, those that are stored, in order of arrival. */
async function storedOf(records: readonly SpooledRecord[]): Promise<string[]> {
  const ids = new Set(records.map(({ id }) => id));
  return (await expectSoundStore(api)).filter((id) => ids.has(id));
}
const idsOf = (records: readonly SpooledRecord[]) => records.map(({ id }) => id);
const expectRefused = (reply: Reply, refused: readonly { seq: number; message: string }[]) => {
  expect(reply.status).toBe(400);
  expect(reply.body.error).toMatchObject({ code: 'record_refused', status: 400, refused });
};

describe('POST /v1/sync/attestations', () => {
  it('takes records into the chain of their passport, links and signs them, and counts them', async () => {
    const own = await connectSidecar(api);
    const visitor = await api.issuePassport();
    const records = [
      recordOf(api, { gateId, passport: visitor }),
      recordOf(
        api,
        { gateId, passport: visitor },
        { decision: 'BLOCK', reason: 'domain_missing', amount_micro_usd: null },
      ),
      recordOf(api, { gateId, passport: visitor }, { pii: [{ pointer: '/note/ä', type: 'email' }] }),
    ];
    expect(await own.send(1, records)).toMatchObject({ status: 200, body: { next_seq: 4 } });
    const { body } = await api.call({ url: `/v1/attestations?passport_id=${visitor.passport_id}` });
    expect(body.attestations).toMatchObject([
      { id: records[2]?.id, sequence: 3, pii: records[2]?.pii, source: own.sidecarId },
      {
        id: records[1]?.id,
        sequence: 2,
        decision: 'BLOCK',
        reason: 'domain_missing',
        amount_micro_usd: null,
      },
      { id: records[0]?.id, sequence: 1, decision: 'PERMIT', previous_attestation_hash: null, test: false },
    ]);
    expect((await api.call({ url: `/v1/passports/${visitor.passport_id}` })).body.use_count).toBe(2);
  });

  it('records a decision about an unverified token in the chain of the gate, or of the account', async () => {
    const own = await connectSidecar(api);
    const records = [
      refusedRecordOf(api, { gateId, accountId }),
      refusedRecordOf(api, { gateId: null, accountId }),
    ];
    expect((await own.send(1, records)).status).toBe(200);
    for (const record of records) {
      const { body } = await api.call({ url: `/v1/attestations/${record.id}` });
      expect(body).toMatchObject({ chain_id: record.chain_id, passport_id: null, gate_id: record.gate_id });
    }
  });

  it('accepts the last decisions of a deleted gate', async () => {
    const own = await connectSidecar(api);
    const gone = (await api.createGate()).gate_id;
    const record = recordOf(api, { gateId: gone, passport });
    await api.call({ method: 'DELETE', url: `/v1/gates/${gone}` });
    expect((await own.send(1, [record])).status).toBe(200);
  });

  describe('exactly once', () => {
    it('stores the new part of an overlapping batch', async () => {
      const own = await connectSidecar(api);
      const records = [permit(), permit(), block(), permit()];
      expect((await own.send(1, records.slice(0, 2))).body).toMatchObject({ next_seq: 3 });
      expect((await own.send(2, records.slice(1))).body).toMatchObject({ next_seq: 5 });
      expect((await own.send(1, records.slice(0, 1))).body).toMatchObject({ next_seq: 5 });
      expect(await storedOf(records)).toEqual(idsOf(records));
    });

    it('skips delivered records unread', async () => {
      const own = await connectSidecar(api);
      const record = permit();
      await own.send(1, [record]);
      expect((await own.send(1, [{ nonsense: true }, permit()])).body).toMatchObject({ next_seq: 3 });
    });

    it('refuses a hole and names the expected number', async () => {
      const own = await connectSidecar(api);
      const records = [permit(), permit()];
      const reply = await own.send(2, records);
      expect(reply.status).toBe(409);
      expect(reply.body.error).toMatchObject({ code: 'sequence_gap', status: 409, expected_seq: 1 });
      await own.send(1, records.slice(0, 1));
      expect((await own.send(3, records.slice(1))).body.error.expected_seq).toBe(2);
      expect(await storedOf(records)).toEqual(idsOf(records.slice(0, 1)));
    });

    it.each([
      ['of a new epoch', 0],
      ['of an epoch that is under way', 1],
    ])('takes one of many copies %s that arrive at the same time', async (_, before) => {
      const own = await connectSidecar(api);
      const records = Array.from({ length: 20 }, () => permit());
      if (before > 0) await own.send(1, records.slice(0, before));
      const replies = await Promise.all([
        own.send(1, records),
        own.send(1 + before, records.slice(before)),
        own.send(1, records.slice(0, 10)),
        own.send(5, records.slice(4)),
        own.send(1, records),
      ]);
      // 409: a copy that came before the part in front of it.
      expect(replies.filter(({ status }) => status !== 200 && status !== 409)).toEqual([]);
      expect(await storedOf(records)).toEqual(idsOf(records));
    });

    it('accepts numbers that the sidecar gives up, and continues after them', async () => {
      const own = await connectSidecar(api);
      const records = [permit(), permit()];
      const batch = [records[0] ?? {}, { void: 'damaged', count: 7 }, records[1] ?? {}];
      expect((await own.send(1, batch)).body).toMatchObject({ next_seq: 10 });
      expect((await own.send(1, batch)).body).toMatchObject({ next_seq: 10 });
      expect(await storedOf(records)).toEqual(idsOf(records));
    });
  });

  describe('two processes with one sidecar id', () => {
    it('accepts records of the newest connection only, whatever their epoch', async () => {
      const older = await connectSidecar(api);
      const records = [permit(), permit(), permit()];
      await older.send(1, records.slice(0, 1));
      const newer = await connectSidecar(api, { sidecarId: older.sidecarId });
      const reply = await older.send(2, records.slice(1, 2));
      expect(reply.status).toBe(409);
      expect(reply.body.error).toMatchObject({ code: 'connection_superseded', status: 409 });
      expect((await newer.send(2, records.slice(1, 2), { epoch: older.epoch })).body).toMatchObject({
        next_seq: 3,
      });
      expect((await newer.send(1, records.slice(2))).body).toMatchObject({ next_seq: 2 });
      expect(await storedOf(records)).toEqual(idsOf(records));
    });

    it('makes a sidecar reconnect if the database was restored and lacks its connection', async () => {
      const own = await connectSidecar(api);
      const records = [permit()];
      await api.deps.sql`
        UPDATE sidecars SET connection_id = '1.of-long-ago', connected_at_ms = 1 WHERE sidecar_id = ${own.sidecarId}`;
      const reply = await own.send(1, records);
      expect(reply.body.error).toMatchObject({ code: 'connection_unknown', status: 409 });
      const again = await connectSidecar(api, { sidecarId: own.sidecarId });
      expect((await again.send(1, records, { epoch: own.epoch })).body).toMatchObject({ next_seq: 2 });
      expect(await storedOf(records)).toEqual(idsOf(records));
    });

    it('accepts nothing in the name of another account’s sidecar', async () => {
      const stranger = await connectSidecar(api, { key: other.key });
      const reply = await sidecar.send(1, [permit()], {
        sidecar_id: stranger.sidecarId,
        connection_id: stranger.connectionId,
      });
      expect(reply.body.error.code).toBe('connection_unknown');
    });
  });

  describe('refuses, and takes nothing of the batch', () => {
    /** Sends a good record, then the bad one, then another good one. */
    async function expectTakenApart(bad: object, message: string): Promise<void> {
      const own = await connectSidecar(api);
      const good = [permit(), permit()];
      expectRefused(await own.send(1, [good[0] ?? {}, bad, good[1] ?? {}]), [{ seq: 2, message }]);
      expect(await storedOf(good)).toEqual([]);
      const retried = await own.send(1, [good[0] ?? {}, { void: 'refused', count: 1 }, good[1] ?? {}]);
      expect(retried.body).toMatchObject({ next_seq: 4 });
      expect(await storedOf(good)).toEqual(idsOf(good));
    }

    it.each<[string, () => object, string]>([
      [
        'a gate of another account',
        () => recordOf(api, { gateId: otherGateId, passport }),
        'gate_id is not a gate of the account of this sidecar',
      ],
      [
        'a refused token at a gate of another account',
        () => refusedRecordOf(api, { gateId: otherGateId, accountId }),
        'gate_id is not a gate of the account of this sidecar',
      ],
      [
        'a passport whose token was not presented',
        () => permit({ token_hash: 'ab'.repeat(32) }),
        'token_hash does not show that this sidecar has seen the token of passport_id',
      ],
      [
        'a passport with another passport’s token',
        () => recordOf(api, { gateId, passport: { ...otherPassport, jwt: passport.jwt } }),
        'token_hash does not show that this sidecar has seen the token of passport_id',
      ],
      [
        'the chain of another account',
        () => refusedRecordOf(api, { gateId: null, accountId: other.accountId }),
        'chain_id is not the account of this sidecar',
      ],
      [
        'the chain of another passport',
        () => permit({ chain_id: otherPassport.passport_id }),
        'chain_id is not the chain this record belongs to',
      ],
      [
        'a time far ahead',
        () => permit({ timestamp_ms: api.deps.clock.now() + 2 * dayMs }),
        'timestamp_ms is in the future',
      ],
    ])('%s', (_what, bad, message) => expectTakenApart(bad(), message));

    it('an id that is taken', async () => {
      const own = await connectSidecar(api);
      const record = permit();
      await own.send(1, [record]);
      await expectTakenApart(
        permit({ id: record.id, amount_micro_usd: 1 }),
        'an attestation with this id already exists',
      );
    });

    it('an id that is in the batch twice', async () => {
      const own = await connectSidecar(api);
      const record = permit();
      expectRefused(await own.send(1, [record, record]), [
        { seq: 2, message: 'an attestation with this id already exists' },
      ]);
      expect(await storedOf([record])).toEqual([]);
    });

    it('names every record that it refuses', async () => {
      const own = await connectSidecar(api);
      const batch = [
        permit({ request_hash: 'x' }),
        permit(),
        { void: 'refused', count: 3 },
        permit({ caller_mode: 'x' }),
      ];
      expectRefused(await own.send(1, batch), [
        { seq: 1, message: 'request_hash is not valid' },
        { seq: 6, message: 'caller_mode is not valid' },
      ]);
    });
  });

  describe('envelope', () => {
    it('may be two megabytes and no larger', async () => {
      const own = await connectSidecar(api);
      const pii = Array.from({ length: 32 }, () => ({ pointer: `/${'x'.repeat(500)}`, type: 'email' }));
      const records = Array.from({ length: 100 }, () => permit({ pii }));
      expect(JSON.stringify(records).length).toBeGreaterThan(limits.bodyBytesMax);
      expect((await own.send(1, records)).status).toBe(200);
      const tooMany = Array.from({ length: 130 }, () => permit({ pii }));
      expectError(await own.send(101, tooMany), 'body_too_large');
    });
  });

  it('logs records that were lost or refused', async () => {
    const counted = async () => {
      const metric = await api.deps.metrics.getSingleMetric('agent_trust_ingested_records_total')?.get();
      return ['void', 'refused', 'taken'].map(
        (outcome) => metric?.values.find(({ labels }) => labels['outcome'] === outcome)?.value ?? 0,
      );
    };
    const before = await counted();
    const own = await connectSidecar(api);
    await own.send(1, [permit({ request_hash: 'x' })]);
    await own.send(1, [{ void: 'refused', count: 1 }, permit()]);
    await own.send(1, [{ void: 'refused', count: 1 }, permit()]);
    expect(await counted()).toEqual(before.map((count) => count + 1));
  });
});
