import { createHash } from 'node:crypto';
import type { Result } from './world.ts';

/** What seeds have to reach, or they say little. */
export const mustBeReached: readonly string[] = [
  ...['rate_limit_exceeded', 'spend_limit_exceeded', 'wallet_limit_exceeded', 'wallet_frozen'].map(
    (reason) => `BLOCK ${reason}`,
  ),
  ...['BLOCK quota_unavailable', 'BLOCK state_stale', 'outcome taken', 'refund taken', 'elsewhere: PERMIT'],
  ...['decide', 'ask_leases', 'look_up', 'wait', 'settle_permit', 'settle_suspend', 'void'].map(
    (effect) => `effect ${effect}`,
  ),
  ...['freeze', 'unfreeze', 'scale wallet', 'share wallet', 'move', 'move wallet'].map(
    (change) => `change: ${change}`,
  ),
];

/** How much was simulated, and what came of it: whether the generator reaches what it is there for. */
export function totals() {
  const counts = new Map<string, number>();
  const traces = createHash('sha256');
  const beganAtMs = performance.now();
  let seeds = 0;
  let simulatedMs = 0;
  const of = (test: (what: string) => boolean): number =>
    [...counts].reduce((sum, [what, count]) => sum + (test(what) ? count : 0), 0);
  return {
    counts,
    add(result: Result): void {
      seeds++;
      traces.update(result.hash);
      simulatedMs += result.simulatedMs;
      for (const [what, count] of result.counts) counts.set(what, (counts.get(what) ?? 0) + count);
    },
    /** Of what was answered, the part that was permitted. */
    get permitted(): number {
      return of((what) => what === 'PERMIT') / of((what) => isAnswer(what));
    },
    text(): string {
      const lines = [...counts].sort(([, one], [, other]) => other - one);
      const times = simulatedMs / (performance.now() - beganAtMs);
      return [
        `${seeds} seeds, ${Math.round(simulatedMs / 1_000)} s simulated, ${times.toFixed(0)} times real time`,
        `traces ${traces.copy().digest('hex')}`,
        `${(this.permitted * 100).toFixed(0)} % of what was asked was permitted`,
        ...lines.map(([what, count]) => `  ${what}: ${count}`),
      ].join('\n');
    },
  };
}

const isAnswer = (what: string): boolean =>
  what === 'PERMIT' || what === 'SUSPEND' || what.startsWith('BLOCK ') || /^[a-z_]+$/.test(what);
