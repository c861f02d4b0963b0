import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Actor } from '../../shared/model/audit.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { renderPassport } from '../../shared/wire/api/passport.ts';
import { administer, type Changed } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { readHeads } from '../sync/feed-store.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import { lockPassportToEnd, setPassportRevoked } from './passport-store.ts';
import { publishStanding } from './publish-standing.ts';

export interface Revocation {
  readonly passportId: PassportId;
  readonly revokedAtMs: UnixMillis;
  readonly reason: string;
  /** The author; null: not recorded by an earlier version of the service. */
  readonly revokedBy: Actor | null;
  /** A sidecar that has reached this revision of the global feed knows of it. */
  readonly globalRevision: number;
}

/**
 * Revokes a passport for good; it resolves once that is durable and published. An expired one may be revoked
 * too. Doing it again answers the first revocation unchanged and changes nothing.
 */
export async function revokePassport(
  deps: SigningDeps,
  caller: Caller,
  { passportId, reason }: { readonly passportId: PassportId; readonly reason: string },
): Promise<Revocation> {
  return administer(deps, caller, (tx, change) =>
    revokeIn(tx, change, deps, { caller, passportId, reason, operation: 'revokePassport' }),
  );
}

/** The same in a transaction of the caller's. */
export async function revokeIn(
  tx: Transaction,
  change: WriteChange,
  deps: SigningDeps,
  {
    caller,
    passportId,
    reason,
    operation,
  }: {
    readonly caller: Owner & Pick<Caller, 'actor'>;
    readonly passportId: PassportId;
    readonly reason: string;
    readonly operation: 'revokePassport' | 'revokeSubject';
  },
): Promise<Changed<Revocation>> {
  const nowMs = deps.clock.now();
  const passport = await lockPassportToEnd(tx, caller, { passportId, nowMs });
  if (passport === null) throw new ApiError('passport_not_found');
  if (passport.revokedAtMs !== null) {
    const first: Revocation = {
      passportId,
      revokedAtMs: passport.revokedAtMs,
      reason: must(passport.revocationReason, 'a revoked passport has a reason'),
      revokedBy: passport.revokedBy,
      // Its revision is not stored; the head of the feed is at or after it.
      globalRevision: (await readHeads(tx, passport.accountId)).global,
    };
    return { result: first, audited: null };
  }
  await setPassportRevoked(tx, passportId, { reason, nowMs, by: caller.actor });
  const data = {
    passport_id: passportId,
    agent_id: passport.agentId,
    revoked_at: renderTime(nowMs),
    reason,
  };
  await emitEvents(tx, deps, [{ event: 'passport.revoked', to: [caller], data, timestampMs: nowMs }]);
  const globalRevision = await publishStanding(tx, change, passport, 'revoked');
  const revoked: Passport = {
    ...passport,
    status: 'revoked',
    revokedAtMs: nowMs,
    revocationReason: reason,
    revokedBy: caller.actor,
  };
  return {
    result: { passportId, revokedAtMs: nowMs, reason, revokedBy: caller.actor, globalRevision },
    audited: {
      operation,
      target: passportId,
      before: renderPassport(passport),
      after: renderPassport(revoked),
    },
  };
}
