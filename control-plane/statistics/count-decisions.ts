/** Room `control-plane/statistics`: decisions by minute and hour, counted with the records. */

import type { Owner } from '../../shared/model/owner.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import type { AppendedRecord } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';

interface Count {
  /** account_id, mode, gate_id, decision, reason. */
  readonly of: readonly string[];
  readonly step: 'minute' | 'hour';
  readonly startsAtMs: number;
  decisions: number;
}

/**
 * Counts decisions by the minute and the hour of their time, for the owner of the gate, or without a gate for
 * those who may read them. One statement for a batch; rows are locked in the order of their key until the
 * transaction ends. Gate tests, and how an approval ended, are no decisions of their own.
 */
export async function countDecisions(tx: Transaction, appended: readonly AppendedRecord[]): Promise<void> {
  const minutes = new Map<string, Count>();
  for (const { attestation, reader, otherReader } of appended) {
    const { gateId, decision, reason, test, resolution, timestampMs } = attestation;
    if (test || resolution !== null) continue;
    const { accountId, mode }: Owner = gateId === null ? reader : (otherReader ?? reader);
    const startsAtMs = timestampMs - (timestampMs % minuteMs);
    const name = `${accountId} ${mode} ${gateId} ${decision} ${reason} ${startsAtMs}`;
    const count = minutes.get(name);
    if (count !== undefined) {
      count.decisions += 1;
      continue;
    }
    const of = [accountId, mode, gateId ?? '', decision, reason ?? ''];
    minutes.set(name, { of, step: 'minute', startsAtMs, decisions: 1 });
  }
  if (minutes.size === 0) return;
  const rows = [...minutes.values(), ...hoursOf(minutes.values())];
  const column = (place: number): string[] => rows.map(({ of }) => of[place] ?? '');
  await tx`
    INSERT INTO decision_counts (account_id, mode, step, starts_at_ms, gate_id, decision, reason, decisions)
    SELECT * FROM unnest(
      ${column(0)}::text[], ${column(1)}::text[], ${rows.map(({ step }) => step)}::text[],
      ${rows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${column(2)}::text[], ${column(3)}::text[], ${column(4)}::text[],
      ${rows.map(({ decisions }) => decisions)}::bigint[]
    ) AS counted (account_id, mode, step, starts_at_ms, gate_id, decision, reason, decisions)
    ORDER BY account_id COLLATE "C", mode COLLATE "C", step COLLATE "C", starts_at_ms, gate_id COLLATE "C",
      decision COLLATE "C", reason COLLATE "C"
    ON CONFLICT (account_id, mode, step, starts_at_ms, gate_id, decision, reason)
      DO UPDATE SET decisions = decision_counts.decisions + excluded.decisions`;
}

function hoursOf(minutes: Iterable<Count>): Iterable<Count> {
  const hours = new Map<string, Count>();
  for (const { of, startsAtMs: minuteAtMs, decisions } of minutes) {
    const startsAtMs = minuteAtMs - (minuteAtMs % hourMs);
    const name = `${of.join(' ')} ${startsAtMs}`;
    const hour = hours.get(name) ?? { of, step: 'hour', startsAtMs, decisions: 0 };
    hour.decisions += decisions;
    hours.set(name, hour);
  }
  return hours.values();
}
