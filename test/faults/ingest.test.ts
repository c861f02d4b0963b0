import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { appendRecords } from '../../control-plane/attestations/append-records.ts';
import { ingestBatch } from '../../control-plane/attestations/ingest-batch.ts';
import { IngestQueue } from '../../control-plane/attestations/ingest-queue.ts';
import { judgeRecords } from '../../control-plane/attestations/judge-records.ts';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import type { Transaction } from '../../control-plane/base/database.ts';
import { voidShipped } from '../../control-plane/decisions/void-settlements.ts';
import { takeShipped } from '../../control-plane/outcomes/reported-store.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { parseAttestationBatch, parseBatchItem } from '../../shared/wire/sync/attestation-batch.ts';
import type { ShipAnswer, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { Shipper } from '../../sidecar/attest/shipper.ts';
import { ControlPlaneClient } from '../../sidecar/replica/control-plane-client.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { appendTurn, openTestSpool, random } from '../support/data/spooled.ts';
import { faultyDatabase } from '../support/database/faulty-sql.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { operatorOf } from '../support/service/exports.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import {
  connectSidecar,
  expectSoundStore,
  recordOf,
  refusedRecordOf,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: AccountId;
let gateId: string;
let passports: readonly Reply['body'][];
let origin: string;

beforeAll(async () => {
  gateId = (await api.createGate()).gate_id;
  passports = [await api.issuePassport(), await api.issuePassport()];
  accountId = (await operatorOf(api)).accountId;
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
});

/** Decisions at one gate about two passports and about tokens that do not verify: three chains. */
const makeRecords = (count: number): SpooledRecord[] =>
  Array.from({ length: count }, (_, i) =>
    i % 3 === 2
      ? refusedRecordOf(api, { gateId, accountId })
      : recordOf(
          api,
          { gateId, passport: passports[i % 2] },
          i % 4 === 3 ? { decision: 'BLOCK', reason: 'domain_missing' } : {},
        ),
  );
const idsOf = (records: readonly SpooledRecord[]) => records.map(({ id }) => id);

/** They are stored once each, in their order; that the store is sound, the last test looks at. */
async function expectTakenOnce(records: readonly SpooledRecord[]): Promise<void> {
  expect(await storedOf(records)).toEqual(idsOf(records));
}
async function storedOf(records: readonly SpooledRecord[]): Promise<string[]> {
  const rows = await api.deps.sql<{ id: string }[]>`
    SELECT attestation_id AS id FROM attestations WHERE attestation_id IN ${api.deps.sql(idsOf(records))}
    ORDER BY position`;
  return rows.map(({ id }) => id);
}

describe('ingest', () => {
  it.each([
    ['linked under its locks', undefined],
    ['linked ahead', new IngestQueue()],
  ])(
    'takes a batch once, whichever statement or the answer to the commit fails the first time (%s)',
    async (_, ingestQueue) => {
      const sidecar = await connectSidecar(api);
      let firstSeq = 1;
      const voidSettlements = voidShipped(api.deps);
      const takeOutcomes = takeShipped(api.deps);
      for (let failAt = 0; ; failAt++) {
        expect(failAt).toBeLessThan(40);
        const records = makeRecords(6);
        const batch = parseAttestationBatch({
          sidecar_id: sidecar.sidecarId,
          connection_id: sidecar.connectionId,
          epoch: sidecar.epoch,
          first_seq: firstSeq,
          records,
        });
        firstSeq += records.length;
        const faulty = faultyDatabase(api.deps.sql, failAt);
        const first = await ingestBatch(
          {
            ...api.deps,
            voidSettlements,
            takeOutcomes,
            ...(ingestQueue && { ingestQueue }),
            sql: faulty.sql,
          },
          accountId,
          batch,
        ).catch(() => null);
        const isPersisted = failAt === 0;
        expect(await storedOf(records)).toEqual(first === null && !isPersisted ? [] : idsOf(records));
        const again = await ingestBatch({ ...api.deps, voidSettlements, takeOutcomes }, accountId, batch);
        expect(again.answer, `failing at ${failAt}`).toMatchObject({ kind: 'taken', nextSeq: firstSeq });
        await expectTakenOnce(records);
        if (first !== null) {
          expect(faulty.statements).toBeLessThan(failAt);
          break;
        }
      }
    },
  );
});

describe('batches that are linked ahead', () => {
  const voidSettlements = () => voidShipped(api.deps);
  /** One control plane's own; `signed` counts what its key is asked to sign, batch by batch. */
  function controlPlane(deps = api.deps) {
    const signed: number[] = [];
    const { signingKeys } = deps;
    const current: typeof signingKeys.current = (purpose) => {
      const key = signingKeys.current(purpose);
      const signAll: typeof key.signAll = (messages) => {
        signed.push(messages.length);
        return key.signAll(messages);
      };
      return { ...key, signAll };
    };
    const own = { ...deps, signingKeys: { ...signingKeys, current }, ingestQueue: new IngestQueue() };
    return {
      signed,
      take: (batch: ReturnType<typeof parseAttestationBatch>, change: { sql?: typeof deps.sql } = {}) =>
        ingestBatch(
          { ...own, voidSettlements: voidSettlements(), takeOutcomes: takeShipped(deps), ...change },
          accountId,
          batch,
        ),
    };
  }
  async function batchesOf(count: number, size = 4) {
    const sidecar = await connectSidecar(api);
    const records = makeRecords(count * size);
    const batches = Array.from({ length: count }, (_, i) =>
      parseAttestationBatch({
        sidecar_id: sidecar.sidecarId,
        connection_id: sidecar.connectionId,
        epoch: sidecar.epoch,
        first_seq: i * size + 1,
        records: records.slice(i * size, (i + 1) * size),
      }),
    );
    return { records, batches };
  }
  const taken = (nextSeq: number) => ({ kind: 'taken', nextSeq });
  /**
   * Starts `running` while another transaction holds the chain of the first record, does `before` when a
   * batch waits for it, and commits.
   */
  async function whileChainIsLocked<T>(
    [first]: readonly SpooledRecord[],
    start: (tx: Transaction) => { readonly running: Promise<T>; readonly before: () => Promise<unknown> },
  ): Promise<T> {
    const other = connect({ url: api.databaseUrl, connectionsMax: 2 });
    try {
      let running: Promise<T> | undefined;
      await other.begin(async (tx) => {
        await tx`SELECT FROM chains WHERE chain_id = ${first?.chain_id ?? ''} FOR UPDATE`;
        const work = start(tx);
        running = work.running;
        await until(async () => (await waitingForLocks(other)) > 0, { what: 'a batch waits for the chain' });
        await work.before();
      });
      if (running === undefined) throw new Error('it was started');
      return await running;
    } finally {
      await other.end();
    }
  }

  it('are signed once each, and stored in their order, though all are under way at once', async () => {
    const { signed, take } = controlPlane();
    const [one, other] = [await batchesOf(4), await batchesOf(4)];
    const answers = await Promise.all(
      one.batches.flatMap((batch, i) => [
        take(batch),
        ...other.batches.slice(i, i + 1).map((each) => take(each)),
      ]),
    );
    expect(answers.map(({ answer }) => answer)).toMatchObject([5, 5, 9, 9, 13, 13, 17, 17].map(taken));
    expect(signed).toEqual(Array.from({ length: 8 }, () => 4));
    await expectTakenOnce(one.records);
    await expectTakenOnce(other.records);
  });

  it('leave a gap if they arrive too early, and are accepted in order', async () => {
    const { take } = controlPlane();
    const { records, batches } = await batchesOf(2);
    const [first, second] = batches;
    if (first === undefined || second === undefined) throw new Error('two batches');
    const [early, late] = await Promise.all([take(second), take(first)]);
    expect([early.answer, late.answer]).toMatchObject([{ kind: 'gap', expectedSeq: 1 }, taken(5)]);
    expect((await take(second)).answer).toMatchObject(taken(9));
    await expectTakenOnce(records);
  });

  it('are linked anew where the transaction before them fails', async () => {
    const { signed, take } = controlPlane();
    const [one, other] = [await batchesOf(1), await batchesOf(1)];
    const [lost, kept] = [one.batches[0], other.batches[0]];
    if (lost === undefined || kept === undefined) throw new Error('a batch of each');
    // It comes after the locks and before the commit; parts of statements are counted, too.
    const sql = faultyDatabase(api.deps.sql, 11).sql;
    const keeping: ReturnType<typeof take>[] = [];
    const [losing] = await whileChainIsLocked(one.records, () => ({
      running: Promise.allSettled([take(lost, { sql })]),
      before: () => {
        keeping.push(take(kept));
        return until(() => signed.length === 2, { what: 'both are signed' });
      },
    }));
    expect(losing.status).toBe('rejected');
    expect((await Promise.all(keeping)).map(({ answer }) => answer)).toMatchObject([taken(5)]);
    expect(signed).toEqual([4, 4, 4]);
    await expectTakenOnce(other.records);
    // What follows makes no draft for a while, and has the same result.
    for (let i = 0; i <= attestationsLimits.draftPauseBatches; i++) {
      const next = await batchesOf(1);
      for (const batch of next.batches) expect((await take(batch)).answer).toMatchObject(taken(5));
      await expectTakenOnce(next.records);
    }
    expect((await take(lost)).answer).toMatchObject(taken(5));
    await expectTakenOnce(one.records);
  });

  it('pass over a record that was stored since they were looked at', async () => {
    const { take } = controlPlane();
    const { records, batches } = await batchesOf(1);
    const [batch] = batches;
    if (batch === undefined) throw new Error('a batch');
    const answer = await whileChainIsLocked(records, (tx) => {
      const running = take(batch);
      return {
        running,
        // As a settlement does.
        before: async () => {
          const shipped = batch.items
            .slice(0, 1)
            .map((item) => parseBatchItem(item, { sidecarId: batch.sidecarId, accountId }))
            .filter((item) => item.kind === 'record');
          const verdicts = await judgeRecords(tx, { accountId, nowMs: api.deps.clock.now() }, shipped);
          const fresh = verdicts.flatMap((verdict) => (verdict.kind === 'new' ? [verdict.record] : []));
          expect(fresh).toHaveLength(1);
          await appendRecords(tx, api.deps, fresh);
        },
      };
    });
    expect(answer).toMatchObject({ answer: taken(5), appended: 3 });
    await expectTakenOnce(records);
  });

  it('keep the chains whole to which two control planes append, several batches of each at once', async () => {
    const second = await secondControlPlane(api);
    // Both are the first to store its name.
    gateId = (await api.createGate()).gate_id;
    try {
      const sides = [controlPlane(), controlPlane(second.deps)];
      const shipped = await Promise.all(
        sides.map(async ({ take }) => {
          const { records, batches } = await batchesOf(12, 3);
          for (let i = 0; i < batches.length; i += 3) {
            const answers = await Promise.all(batches.slice(i, i + 3).map((each) => take(each)));
            expect(answers.map(({ answer }) => answer)).toMatchObject(
              [4, 7, 10].map((next) => taken(i * 3 + next)),
            );
          }
          return records;
        }),
      );
      for (const records of shipped) await expectTakenOnce(records);
    } finally {
      await second.close();
    }
  });
});

describe('a sidecar that ships to a control plane', () => {
  const folder = useFolder();
  let sidecarKey: string;
  beforeEach(async () => {
    sidecarKey = (await api.createKey({ scopes: ['sidecars:connect'] })).key;
  });

  /** A start of the sidecar: connects, opens its spool, ships. `around` stands in the way of each batch. */
  async function start(
    sidecarId: SidecarId,
    around: (call: () => Promise<ShipAnswer>) => Promise<ShipAnswer> = (call) => call(),
  ) {
    const client: ControlPlaneClient = new ControlPlaneClient({
      origin,
      apiKey: sidecarKey,
      sidecarId,
      clock: api.deps.clock,
      logger: silentLogger,
    });
    await client.connect();
    const spool = await openTestSpool(folder.path, { segmentBytesMax: 4_000 });
    const shipper = new Shipper({
      spool,
      client: { shipAttestations: (body, onOver) => around(() => client.shipAttestations(body, onOver)) },
      connection: () => client.connection,
      random,
      logger: silentLogger,
      shipIntervalMs: 2,
    });
    return { client, spool, shipper };
  }

  const newSidecarId = () => api.deps.random.newId('side', api.deps.clock.now());

  it('has every record there once, though answers are lost and batches are delivered twice', async () => {
    let calls = 0;
    const sidecar = await start(newSidecarId(), async (call) => {
      calls += 1;
      if (calls % 3 === 0) throw new Error('the request got lost');
      const [answer] = await Promise.all([call(), calls % 2 === 0 ? call() : null]);
      if (calls % 4 === 1) throw new Error('the answer got lost');
      return answer;
    });
    const records = makeRecords(60);
    for (let i = 0; i < records.length; i += 6) {
      const callsThen = calls;
      await appendTurn(sidecar.spool, records.slice(i, i + 6));
      await until(() => calls > callsThen, { what: 'the next batch is on its way' });
    }
    await sidecar.spool.close();
    expect(await sidecar.shipper.drain(20_000)).toBe(true);
    expect(calls).toBeGreaterThan(9);
    await sidecar.client.close();
    await expectTakenOnce(records);
  });
});

it('leaves a sound store behind', () => expectSoundStore(api));
