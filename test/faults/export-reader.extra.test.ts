import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { storageLimits } from '../../control-plane/storage/limits.ts';
import { until } from '../support/base/until.ts';
import { download, openTransactions } from '../support/service/exports.ts';
import { type ExportWorld, ended, exportWorld } from './export-world.ts';

/** Readers that are slow. About 46 MB of records. */
let world: ExportWorld;
beforeAll(async () => {
  world = await exportWorld(50_000);
});
afterAll(() => world?.api.close());

/** 6 MB: far more than is read ahead, in an eighth of the time of all. */
const youngestSlices = 32;
const youngest = youngestSlices * attestationsLimits.exportSliceRowsMax;
const newline = 0x0a;

describe('an export', () => {
  it('fetches at most three slices ahead of a slow reader', async () => {
    let slices = 0;
    const onStatement = (_: number, text: string) => {
      if (text.includes('AS wanted (chain, first, last, place)')) slices += 1;
    };
    const counting = connect({ url: world.api.databaseUrl, onStatement });
    const stream = await world.exporter({}, counting)(world.asked(youngest));
    let lines = 0;
    for await (const piece of stream) {
      for (const byte of piece) if (byte === newline) lines += 1;
      // While the database counts all records a few times, it could answer for several slices.
      for (let i = 0; i < 3; i++) await world.api.deps.sql`SELECT count(*) FROM records`;
      const taken = Math.floor(lines / attestationsLimits.exportSliceRowsMax);
      expect(slices - taken).toBeLessThanOrEqual(3);
    }
    expect(slices).toBe(youngestSlices);
    await counting.end({ timeout: 1 });
  });

  it('reads nothing ahead of a reader that takes nothing', async () => {
    const origin = await world.api.app.listen({ port: 0, host: '127.0.0.1' });
    const { request } = await download(origin, world.api.adminKey);
    const statements = async () => {
      const [row] = await openTransactions(world.api);
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
    await until(world.none, { what: 'its transaction is ended' });
  });

  it('is not cut off while its reader takes a little now and then', async () => {
    const stream = await world.exporter({ exportStallMsMax: 3_000 })(world.asked(youngest));
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
    const impatient = connect({ url: world.api.databaseUrl, silenceMsMax });
    const stream = await world.exporter({}, impatient)(world.asked(youngest));
    await pause(silenceMsMax + 2_000);
    expect(await ended(stream.resume())).toBe('whole');
    await impatient.end({ timeout: 1 });
  });
});
