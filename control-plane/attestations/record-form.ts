import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Database } from '../base/database.ts';
import type { RecordFormDeps } from '../base/record-form.ts';

/**
 * The form of new records. A replica of the version before cannot read one in form 2: its exports name the
 * chain as broken. So a database that it has used gets none until `afterMs` after its upgrade; by then all
 * replicas are of this version, and the way back is no longer taken.
 */
export async function recordFormOf(
  sql: Database,
  { clock, afterMs }: { readonly clock: Clock; readonly afterMs: number },
): Promise<RecordFormDeps['appending']['recordForm']> {
  const [row] = await sql<{ upgradedAtMs: number | null }[]>`
    SELECT upgraded_at_ms AS "upgradedAtMs" FROM record_form`;
  const { upgradedAtMs } = must(row, 'a migration has written the row');
  const fromMs = upgradedAtMs === null ? 0 : upgradedAtMs + afterMs;
  return () => (clock.now() < fromMs ? 1 : 2);
}

/** What is settled later, and how it ends, is on record in form 2 alone (contract §9 and §19). */
export const tooEarlyToSettleLater = (): ApiError =>
  new ApiError('service_unavailable', {
    message: 'Money cannot be held or settled yet: records are in form 1 until RECORDS_V2_AFTER_S is over.',
  });
