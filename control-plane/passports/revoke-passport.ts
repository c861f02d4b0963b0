import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { globalFeed } from '../../shared/wire/sync.ts';
import type { Deps } from '../deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { readHeads } from '../sync/feed-store.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import { lockPassport, setPassportRevoked } from './passport-store.ts';

export interface Revocation {
  readonly passportId: PassportId;
  readonly revokedAtMs: UnixMillis;
  readonly reason: string;
  /** A sidecar that has reached this revision of the global feed knows of it. */
  readonly globalRevision: number;
}

/**
 * Revokes a passport for good; it resolves once that is durable and published. An expired one may be revoked too. Doing
 * it again answers the first revocation unchanged and changes nothing.
 */
export async function revokePassport(
  deps: Deps,
  owner: Owner,
  { passportId, reason }: { readonly passportId: PassportId; readonly reason: string },
): Promise<Revocation> {
  return changeTransaction(deps, async (tx, change) => {
    const nowMs = deps.clock.now();
    const passport = await lockPassport(tx, owner, { passportId, nowMs });
    if (passport === null) throw new ApiError('passport_not_found');
    if (passport.revokedAtMs !== null) {
      return {
        passportId,
        revokedAtMs: passport.revokedAtMs,
        reason: must(passport.revocationReason, 'a revoked passport has a reason'),
        // At which revision it was is not kept; the head of the feed is not before it.
        globalRevision: (await readHeads(tx, passport.accountId)).global,
      };
    }
    await setPassportRevoked(tx, passportId, { reason, nowMs });
    const data = {
      passport_id: passportId,
      agent_id: passport.agentId,
      revoked_at: renderTime(nowMs),
      reason,
    };
    await emitEvents(tx, deps, [{ event: 'passport.revoked', to: [owner], data, timestampMs: nowMs }]);
    const globalRevision = await change(globalFeed, {
      kind: 'passport.standing',
      body: { passport_id: passportId, standing: 'revoked', expires_at_ms: passport.expiresAtMs },
    });
    return { passportId, revokedAtMs: nowMs, reason, globalRevision };
  });
}
