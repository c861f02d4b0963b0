import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { call } from '../support/base/http-client.ts';
import { removeFolder, temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/**
 * The folder of a sidecar's spool goes away, or has no room, while it serves: no answered record is lost, and
 * what is wrong is seen.
 */
describe('the ground of a spool', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  let gateId: string;
  let token: string;
  const folders: ReturnType<typeof temporaryFolder>[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await installation(await bundledPrograms(), { databaseUrl: database.url });
    await world.startControlPlane();
    gateId = await world.createGate();
    token = (await world.issuePassport()).token;
  });
  afterAll(async () => {
    await world?.close();
    for (const folder of folders) folder.remove();
    await database?.drop();
  });

  const newFolder = (): string => {
    const folder = temporaryFolder();
    folders.push(folder);
    return folder.path;
  };

  /** The attestation_id of a PERMIT, or the status. */
  async function check(sidecar: Running, n: number): Promise<string | number> {
    const reply = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request: { permission_key: 'orders:create', n } },
    });
    return reply.status === 200 ? reply.body.attestation_id : reply.status;
  }

  /** Eight clients, until `work` is done; then all that was answered. `lastRefused`: when that was asked. */
  async function under(
    sidecar: Running,
    work: (answers: readonly (string | number)[]) => Promise<void>,
    lastRefused = { askedAtMs: 0 },
  ) {
    const answers: (string | number)[] = [];
    let isOver = false;
    const clients = Array.from({ length: 8 }, async (_, client) => {
      for (let n = 0; !isOver; n++) {
        const askedAtMs = performance.now();
        const answer = await check(sidecar, client * 1e6 + n);
        answers.push(answer);
        if (typeof answer === 'string') continue;
        lastRefused.askedAtMs = Math.max(lastRefused.askedAtMs, askedAtMs);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    await work(answers);
    isOver = true;
    await Promise.all(clients);
    return answers;
  }

  const readyz = async (sidecar: Running) => {
    const { status } = await call(`${sidecar.origin}/readyz`);
    return { status };
  };

  async function expectAllStored(answers: readonly (string | number)[]): Promise<void> {
    const ids = answers.filter((answer) => typeof answer === 'string');
    const missing = async () => {
      const rows = await database.sql<{ id: string }[]>`
        SELECT id FROM unnest(${ids}::text[]) AS id
        WHERE NOT EXISTS (SELECT FROM attestations WHERE attestation_id = id)`;
      return rows.length;
    };
    await until(async () => (await missing()) === 0, { what: 'every answered record' });
    expect(ids.length).toBeGreaterThan(0);
  }

  const spoolOf = (dataDir: string) => join(dataDir, 'sidecar', '0', 'spool');

  it.each([
    ['rm -rf of it', (spool: string) => removeFolder(spool)],
    [
      'another folder in its place',
      (spool: string) => {
        renameSync(spool, `${spool}-moved`);
        mkdirSync(spool);
      },
    ],
    [
      'rm of the file that is written to',
      (spool: string) => {
        const [epoch = ''] = readdirSync(spool).filter((name) => /^\d{8}-/.test(name));
        for (const name of readdirSync(join(spool, epoch)))
          if (name.endsWith('.seg')) rmSync(join(spool, epoch, name));
      },
    ],
  ])(
    '%s: deciding stops before the next answer, nothing answered is lost, and it goes on in a new folder',
    async (_what, pull) => {
      const dataDir = newFolder();
      const sidecar = await world.startSidecar({ DATA_DIR: dataDir });
      const answers = await under(sidecar, async (soFar) => {
        await until(() => soFar.length > 100, { what: 'answers' });
        pull(spoolOf(dataDir));
        const pulledAt = soFar.length;
        await until(async () => (await readyz(sidecar)).status === 503, { what: 'it is not ready' });
        const isRefused = () => soFar.slice(pulledAt).includes(503);
        await until(isRefused, { what: 'a refusal' });
        const count = soFar.length;
        await until(() => soFar.slice(count).some((answer) => typeof answer === 'string'), {
          what: 'answers in the new folder',
        });
      });
      await expectAllStored(answers);
      expect(sidecar.program.output()).toMatch(/the folder of the spool was removed or replaced/);
      expect(readdirSync(spoolOf(dataDir)).some((name) => /^\d{8}-/.test(name))).toBe(true);
      await until(async () => (await readyz(sidecar)).status === 200, { what: 'ready again' });
      await sidecar.stop();
    },
  );

  it('is detected within about a second without requests', async () => {
    const dataDir = newFolder();
    const sidecar = await world.startSidecar({ DATA_DIR: dataDir });
    expect((await readyz(sidecar)).status).toBe(200);
    removeFolder(spoolOf(dataDir));
    await until(async () => (await readyz(sidecar)).status === 503, { what: 'not ready' });
    await until(async () => (await readyz(sidecar)).status === 200, { what: 'ready again' });
    expect(typeof (await check(sidecar, 1))).toBe('string');
    await sidecar.stop();
  });

  /** Root in a container may not be allowed to mount: then the test fails, and says why. */
  it('a volume smaller than a segment fills up, recovers when it is shipped, and readiness does not flap', async () => {
    const dataDir = newFolder();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k,mode=0700', 'tmpfs', dataDir]);
    try {
      const sidecar = await world.startSidecar({ DATA_DIR: dataDir });
      const changes: number[] = [];
      const quietMs: number[] = [];
      const lastRefused = { askedAtMs: Number.NEGATIVE_INFINITY };
      let isWatching = true;
      const watching = (async () => {
        while (isWatching) {
          const { status } = await readyz(sidecar);
          if (changes.at(-1) !== status) {
            changes.push(status);
            if (status === 200) quietMs.push(performance.now() - lastRefused.askedAtMs);
          }
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      })();
      // 512 KB are some 700 records.
      const isServed = (answer: string | number) => typeof answer === 'string';
      const answers = await under(
        sidecar,
        (soFar) =>
          until(() => soFar.includes(503) && soFar.filter(isServed).length > 1_500, {
            what: 'twice what the volume holds',
          }),
        lastRefused,
      );
      await expectAllStored(answers);
      await until(() => changes.at(-1) === 200, { what: 'ready again' });
      isWatching = false;
      await watching;
      expect(answers.filter((answer) => answer === 503).length).toBeGreaterThan(0);
      expect(changes.slice(0, 2)).toEqual([200, 503]);
      // Ready again only when nothing was refused for a while, however often it was full before. The watcher
      // looks every 10 ms.
      for (const ms of quietMs) expect(ms).toBeGreaterThan(attestLimits.spoolSteadyMs - 500);
      await sidecar.stop();
    } finally {
      execFileSync('umount', ['-l', dataDir]);
    }
  });
});
