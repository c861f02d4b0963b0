import { ApiError } from '../../shared/errors/api-error.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { globalFeed } from '../../shared/wire/sync.ts';
import type { Deps } from '../deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { lockPassport, setPassportStatus } from './passport-store.ts';

/** Blocks an active passport until it is reactivated. In any other state: `passport_state_conflict` (decisions §3). */
export const suspendPassport = (deps: Deps, owner: Owner, passportId: PassportId): Promise<Passport> =>
  movePassport(deps, owner, { passportId, from: 'active', to: 'suspended' });

/** Lifts a suspension. In any other state: `passport_state_conflict`. */
export const reactivatePassport = (deps: Deps, owner: Owner, passportId: PassportId): Promise<Passport> =>
  movePassport(deps, owner, { passportId, from: 'suspended', to: 'active' });

type Suspendable = 'active' | 'suspended';

async function movePassport(
  deps: Deps,
  owner: Owner,
  {
    passportId,
    from,
    to,
  }: { readonly passportId: PassportId; readonly from: Suspendable; readonly to: Suspendable },
): Promise<Passport> {
  return changeTransaction(deps, async (tx, change) => {
    const passport = await lockPassport(tx, owner, { passportId, nowMs: deps.clock.now() });
    if (passport === null) throw new ApiError('passport_not_found');
    if (passport.status !== from) {
      throw new ApiError('passport_state_conflict', {
        message: `The passport is ${passport.status}; only one that is ${from} can become ${to}.`,
      });
    }
    await setPassportStatus(tx, passportId, to);
    await change(globalFeed, {
      kind: 'passport.standing',
      body: { passport_id: passportId, standing: to, expires_at_ms: passport.expiresAtMs },
    });
    return { ...passport, status: to };
  });
}
