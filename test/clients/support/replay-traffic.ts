import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../support/base/temporary-folder.ts';
import { until } from '../../support/base/until.ts';
import { testDatabase } from '../../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../../support/programs/installation.ts';
import { ordinaryTraffic } from '../../support/programs/ordinary-traffic.ts';
import { programsIn } from '../../support/programs/programs.ts';
import { saveExport } from '../../support/programs/save-export.ts';
import { sharedService } from '../../support/run/shared-services.ts';
import { repeatExport, replayBoth, replayBothUnverified, toldOf } from './replay-both.ts';

/** A kilobyte for each passport and some hundred bytes for each PERMIT that changed. */
const peakMibMax = 1_024;

const sidecarCount = 3;

export function describeReplayedTraffic({
  decisions,
  records,
  unjudgedShareMax,
  timeoutMs,
}: {
  /** Made by several sidecars; both programs verify them and decide them again. */
  readonly decisions: number;
  /** Both decide so many again, which are those made again and again. */
  readonly records: number;
  /**
   * Of the decisions, with a ledger in reach. A BLOCK whose units another sidecar holds is not judged: how
   * many there are depends on how fast units come back, and weighs more in few decisions.
   */
  readonly unjudgedShareMax: number;
  readonly timeoutMs: number;
}): void {
  describe.skipIf(decisions === 0)(`a replay of ${decisions} decisions of ordinary traffic`, () => {
    const folder = temporaryFolder();
    let database: Awaited<ReturnType<typeof testDatabase>>;
    let world: Installation;
    let controlPlane: Running;
    let bundle: string;
    const sidecars: Running[] = [];

    beforeAll(async () => {
      bundle = await sharedService('bundle');
      database = await testDatabase();
      world = await installation(programsIn(bundle), { databaseUrl: database.url });
      controlPlane = await world.startControlPlane();
      while (sidecars.length < sidecarCount) sidecars.push(await world.startSidecar());
    });
    afterAll(async () => {
      await world?.close();
      await database?.drop();
      folder.remove();
    });

    it(
      'agrees with the one in Python, contradicts nothing, and leaves few unjudged',
      async () => {
        const startedAtMs = performance.now();
        const origins = sidecars.map(({ origin }) => origin);
        const { counts, recorded } = await ordinaryTraffic({ world, sidecars: origins, decisions, seed: 1 });
        await allStored(recorded);
        const seconds = (performance.now() - startedAtMs) / 1_000;
        const files = await saveExport(
          { adminKey: world.adminKey, origin: controlPlane.origin },
          folder.path,
        );
        const [ours, theirs] = await replayBoth(files, bundle);
        const { decisions: judged, statements, unjudged } = ours.report;
        const sum = (kind: 'agrees' | 'contradicted' | 'unjudged') =>
          Object.values(judged).reduce((total, each) => total + each[kind], 0);
        const all = sum('agrees') + sum('contradicted') + sum('unjudged');
        // On a machine that is too busy a gate may not reach the ledger in time, which no record shows.
        const unreached = unjudged.ledger ?? 0;
        const share = (sum('unjudged') - unreached) / (all - unreached);
        console.info(
          [
            `${all} decisions and ${statements} statements in ${seconds.toFixed(0)} s.`,
            `Answers: ${JSON.stringify(Object.fromEntries(counts))}.`,
            `Unjudged but for the ledger: ${(share * 100).toFixed(3)} %. ${JSON.stringify(unjudged)}.`,
            ...[ours, theirs].map(toldOf),
          ].join('\n'),
        );
        expect(theirs.report).toEqual(ours.report);
        expect([ours.report.contradictions, ours.report.over_limits]).toEqual([[], []]);
        expect([ours.code, theirs.code]).toEqual([0, 0]);
        expect(all).toBeGreaterThan(decisions / 2);
        expect(judged.BLOCK.agrees).toBeGreaterThan(decisions / 100);
        expect(statements).toBeGreaterThan(0);
        expect(share).toBeLessThan(unjudgedShareMax);
      },
      timeoutMs,
    );

    it(
      `agrees with it on ${records} records, in bounded memory`,
      async () => {
        const file = join(folder.path, 'repeated.jsonl');
        const written = await repeatExport(join(folder.path, 'export.jsonl'), file, records);
        const [ours, theirs] = await replayBothUnverified(file);
        console.info([`${written} records.`, ...[ours, theirs].map(toldOf)].join('\n'));
        expect(theirs.report).toEqual(ours.report);
        expect([ours.report.contradictions, ours.report.over_limits]).toEqual([[], []]);
        const judged = Object.values(ours.report.decisions).flatMap((counts) => Object.values(counts));
        expect(judged.reduce((sum, count) => sum + count, ours.report.statements)).toBe(written);
        expect(Math.max(ours.peakMib, theirs.peakMib)).toBeLessThan(peakMibMax);
      },
      timeoutMs,
    );

    /** Sidecars have shipped what they have, and no outcome waits. */
    const allStored = (recorded: number) =>
      until(
        async () => {
          const [row] = await database.sql<{ stored: number; waiting: number }[]>`
            SELECT (SELECT count(*) FROM attestations WHERE resolution IS NULL) AS stored,
              (SELECT count(*) FROM reported_outcomes WHERE due_at_ms IS NOT NULL) AS waiting`;
          return row !== undefined && row.stored >= recorded && row.waiting === 0;
        },
        { what: 'everything on record', timeoutMs: 600_000, pauseMsMax: 1_000 },
      );
  });
}
