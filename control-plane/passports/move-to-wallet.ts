import { ApiError } from '../../shared/errors/api-error.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { renderPassport } from '../../shared/wire/api/passport.ts';
import type { AskedWallet } from '../../shared/wire/api/passport-issue.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { refuseUnknownWallet } from '../issuers/hold-wallet.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { lockPassport, setPassportWallet } from './passport-store.ts';
import { publishStanding } from './publish-standing.ts';

/**
 * Puts a passport into another wallet, or out of any (`walletId` null). What it has taken stays where it was
 * taken from; what it takes next is the new wallet's, as soon as sidecars learn of a revocation.
 */
export async function movePassportToWallet(
  deps: SigningDeps,
  caller: Caller,
  { passportId, walletId }: { readonly passportId: PassportId; readonly walletId: AskedWallet },
): Promise<Passport> {
  return administer(deps, caller, async (tx, change) => {
    await refuseUnknownWallet(tx, caller, walletId);
    const nowMs = deps.clock.now();
    const passport = await lockPassport(tx, caller, { passportId, nowMs });
    if (passport === null) throw new ApiError('passport_not_found');
    if (passport.status !== 'active' && passport.status !== 'suspended')
      throw new ApiError('passport_state_conflict', {
        message: `The passport is ${passport.status}, and spends nothing any more.`,
      });
    if (passport.walletId === walletId) return { result: passport, audited: null };
    const moved: Passport = { ...passport, walletId: walletId === 'unknown' ? null : walletId };
    await setPassportWallet(tx, passportId, { fromId: passport.walletId, walletId: moved.walletId, nowMs });
    await publishStanding(tx, change, moved, passport.status);
    return {
      result: moved,
      audited: {
        operation: 'setPassportWallet',
        target: passportId,
        before: renderPassport(passport),
        after: renderPassport(moved),
      },
    };
  });
}
