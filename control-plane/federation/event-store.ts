import type { IssuerId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { federationLimits } from './limits.ts';

interface TakenEvent {
  readonly issuerId: IssuerId;
  readonly jti: string;
  readonly issuedAtMs: UnixMillis;
  /** Names of those whom it suspends. */
  readonly suspended: readonly string[];
}

/** False: an event of this id was taken before. Others that take it at once wait for this transaction. */
export async function takeEventId(
  tx: Transaction,
  { issuerId, jti, issuedAtMs, suspended }: TakenEvent,
  nowMs: UnixMillis,
): Promise<boolean> {
  const taken = await tx`
    INSERT INTO security_events (issuer_id, jti, received_at_ms, issued_at_ms, suspended)
    VALUES (${issuerId}, ${jti}, ${nowMs}, ${issuedAtMs}, ${[...suspended]}::text[])
    ON CONFLICT (issuer_id, jti) DO NOTHING`;
  if (taken.count === 0) return false;
  await tx`
    DELETE FROM security_events WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM security_events WHERE received_at_ms < ${nowMs - federationLimits.eventKeptMs}
      ORDER BY received_at_ms LIMIT ${federationLimits.eventsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
  return true;
}

/** Of these names those whom an event suspends that the issuer made after this one. */
export async function suspendedSince(
  tx: Transaction,
  { issuerId, issuedAtMs }: Pick<TakenEvent, 'issuerId' | 'issuedAtMs'>,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const rows = await tx<{ name: string }[]>`
    SELECT DISTINCT unnest(suspended) AS name FROM security_events
    WHERE suspended && ${[...names]}::text[] AND issuer_id = ${issuerId} AND issued_at_ms > ${issuedAtMs}`;
  return new Set(rows.map(({ name }) => name));
}
