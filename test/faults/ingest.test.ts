import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ingestBatch } from '../../control-plane/attestations/ingest-batch.ts';
import { voidShipped } from '../../control-plane/decisions/void-settlements.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { parseAttestationBatch } from '../../shared/wire/spooled-record.ts';
import type { ShipAnswer, SpooledRecord } from '../../shared/wire/sync.ts';
import { startShipper } from '../../sidecar/attest/shipper.ts';
import { type ControlPlaneClient, controlPlaneClient } from '../../sidecar/replica/control-plane-client.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { faultyDatabase } from '../support/faulty-sql.ts';
import { secondControlPlane } from '../support/second-control-plane.ts';
import {
  appendTurn,
  openTestSpool,
  random,
  type TemporaryFolder,
  temporarySpoolFolder,
} from '../support/spooled.ts';
import { connectSidecar, expectSoundStore, recordOf, refusedRecordOf } from '../support/test-sidecar.ts';
import { until } from '../support/until.ts';

let api: Api;
let accountId: AccountId;
let gateId: string;
let passports: readonly Reply['body'][];
let origin: string;

beforeAll(async () => {
  api = await startApi();
  gateId = (await api.createGate()).gate_id;
  passports = [await api.issuePassport(), await api.issuePassport()];
  const rows = await api.deps.sql<
    { account_id: AccountId }[]
  >`SELECT account_id FROM accounts WHERE is_operator`;
  accountId = rows[0]?.account_id as AccountId;
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(() => api.close());

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

async function expectTakenOnce(records: readonly SpooledRecord[]): Promise<void> {
  const ids = new Set(idsOf(records));
  expect((await expectSoundStore(api)).filter((id) => ids.has(id))).toEqual(idsOf(records));
}

describe('ingest', () => {
  it('takes a batch once, whichever statement or the answer to the commit fails the first time', async () => {
    const sidecar = await connectSidecar(api);
    let firstSeq = 1;
    const voidSettlements = voidShipped(api.deps);
    for (let failAt = 0; ; failAt++) {
      expect(failAt).toBeLessThan(30);
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
        { ...api.deps, voidSettlements, sql: faulty.sql },
        accountId,
        batch,
      ).catch(() => null);
      const isPersisted = failAt === 0;
      await expectTakenOnce(first === null && !isPersisted ? [] : records);
      const again = await ingestBatch({ ...api.deps, voidSettlements }, accountId, batch);
      expect(again.answer, `failing at ${failAt}`).toEqual({ kind: 'taken', nextSeq: firstSeq });
      await expectTakenOnce(records);
      if (first !== null) {
        expect(faulty.statements).toBeLessThan(failAt);
        break;
      }
    }
  });
});

describe('two control planes', () => {
  it('keep the chains whole to which both append at once, and the names that both are the first to store', async () => {
    const second = await secondControlPlane(api);
    try {
      const newGateId = (await api.createGate()).gate_id;
      const shipped = await Promise.all(
        [api.deps, second.deps].map(async (deps) => {
          const sidecar = await connectSidecar(api);
          const records = Array.from({ length: 60 }, (_, i) =>
            recordOf(api, { gateId: newGateId, passport: passports[i % 2] }),
          );
          for (let from = 0; from < records.length; from += 20) {
            const batch = parseAttestationBatch({
              sidecar_id: sidecar.sidecarId,
              connection_id: sidecar.connectionId,
              epoch: sidecar.epoch,
              first_seq: from + 1,
              records: records.slice(from, from + 20),
            });
            const voidSettlements = voidShipped(deps);
            const { answer } = await ingestBatch({ ...deps, voidSettlements }, accountId, batch);
            expect(answer).toEqual({ kind: 'taken', nextSeq: from + 21 });
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
  let folder: TemporaryFolder;
  let sidecarKey: string;
  beforeEach(async () => {
    folder = temporarySpoolFolder();
    sidecarKey = (await api.createKey({ scopes: ['sidecars:connect'] })).key;
    return () => folder.remove();
  });

  /** A start of the sidecar: connects, opens its spool, ships. `around` stands in the way of each batch. */
  async function start(
    sidecarId: Parameters<typeof controlPlaneClient>[0]['sidecarId'],
    around: (call: () => Promise<ShipAnswer>) => Promise<ShipAnswer> = (call) => call(),
  ) {
    const client: ControlPlaneClient = controlPlaneClient({
      origin,
      apiKey: sidecarKey,
      sidecarId,
      clock: api.deps.clock,
    });
    await client.connect();
    const spool = await openTestSpool(folder.path, { segmentBytesMax: 4_000 });
    const shipper = startShipper({
      spool,
      client: { shipAttestations: (body) => around(() => client.shipAttestations(body)) },
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

  it('has every record there once, though it is stopped in the middle of everything and started again', async () => {
    const sidecarId = newSidecarId();
    const records = makeRecords(40);
    for (let turn = 0; turn < 4; turn++) {
      const sidecar = await start(sidecarId, async (call) => {
        const answer = await call();
        // The process ends before it hears that the batch was taken.
        if (turn % 2 === 1) throw new Error('the process ends');
        return answer;
      });
      const part = records.slice(turn * 10, turn * 10 + 10);
      await appendTurn(sidecar.spool, part.slice(0, 5));
      await appendTurn(sidecar.spool, part.slice(5));
      if (turn === 1) {
        await until(() => sidecar.shipper.lastError !== null, {
          what: 'a batch was taken, and nobody knows',
        });
      }
      await sidecar.shipper.stop();
      await sidecar.spool.close();
      await sidecar.client.close();
    }
    const last = await start(sidecarId);
    await last.spool.close();
    expect(await last.shipper.drain(20_000)).toBe(true);
    await last.client.close();
    await expectTakenOnce(records);
  });

  it('ships nothing more when another process has connected with its id, and that one ships what is left', async () => {
    const sidecarId = newSidecarId();
    const records = makeRecords(12);
    const first = await start(sidecarId);
    await appendTurn(first.spool, records.slice(0, 6));
    await until(async () => (await expectSoundStore(api)).includes(records[5]?.id ?? ''), {
      what: 'half is shipped',
    });
    const successor = controlPlaneClient({ origin, apiKey: sidecarKey, sidecarId, clock: api.deps.clock });
    await successor.connect();
    await appendTurn(first.spool, records.slice(6));
    await until(() => first.shipper.state === 'superseded', { what: 'the older process is told' });
    await first.shipper.stop();
    await first.spool.close();
    await expectTakenOnce(records.slice(0, 6));

    const second = await start(sidecarId);
    await second.spool.close();
    expect(await second.shipper.drain(20_000)).toBe(true);
    await expectTakenOnce(records);
    await Promise.all([first.client.close(), successor.close(), second.client.close()]);
  });

  it('keeps what is refused, and ships what is around it', async () => {
    const records = makeRecords(5);
    const foreign = {
      ...records[2],
      token_hash: 'ab'.repeat(32),
      passport_id: passports[0].passport_id,
      chain_id: passports[0].passport_id,
      decision: 'PERMIT',
      reason: null,
    } as SpooledRecord;
    const sidecar = await start(newSidecarId());
    await appendTurn(sidecar.spool, records.with(2, foreign));
    await sidecar.spool.close();
    expect(await sidecar.shipper.drain(20_000)).toBe(true);
    expect(sidecar.shipper.voidedRecords.refused).toBe(1);
    await sidecar.client.close();
    await expectTakenOnce([...records.slice(0, 2), ...records.slice(3)]);
  });
});
