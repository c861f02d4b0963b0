import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import type { UnitsSource } from './held-units.ts';

/** A window of money that a PERMIT took from. */
export interface MoneySource {
  /** Of a lease, a window or an approval. */
  readonly name: string;
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
}

export const nameOfSource = (source: UnitsSource): string =>
  typeof source === 'number' ? String(source) : source.join(' ');

/**
 * The windows of money of wallets, and of gates for each passport or user, that lie behind these sources. A
 * lease that is gone has left what it was.
 */
export async function findSources(
  tx: Transaction,
  {
    moneyFrom,
    approvals,
  }: { readonly moneyFrom: readonly UnitsSource[]; readonly approvals: readonly (string | null)[] },
): Promise<readonly MoneySource[]> {
  const found: MoneySource[] = [];
  const leases: number[] = [];
  for (const [name, source] of new Map(moneyFrom.map((each) => [nameOfSource(each), each]))) {
    if (typeof source === 'number') leases.push(source);
    else if (told.test(source[0]))
      found.push({ name, counter: source[0], window: source[1], startsAtMs: source[2] });
  }
  const ids = distinct(approvals);
  if (leases.length + ids.length === 0) return found;
  const rows = await tx<MoneySource[]>`
    SELECT lease_id::text AS name, counter, window_name AS window, starts_at_ms AS "startsAtMs" FROM quota_leases
    WHERE lease_id = ANY(${leases}::bigint[]) AND counter ~ ${told.source}
    UNION ALL
    SELECT lease_id::text, counter, window_name, starts_at_ms FROM former_leases
    WHERE lease_id = ANY(${leases}::bigint[]) AND counter ~ ${told.source}
    UNION ALL
    SELECT approval_id, h->>'counter', h->>'window', (h->>'startsAtMs')::bigint
    FROM approvals, jsonb_array_elements(holds) AS h
    WHERE approval_id = ANY(${ids}::text[]) AND h->>'counter' ~ ${told.source}`;
  return [...found, ...rows];
}

const told = /^(?:wallet_spend:|gate_spend:[^:]+:(?:pass|user)_)/;
