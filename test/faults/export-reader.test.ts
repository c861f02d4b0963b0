import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addUnsignedRecords, linkRecords } from '../../bench/harness/unsigned-records.ts';
import {
  attestationExporter,
  type ExportAsked,
  type ExportAttestations,
} from '../../control-plane/attestations/export-attestations.ts';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import { chainProver } from '../../control-plane/log/prove-head.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { storageLimits } from '../../control-plane/storage/limits.ts';
import { type ExportBounds, snapshotExporter } from '../../control-plane/storage/snapshot-export.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { collectGarbage } from '../../shared/runtime/collect-garbage.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type Api, startApi } from '../support/api.ts';
import { download, openTransactions, operatorOf } from '../support/exports.ts';
import { until } from '../support/until.ts';

/** Readers that are slow, stop or leave, and what an export costs meanwhile. About 46 MB of records. */
const records = 50_000;
const startMs = Date.parse('2026-01-01T00:00:00Z');
/** Of the youngest 6 MB: far more than is read ahead, in an eighth of the time of all. */
const youngestSlices = 32;
const youngestMs = (startMs + records - youngestSlices * attestationsLimits.exportSliceRowsMax) as UnixMillis;
const newline = 0x0a;
const mebibyte = 1024 * 1024;
let api: Api;
let owner: Owner;

beforeAll(async () => {
  api = await startApi();
  owner = await operatorOf(api);
  const { passport_id: passportId } = await api.issuePassport();
  const { gate_id: gateId } = await api.createGate();
  await addUnsignedRecords(api.deps.sql, {
    owner,
    passportIds: [passportId],
    gateIds: [gateId],
    from: 0,
    count: records,
    startMs,
  });
  await linkRecords(api.deps.sql, passportId);
});
afterAll(() => api.close());

const exporter = (bounds: Partial<ExportBounds> = {}, sql = api.deps.sql) =>
  attestationExporter(
    api.deps,
    snapshotExporter(
      { sql, logger: silentLogger },
      { ...limits, atOnceMax: 1, perOwnerMax: limits.exportsPerAccountMax, ...bounds },
    ),
    chainProver({ witnesses: null }),
  );

const asked = (sinceMs: UnixMillis | null = youngestMs): ExportAsked => ({
  owner,
  format: 'jsonl',
  sinceMs,
  nowMs: api.deps.clock.now(),
});

const ended = (stream: Readable): Promise<string> =>
  new Promise((resolve) => {
    stream.on('error', (error) => resolve(error.message)).on('end', () => resolve('whole'));
  });

/** The next export, as soon as there is room for it. */
async function startWhenFree(startExport: ExportAttestations): Promise<Readable> {
  let started: Readable | null = null;
  await until(
    async () => {
      started = await startExport(asked()).catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'overloaded' });
        return null;
      });
      return started !== null;
    },
    { what: 'there is room for an export' },
  );
  return must<Readable>(started, 'it was started');
}

/** What is not garbage: how much of that lies about is up to the collector. */
function bytesInUse(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const none = async () => (await openTransactions(api)).length === 0;

describe('an export', () => {
  it('holds next to nothing in memory for a slow reader', async () => {
    const before = bytesInUse();
    let most = before;
    let bytes = 0;
    let nextRest = 0;
    for await (const piece of await exporter()(asked(null))) {
      bytes += piece.length;
      if (bytes < nextRest) continue;
      nextRest += 4 * mebibyte;
      // Everything between the reader and the database has the time to run ahead.
      await pause(300);
      most = Math.max(most, bytesInUse());
    }
    expect(bytes).toBeGreaterThan(40 * mebibyte);
    expect(most - before).toBeLessThan(16 * mebibyte);
  });

  it('fetches at most three slices ahead of a slow reader', async () => {
    let slices = 0;
    const onStatement = (_: number, text: string) => {
      if (text.includes('AS wanted (chain, first, last, place)')) slices += 1;
    };
    const counting = connect({ url: api.databaseUrl, onStatement });
    const stream = await exporter({}, counting)(asked());
    let lines = 0;
    for await (const piece of stream) {
      for (const byte of piece) if (byte === newline) lines += 1;
      // While the database counts all records a few times, it could answer for several slices.
      for (let i = 0; i < 3; i++) await api.deps.sql`SELECT count(*) FROM records`;
      const taken = Math.floor(lines / attestationsLimits.exportSliceRowsMax);
      expect(slices - taken).toBeLessThanOrEqual(3);
    }
    expect(slices).toBe(youngestSlices);
    await counting.end({ timeout: 1 });
  });

  it('reads nothing ahead of a reader that takes nothing', async () => {
    const origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
    const { request } = await download(origin, api.adminKey);
    const statements = async () => {
      const [row] = await openTransactions(api);
      return row?.state === 'idle in transaction' ? String(row.query_start.getTime()) : null;
    };
    // Once the buffers of the sockets are full, no statement begins any more.
    let last = await statements();
    await until(
      async () => {
        const earlier = last;
        await pause(300);
        last = await statements();
        return earlier !== null && earlier === last;
      },
      { what: 'the export waits for its reader' },
    );
    request.destroy();
    await until(none, { what: 'its transaction is ended' });
  });

  it('is cut off when its reader takes nothing for too long, and leaves room for the next', async () => {
    const startExport = exporter({ exportStallMsMax: 100 });
    const stalled = startExport(asked()).then(ended);
    // In the same turn: the first is not cut off yet, however slow the machine.
    await expect(startExport(asked())).rejects.toMatchObject({ code: 'overloaded' });
    expect(await stalled).toBe('its client read nothing for 100 ms');
    await until(none, { what: 'its transaction is ended' });
    expect(await ended((await startWhenFree(startExport)).resume())).toBe('whole');
  });

  it('is not cut off while its reader takes a little now and then', async () => {
    const stream = await exporter({ exportStallMsMax: 3_000 })(asked());
    let rests = 0;
    for await (const piece of stream) {
      expect(piece.length).toBeGreaterThan(0);
      rests += 1;
      if (rests <= 12) await pause(300);
    }
    expect(stream.errored).toBeNull();
  });

  it('is not taken for dead while its reader rests for longer than the database may be silent', async () => {
    const silenceMsMax = storageLimits.exportPulseMs + 2_500;
    const impatient = connect({ url: api.databaseUrl, silenceMsMax });
    const stream = await exporter({}, impatient)(asked());
    await pause(silenceMsMax + 2_000);
    expect(await ended(stream.resume())).toBe('whole');
    await impatient.end({ timeout: 1 });
  });

  it('is cut off when it takes too long altogether', async () => {
    const stream = await exporter({ exportMsMax: 300 })(asked());
    const end = ended(stream);
    const reading = setInterval(() => stream.read(1_000), 5);
    expect(await end).toBe('it took longer than 300 ms');
    clearInterval(reading);
    await until(none, { what: 'its transaction is ended' });
  });

  it('is left by its reader, in the middle, without a trace', async () => {
    const startExport = exporter();
    for (let i = 0; i < 3; i++) {
      (await startWhenFree(startExport)).destroy();
      await until(none, { what: 'its transaction is ended' });
    }
    expect(await ended((await startWhenFree(startExport)).resume())).toBe('whole');
  });

  it('is refused as a whole when the database cannot be reached, and leaves room for the next', async () => {
    const nowhere = connect({ url: 'postgres://nobody@127.0.0.1:1/none' });
    const startExport = exporter({}, nowhere);
    for (let i = 0; i < 2; i++)
      await expect(startExport(asked())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await nowhere.end();
  });
});
