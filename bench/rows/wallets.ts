import { join } from 'node:path';
import { contest } from '../harness/contest.ts';
import type { Installation } from '../harness/installation.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, checkLoad, newAgent } from '../harness/warm-load.ts';
import { countingCalls, type LeaseCost, perThousandOf, spreadOf } from './leases.ts';

/** Out of reach for a run: all decisions are PERMITs. */
const moneyMaxUsd = 1_000_000_000;
const request = { permission_key: 'orders:create', amount: 0.25, currency: 'USD' };

/** P32: what a PERMIT costs more that takes from a path of wallets, and how many calls their leases cost. */
export const wallets = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'wallets',
      rounds: 7,
      title: 'Warm decisions about passports in wallets, on one core',
      notes: [
        'All sides run in the same sidecar, at one gate without limits. Each wallet has one limit, of money by month; a PERMIT takes from every wallet on the path.',
      ],
    },
    async ({ folder, installed }) => {
      const installation = await installed();
      const gate = await installation.api('POST', '/gates', { name: 'bench', trust_level: 'L1' });
      const gateId = String(gate['gate_id']);
      const calls: LeaseCost[] = [];
      const contender = async (depth: 0 | 1 | 4) => {
        const passport = await passportAt(installation, depth);
        const scriptPath = join(folder, `depth-${depth}.lua`);
        return {
          name: depth === 0 ? 'no wallet' : `wallets ${depth} deep`,
          does: depth === 0 ? 'decides and has it on record' : `the same, and takes from ${depth} windows`,
          doesNot: '',
          target: depth === 0 ? wantedOf('P32') : null,
          program: installation.sidecar,
          load: checkLoad(installation, { gateId, body: { passport, request }, scriptPath }),
          finish: () => allShipped(installation, [gateId]),
          ...(depth === 4 && {
            side: (of: Parameters<typeof countingCalls>[0]) => countingCalls(of, installation, calls),
          }),
        };
      };
      return {
        contenders: [await contender(4), await contender(1), await contender(0)],
        // The first was not counted.
        afterwards: () => [callsNote(calls.slice(1))],
      };
    },
  );

/** A passport in the lowest of so many wallets. */
async function passportAt({ api }: Pick<Installation, 'api'>, depth: number): Promise<string> {
  let walletId: string | null = null;
  for (let level = 1; level <= depth; level++) {
    const wallet = await api('POST', '/wallets', {
      name: `level ${level} of ${depth}`,
      limits: { monthly_usd: moneyMaxUsd },
      ...(walletId === null ? {} : { parent_wallet_id: walletId }),
    });
    walletId = String(wallet['wallet_id']);
  }
  const issued = await api('POST', '/passports', {
    agent_id: newAgent(),
    permissions: ['orders:create'],
  });
  if (walletId !== null)
    await api('POST', `/passports/${String(issued['passport_id'])}/wallet`, { wallet_id: walletId });
  return String(issued['jwt']);
}

const callsNote = (calls: readonly LeaseCost[]): string => {
  const count = calls.reduce((sum, each) => sum + each.calls, 0);
  const decisions = calls.reduce((sum, each) => sum + each.decisions, 0);
  return `Four wallets deep: ${count} lease calls for ${decisions} decisions, ${spreadOf(perThousandOf(calls, 'calls'))} per 1,000 in a round; wanted: at most 1.`;
};
