import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Held, heapOf, showsHeap } from '../support/programs/heap-of.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/*
 * What a program remembers of one request lies among what it needed for that request alone. A short buffer
 * of Node's pool keeps the 8 KiB that all of them are cut from, a cut text the whole text. So each passport
 * below comes in a large request, with others between.
 */

const passports = 250;
/** Of buffers that a program has once; each passport would keep one, or one in ten of them. */
const slabsMax = 12;

let database: Awaited<ReturnType<typeof testDatabase>>;
let world: Installation;
let controlPlane: Running;
let sidecar: Running;
const folder = temporaryFolder();
const folderOf = (name: string) => join(folder.path, name);

beforeAll(async () => {
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  for (const name of ['control-plane', 'sidecar']) mkdirSync(folderOf(name));
  controlPlane = await world.startControlPlane(showsHeap(folderOf('control-plane')));
  sidecar = await world.startSidecar(showsHeap(folderOf('sidecar')));
});
afterAll(async () => {
  await world?.close();
  await database?.drop();
  folder.remove();
});

/** One after the other: each is remembered in a turn of its own. */
async function use(gateId: string, count: number): Promise<void> {
  const url = `${sidecar.origin}/v1/gates/${gateId}/check`;
  for (let n = 0; n < count; n += 1) {
    const { token } = await world.issuePassport();
    const request = { permission_key: 'orders:create', note: 'x'.repeat(20_000) };
    const asks = [request, { ...request, idempotency_key: randomUUID(), amount: 1, hold: true }];
    for (const each of asks) {
      const body = { passport: token, request: each };
      const answer = await untilAnswer(
        () => call(url, { key: world.adminKey, body }),
        (reply) => reply.body.decision === 'PERMIT',
        { what: 'a PERMIT' },
      );
      expect(answer.body.attestation_id).toMatch(/^att_/);
    }
  }
  await until(async () => (await call(`${sidecar.origin}/readyz`)).body.spool.bytes === 0, {
    what: 'its records at the control plane',
  });
}

const held = async (): Promise<Readonly<Record<string, Held>>> => ({
  sidecar: await heapOf(sidecar, folderOf('sidecar')),
  'control plane': await heapOf(controlPlane, folderOf('control-plane')),
});

it('neither program keeps slabs of buffers or large texts for what it remembers', async () => {
  const gateId = await world.createGate();
  await use(gateId, 20);
  const before = await held();
  await use(gateId, passports);
  const after = await held();
  for (const [name, { slabs, cuts }] of Object.entries(after)) {
    expect(slabs - (before[name]?.slabs ?? 0), `slabs of the ${name}`).toBeLessThan(slabsMax);
    expect(cuts - (before[name]?.cuts ?? 0), `cut texts of the ${name}`).toBeLessThan(slabsMax);
  }
});
