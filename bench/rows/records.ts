import { contest } from '../harness/contest.ts';
import type { Installation } from '../harness/installation.ts';
import { peer } from '../harness/programs.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { warmLoad } from '../harness/warm-load.ts';

/** P7: what the record of each decision costs. */
export const records = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'records',
      // A small difference, on machines on which rounds differ by more.
      rounds: 9,
      title: 'Warm decisions with and without their records, on one core',
      notes: [
        'Without: the same program, in which bench/peers/no-records.ts has replaced the append of the spool. Its decisions are on no record; the row fails if it ships one.',
      ],
    },
    async (scene) => {
      const withRecords = await warmLoad(scene, await scene.installed(), 'with');
      const hook = peer('no-records').at(-1) ?? '';
      const unrecorded = await scene.installed({ nodeOptions: ['--import', hook] });
      const without = await warmLoad(scene, unrecorded, 'without');
      return {
        contenders: [
          {
            ...withRecords,
            name: 'with records',
            finish: withRecords.shipped,
            does: 'a record in the spool before the answer, written with one call for each turn, synced, shipped, committed',
            doesNot: '',
            target: null,
          },
          {
            ...without,
            name: 'without records',
            finish: () => mustShipNothing(unrecorded),
            does: 'the same decision and the same answer',
            doesNot: 'render, write, sync or ship a record',
            target: wantedOf('P7'),
          },
        ],
      };
    },
  );

async function mustShipNothing(installation: Installation): Promise<void> {
  const shipped = await installation.sidecarMetric('agent_trust_sidecar_spool_shipped_records_total');
  const waiting = await installation.sidecarMetric('agent_trust_sidecar_spool_bytes');
  if (shipped + waiting > 0) throw new Error(`a sidecar without records has shipped ${shipped} of them`);
}
