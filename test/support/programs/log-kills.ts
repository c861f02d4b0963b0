import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../../control-plane/base/database.ts';
import { readRanges } from '../../../control-plane/log/log-store.ts';
import { connect } from '../../../control-plane/storage/connect.ts';
import { must } from '../../../shared/errors/assert.ts';
import { parseSignedCheckpoint } from '../../../shared/log/checkpoint.ts';
import { renderVkey, signatureTypes } from '../../../shared/log/note.ts';
import { minuteMs } from '../../../shared/model/time.ts';
import { call } from '../base/http-client.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { until } from '../base/until.ts';
import { testDatabase, waitingForTable } from '../database/postgres.ts';
import { type TestWitness, testWitness } from '../service/witnesses.ts';
import { type Installation, installation, type Running } from './installation.ts';
import { bundledPrograms } from './programs.ts';

/** What a control plane writes for its log. */
export const loggedTables = ['log_trees', 'log_tiles', 'log_entries', 'logged_heads', 'log_witnesses'];

/** Whoever is killed anywhere: no checkpoint ever goes back, and no witness is shown two trees. */
export function describeLogKills({
  tables,
  killsAtAnyMoment,
}: {
  readonly tables: readonly string[];
  readonly killsAtAnyMoment: number;
}): void {
  describe('a control plane that is killed while it writes the log', () => {
    let database: Awaited<ReturnType<typeof testDatabase>>;
    let sql: Database;
    let world: Installation;
    let controlPlane: Running;
    const witnesses: TestWitness[] = [];
    const folder = temporaryFolder();
    const policyFile = join(folder.path, 'witnesses.policy');
    /** What was ever served, by size. */
    const served = new Map<number, string>();

    beforeAll(async () => {
      database = await testDatabase();
      sql = connect({ url: database.url, connectionsMax: 4 });
      // Hundreds of starts on a machine that others use: one of them may be late.
      const readyMsMax = 10 * minuteMs;
      world = await installation(await bundledPrograms(), { databaseUrl: database.url, readyMsMax });
      // Its origin and its key are known once it has run.
      controlPlane = await world.startControlPlane();
      await checkpointBehind(0);
      const jwks = (await call(`${controlPlane.origin}/.well-known/jwks.json`)).body;
      await controlPlane.stop('SIGKILL');
      const logs = logLinesOf(jwks.keys, `${new URL(controlPlane.origin).host}/log`);
      for (const name of ['w1', 'w2', 'w3']) witnesses.push(await testWitness(name, logs));
      const lines = witnesses.map(({ name, vkey, origin }) => `witness ${name} ${vkey} ${origin}\n`).join('');
      writeFileSync(policyFile, `${lines}group two 2 w1 w2 w3\nquorum two\n`);
      controlPlane = await world.startControlPlane({ LOG_WITNESSES: policyFile });
    });
    afterAll(async () => {
      await world?.close();
      for (const witness of witnesses) await witness.remove();
      await sql?.end();
      await database?.drop();
      folder.remove();
    });

    /** A chain that nobody writes to otherwise. */
    const grow = async () => {
      await sql`
        INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
        SELECT 'pass_of_a_test', account_id, 'live', 1, ${`sha256:${'a'.repeat(64)}`} FROM accounts WHERE is_operator
        ON CONFLICT (chain_id) DO UPDATE SET sequence = chains.sequence + 1`;
    };

    /** Without waiting until the lease of who was killed is over. */
    const takeOver = () => sql`UPDATE log_trees SET writer_until_ms = 0`;

    async function look(): Promise<number> {
      const reply = await call(`${controlPlane.origin}/log/checkpoint`).catch(() => null);
      if (reply?.status !== 200) return 0;
      const text = String(reply.body);
      const { checkpoint, note } = must(parseSignedCheckpoint(text), 'a checkpoint is served');
      const before = Math.max(0, ...served.keys());
      expect(checkpoint.size).toBeGreaterThanOrEqual(before);
      if (served.has(checkpoint.size)) expect(served.get(checkpoint.size)).toBe(note.text);
      served.set(checkpoint.size, note.text);
      return checkpoint.size;
    }
    const checkpointBehind = (size: number) =>
      until(async () => (await look()) > size, { what: `a checkpoint after ${size}` });
    const witnessedAll = () =>
      until(
        async () => {
          const [row] = await sql<{ all: boolean }[]>`
            SELECT witnessed_size = size AND published_size = size AS all FROM log_trees`;
          return row?.all === true;
        },
        { what: 'a witnessed checkpoint' },
      );

    /** Everything that was served is of one tree. */
    async function expectOneTree() {
      const size = Math.max(...served.keys());
      for (const [each, text] of served) {
        const { checkpoint } = must(parseSignedCheckpoint(`${text}\n— a AAAAAAAAAAAA\n`), 'a checkpoint');
        if (each === 0) continue;
        const [root] = await readRanges(sql, 1, [{ from: 0, to: each }], size);
        expect(Buffer.from(must(root, 'a root'))).toEqual(Buffer.from(checkpoint.root));
      }
      const readyz = async () => (await call(`${controlPlane.origin}/readyz`)).body;
      await until(
        async () => {
          const { witnesses: known } = (await readyz()).log;
          return known.length === 3 && known.every(({ fault }: { fault: unknown }) => fault === null);
        },
        { what: 'three witnesses that cosign' },
      );
      expect((await readyz()).history.state).toBe('whole');
    }

    it.each(tables)('goes on where it was, killed before it writes %s', async (table) => {
      await witnessedAll();
      const before = await look();
      const held = await sql.reserve();
      try {
        await held.unsafe(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
        await grow();
        await until(async () => (await waitingForTable(held, table)).length > 0, {
          what: `a wait for ${table}`,
        });
        await controlPlane.stop('SIGKILL');
      } finally {
        await held.unsafe('ROLLBACK');
        held.release();
      }
      await takeOver();
      await controlPlane.start();
      await checkpointBehind(before);
      await witnessedAll();
      await expectOneTree();
    });

    if (killsAtAnyMoment === 0) return;
    it(
      'goes on where it was, killed at any moment',
      async () => {
        for (let kills = 0; kills < killsAtAnyMoment; kills++) {
          const before = await look();
          await grow();
          // From the first look at the chains to the last cosignature it takes some tens of milliseconds.
          const moment = performance.now() + Math.random() * 400;
          await until(async () => (await look()) > before || performance.now() > moment, {
            what: 'the moment',
          });
          await controlPlane.stop('SIGKILL');
          await takeOver();
          await controlPlane.start();
          // An hour in which nothing is seen otherwise.
          if (kills % 50 === 49) console.info(`${kills + 1} kills, ${served.size} checkpoints served`);
        }
        await grow();
        await witnessedAll();
        await look();
        await expectOneTree();
      },
      120_000 + killsAtAnyMoment * 10_000,
    );
  });
}

function logLinesOf(keys: readonly { purpose: string; x: string }[], origin: string): string {
  return keys
    .filter(({ purpose }) => purpose === 'log')
    .map(({ x }) => `log ${renderVkey(origin, signatureTypes.ed25519, Buffer.from(x, 'base64url'))}\n`)
    .join('');
}
