import type { IssuerId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { federationLimits } from './limits.ts';

/** False: an event of this id was taken before. Others that take it at once wait for this transaction. */
export async function takeEventId(
  tx: Transaction,
  { issuerId, jti, nowMs }: { readonly issuerId: IssuerId; readonly jti: string; readonly nowMs: UnixMillis },
): Promise<boolean> {
  const taken = await tx`
    INSERT INTO security_events (issuer_id, jti, received_at_ms) VALUES (${issuerId}, ${jti}, ${nowMs})
    ON CONFLICT (issuer_id, jti) DO NOTHING`;
  if (taken.count === 0) return false;
  await tx`
    DELETE FROM security_events WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM security_events WHERE received_at_ms < ${nowMs - federationLimits.eventKeptMs}
      ORDER BY received_at_ms LIMIT ${federationLimits.eventsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
  return true;
}
