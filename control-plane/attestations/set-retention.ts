import type { Owner } from '../../shared/model/owner.ts';
import { renderTime } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { archivedBefore, monthBegins } from './archive-store.ts';
import type { AppendingDeps } from './deps.ts';
import { readFactRetention, writeFactRetention } from './facts-store.ts';
import { readRetention, writeRetention } from './retention-store.ts';

export interface Retention {
  /** Null: as long as the operator keeps records. */
  readonly days: number | null;
  /** Of facts. Null: as long as their records. */
  readonly facts_days: number | null;
  /** Records that arrived before may be in archives; null: none are. */
  readonly archived_before: string | null;
}

export async function retentionOf(sql: Database | Transaction, owner: Owner): Promise<Retention> {
  return {
    days: await readRetention(sql, owner),
    facts_days: await readFactRetention(sql, owner),
    archived_before: await archivedSince(sql, owner),
  };
}

/** As a time, for answers. */
export async function archivedSince(sql: Database | Transaction, owner: Owner): Promise<string | null> {
  const month = await archivedBefore(sql, owner);
  return month === null ? null : renderTime(monthBegins(month));
}

/**
 * No record is removed by it: the next archive of the operator goes by it. Facts go within the hour.
 * `factsDays` undefined: as it is.
 */
export const setRetention = (
  deps: AppendingDeps,
  caller: Caller,
  { days, factsDays }: { readonly days: number | null; readonly factsDays: number | null | undefined },
): Promise<Retention> =>
  administer(deps, caller, async (tx) => {
    const before = await writeRetention(tx, caller, days);
    const factsBefore = await readFactRetention(tx, caller);
    const facts_days = factsDays === undefined ? factsBefore : factsDays;
    await writeFactRetention(tx, caller, facts_days);
    return {
      result: await retentionOf(tx, caller),
      audited: {
        operation: 'setRetention',
        target: caller.accountId,
        before: { days: before, facts_days: factsBefore },
        after: { days, facts_days },
      },
    };
  });
