import { join } from 'node:path';
import { contest } from '../harness/contest.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';

/** Of the kinds that docs/conditions.md names: a path, a verb, a count, recipients, hours. */
const fiveConditions = [
  "request.arguments.path.startsWith('/workspace/') && !request.arguments.path.matches('(^|/)\\\\.\\\\.(/|$)')",
  "request.arguments.sql.matches('(?i)^\\\\s*select\\\\b')",
  'request.arguments.rows <= 100 && request.amount_micro_usd < 100000000',
  "request.arguments.to.all(each, each.endsWith('@example.com'))",
  "now.getHours('Europe/Berlin') >= 0 && passport.trust_tier in ['L1', 'L2', 'L3']",
].map((require, place) => ({ id: `condition-${place + 1}`, require }));

const given = {
  path: '/workspace/reports/2026/november.csv',
  sql: 'SELECT id, total FROM orders WHERE day = $1 LIMIT 100',
  rows: 100,
  to: ['ann@example.com', 'ben@example.com', 'cleo@example.com'],
};

/** P35: what five conditions over the arguments of a tool cost. */
export const conditions = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'conditions',
      // A difference of some percent, on machines on which rounds differ by more.
      rounds: 9,
      title: 'Warm decisions at a gate with five conditions, and at one without, on one core',
      notes: ['The same request, with arguments of a tool; every condition is met.'],
    },
    async ({ folder, installed }) => {
      const contender = async (name: string, of: readonly object[]) => {
        const installation = await installed();
        const { gateId, passport, request } = await benchGate(installation);
        if (of.length > 0)
          await installation.api('PUT', `/gates/${gateId}`, { constraints: { conditions: of } });
        const body = { passport, request: { ...request, arguments: given } };
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
            ...(await contender('five conditions', fiveConditions)),
            does: 'asks five conditions, decides, takes the amount, and has it on record',
            target: null,
          },
          {
            ...(await contender('none', [])),
            does: 'decides, takes the amount, and has it on record',
            target: wantedOf('P35'),
          },
        ],
      };
    },
  );
