import { join } from 'node:path';
import { contest } from '../harness/contest.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';

/** What a decision costs at a gate that tries a policy beside its own. */
export const shadow = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'shadow',
      // A small difference, on machines on which rounds differ by more.
      rounds: 9,
      title: 'Warm decisions at a gate with a shadow, and without one, on one core',
      notes: ['The shadow has a smaller limit per transaction: it blocks what the gate permits.'],
    },
    async ({ folder, installed }) => {
      const contender = async (name: string, patch: object | null) => {
        const installation = await installed();
        const { gateId, passport, request } = await benchGate(installation);
        if (patch !== null) await installation.api('PUT', `/gates/${gateId}/shadow`, patch);
        const scriptPath = join(folder, `${name}.lua`);
        return {
          name,
          program: installation.sidecar,
          load: checkLoad(installation, { gateId, body: { passport, request }, scriptPath }),
          finish: () => allShipped(installation, [gateId]),
          doesNot: '',
          target: null,
        };
      };
      const smaller = { constraints: { spend_limits: { per_transaction_usd: 1 } } };
      return {
        contenders: [
          {
            ...(await contender('with a shadow', smaller)),
            does: 'decides twice, and has both on record',
          },
          { ...(await contender('without', null)), does: 'decides, and has it on record' },
        ],
      };
    },
  );
