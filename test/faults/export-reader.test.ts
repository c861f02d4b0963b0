import type { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExportAttestations } from '../../control-plane/attestations/export-attestations.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { until } from '../support/base/until.ts';
import { type ExportWorld, ended, exportWorld } from './export-world.ts';

/** Readers that stop or leave; how much is read ahead of slow ones: export-reader.extra.test.ts. */
let world: ExportWorld;
beforeAll(async () => {
  // More than is read ahead.
  world = await exportWorld(3_200);
});
afterAll(() => world?.api.close());

/** The next export, as soon as there is room for it. */
async function startWhenFree(startExport: ExportAttestations): Promise<Readable> {
  let started: Readable | null = null;
  await until(
    async () => {
      started = await startExport(world.asked()).catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'overloaded' });
        return null;
      });
      return started !== null;
    },
    { what: 'there is room for an export' },
  );
  return must<Readable>(started, 'it was started');
}

describe('an export', () => {
  it('is cut off when its reader takes nothing for too long, and leaves room for the next', async () => {
    const startExport = world.exporter({ exportStallMsMax: 100 });
    const stalled = startExport(world.asked()).then(ended);
    // In the same turn: the first is not cut off yet, however slow the machine.
    await expect(startExport(world.asked())).rejects.toMatchObject({ code: 'overloaded' });
    expect(await stalled).toBe('its client read nothing for 100 ms');
    await until(world.none, { what: 'its transaction is ended' });
    expect(await ended((await startWhenFree(startExport)).resume())).toBe('whole');
  });

  it('is cut off when it takes too long altogether', async () => {
    const stream = await world.exporter({ exportMsMax: 300 })(world.asked());
    const end = ended(stream);
    const reading = setInterval(() => stream.read(1_000), 5);
    expect(await end).toBe('it took longer than 300 ms');
    clearInterval(reading);
    await until(world.none, { what: 'its transaction is ended' });
  });

  it('is left by its reader, in the middle, without a trace', async () => {
    const startExport = world.exporter();
    for (let i = 0; i < 3; i++) {
      (await startWhenFree(startExport)).destroy();
      await until(world.none, { what: 'its transaction is ended' });
    }
    expect(await ended((await startWhenFree(startExport)).resume())).toBe('whole');
  });

  it('is refused as a whole when the database cannot be reached, and leaves room for the next', async () => {
    const nowhere = connect({ url: 'postgres://nobody@127.0.0.1:1/none' });
    const startExport = world.exporter({}, nowhere);
    for (let i = 0; i < 2; i++)
      await expect(startExport(world.asked())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await nowhere.end();
  });
});
