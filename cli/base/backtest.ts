import { setTimeout as pause } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import type { Backtest, BacktestRequest } from '../../clients/node/src/generated/api.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { CommandError } from './call-api.ts';
import type { Work } from './host.ts';
import { paintFor } from './print.ts';

const unitsMs: Readonly<Record<string, number>> = { m: minuteMs, h: hourMs, d: dayMs };

/** `30d`, `12h`, `90m` back from now, or a time. */
export function readSince(text: string): string {
  const back = /^(?<count>\d{1,6})(?<unit>[mhd])$/.exec(text)?.groups;
  if (back !== undefined) {
    const backMs = Number(back['count']) * (unitsMs[back['unit'] ?? ''] ?? 0);
    return new Date(Date.now() - backMs).toISOString();
  }
  if (/^\d{4}-\d{2}-\d{2}T/.test(text)) return text;
  throw new InvalidArgumentError('It is a time to go back, such as 30d or 12h, or 2026-11-01T00:00:00Z.');
}

const pauseFirstMs = 50;
const pauseLastMs = secondMs;

/**
 * Has the service do a backtest, and resolves to it once it is done. Its progress goes to standard error;
 * whoever interrupts the command cancels it. Throws CommandError where it ends otherwise.
 */
export async function backtestGate(
  { client, print, host }: Pick<Work, 'client' | 'print' | 'host'>,
  gateId: string,
  body: BacktestRequest,
): Promise<Backtest & { readonly report: NonNullable<Backtest['report']> }> {
  const signal = host.stopSignal();
  let found = await client.gates.startBacktest(gateId, body);
  let told = 0;
  for (let pauseMs = pauseFirstMs; found.status === 'running'; pauseMs = Math.min(2 * pauseMs, pauseLastMs)) {
    await pause(pauseMs, null, { signal }).catch(() => null);
    found = signal.aborted
      ? await client.gates.cancelBacktest(found.backtest_id)
      : await client.gates.getBacktest(found.backtest_id);
    const percent = Math.floor(found.progress * 100);
    if (found.status === 'running' && percent > told) print.say(`${gateId}: ${percent} % of the records`);
    told = Math.max(told, percent);
  }
  const { report, status, reason, backtest_id: id } = found;
  if (report !== null) return { ...found, report };
  throw new CommandError(
    status === 'cancelled' ? `The backtest ${id} was cancelled.` : `The backtest ${id} failed: ${reason}.`,
  );
}

/** What a person wants to know of it before anything is changed. */
export function printBacktest(
  { host }: Pick<Work, 'host'>,
  { report }: Awaited<ReturnType<typeof backtestGate>>,
): void {
  const { output } = host;
  const paint = paintFor(output, host.env);
  const { decisions, same, different, undecided, by_agent: byAgent, by_permission: byPermission } = report;
  const count = (many: number) => many.toLocaleString('en-US');
  const money = (usd: number) => (usd === 0 ? '' : `, ${usd.toLocaleString('en-US')} USD`);
  const line = (text: string) => output.write(`${text}\n`);
  line(`${count(decisions)} decisions from ${report.from} to ${report.until}: ${count(same)} the same`);
  for (const { from, to, reason, condition, count: many, amount_usd: usd } of different) {
    const why = [reason, condition].filter((each) => each !== null).join(' ');
    const text = `  ${count(many)} ${from} -> ${to}${why === '' ? '' : ` (${why})`}${money(usd)}`;
    line(paint(to === 'BLOCK' ? 'red' : to === 'SUSPEND' ? 'yellow' : 'green', text));
  }
  for (const { cause, count: many } of undecided) line(paint('dim', `  ${count(many)} undecided (${cause})`));
  const top = (title: string, named: readonly (readonly [string | null, number, number])[]) => {
    if (named.length === 0) return;
    line(`most by ${title}:`);
    for (const [name, many, usd] of named.slice(0, shownMax))
      line(`  ${name ?? '-'}: ${count(many)}${money(usd)}`);
  };
  top(
    'agent',
    byAgent.named.map((each) => [each.agent_id, each.count, each.amount_usd]),
  );
  top(
    'permission',
    byPermission.named.map((each) => [each.permission_key, each.count, each.amount_usd]),
  );
  if (report.examples.length > 0) line(`newest: ${report.examples.slice(0, shownMax).join(' ')}`);
}

/** Of each list; `--json` has the whole report. */
const shownMax = 5;
