import type { Owner } from '../../shared/model/owner.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import type { AppendedRecord } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';

const stepsMs = { minute: minuteMs, hour: hourMs } as const;

interface Count {
  readonly key: readonly string[];
  readonly startsAtMs: number;
  decisions: number;
}

/**
 * Counts decisions by the minute and the hour of their time, for whoever owns the gate, or may read them
 * where there is none. One statement for a batch; rows are locked in the order of their key until the
 * transaction ends. Gate tests, and how an approval ended, are no decisions of their own.
 */
export async function countDecisions(tx: Transaction, appended: readonly AppendedRecord[]): Promise<void> {
  const counts = new Map<string, Count>();
  for (const { attestation, reader, otherReader } of appended) {
    const { gateId, decision, reason, test, resolution, timestampMs } = attestation;
    if (test || resolution !== null) continue;
    const { accountId, mode }: Owner = gateId === null ? reader : (otherReader ?? reader);
    for (const [step, stepMs] of Object.entries(stepsMs)) {
      const startsAtMs = timestampMs - (timestampMs % stepMs);
      const key = [accountId, mode, step, gateId ?? '', decision, reason ?? ''];
      const name = `${key.join(' ')} ${startsAtMs}`;
      const count = counts.get(name) ?? { key, startsAtMs, decisions: 0 };
      count.decisions += 1;
      counts.set(name, count);
    }
  }
  if (counts.size === 0) return;
  const rows = [...counts.values()];
  const column = (place: number): string[] => rows.map(({ key }) => key[place] ?? '');
  await tx`
    INSERT INTO decision_counts (account_id, mode, step, starts_at_ms, gate_id, decision, reason, decisions)
    SELECT * FROM unnest(
      ${column(0)}::text[], ${column(1)}::text[], ${column(2)}::text[],
      ${rows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${column(3)}::text[], ${column(4)}::text[], ${column(5)}::text[],
      ${rows.map(({ decisions }) => decisions)}::bigint[]
    ) AS counted (account_id, mode, step, starts_at_ms, gate_id, decision, reason, decisions)
    ORDER BY account_id COLLATE "C", mode COLLATE "C", step COLLATE "C", starts_at_ms, gate_id COLLATE "C",
      decision COLLATE "C", reason COLLATE "C"
    ON CONFLICT (account_id, mode, step, starts_at_ms, gate_id, decision, reason)
      DO UPDATE SET decisions = decision_counts.decisions + excluded.decisions`;
}
