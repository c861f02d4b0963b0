import { join } from 'node:path';
import { contest } from '../harness/contest.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';

/** P29: what a PERMIT costs more whose amount is held. */
export const holds = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'holds',
      // A small difference, on machines on which rounds differ by more.
      rounds: 9,
      title: 'Warm decisions whose amount is held, and plain ones, on one core',
      notes: [
        'The same request at the same kind of gate; outcomes are not a part of the load (row `outcomes`).',
      ],
    },
    async ({ folder, installed }) => {
      const contender = async (name: string, more: object) => {
        const installation = await installed();
        const { gateId, passport, request } = await benchGate(installation);
        const body = { passport, request: { ...request, ...more } };
        const scriptPath = join(folder, `${name}.lua`);
        return {
          name,
          program: installation.sidecar,
          load: checkLoad(installation, { gateId, body, scriptPath }),
          finish: () => allShipped(installation, [gateId]),
          doesNot: '',
        };
      };
      return {
        contenders: [
          {
            ...(await contender('held', { hold: true })),
            does: 'decides, takes the amount, answers with the hold, and has it on record',
            target: null,
          },
          {
            ...(await contender('plain', {})),
            does: 'decides, takes the amount, and has it on record',
            target: wantedOf('P29'),
          },
        ],
      };
    },
  );
