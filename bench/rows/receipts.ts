import { join } from 'node:path';
import { receiptTurnMax } from '../../shared/wire/evidence/decision-receipt.ts';
import { contest } from '../harness/contest.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';

/** P33: what a PERMIT costs more that answers with a receipt, one signature for many of them. */
export const receipts = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'receipts',
      rounds: 7,
      title: 'Warm decisions with a receipt, and plain ones, on one core',
      notes: [
        `A receipt waits for the disk, up to SPOOL_FSYNC_MS, so both sides have ${receiptTurnMax} connections: with few, the wait would be measured. Such a turn has one signature.`,
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
          load: {
            ...checkLoad(installation, { gateId, body, scriptPath }),
            connections: receiptTurnMax,
          },
          finish: () => allShipped(installation, [gateId]),
          doesNot: '',
        };
      };
      return {
        contenders: [
          {
            ...(await contender('receipts', { receipt: true })),
            does: 'decides, has it on record and on disk, and answers with the path to a signed root',
            target: null,
          },
          {
            ...(await contender('plain', {})),
            does: 'decides and has it on record',
            target: wantedOf('P33'),
          },
        ],
      };
    },
  );
