import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { expiredByDay, globalFeed } from '../../shared/wire/sync.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { isWalletInToken } from './passport-store.ts';

/**
 * Tells all sidecars what this passport is from now on: an active one whose token does not say so may be in a
 * wallet, too. Returns the revision.
 */
export async function publishStanding(
  tx: Transaction,
  change: WriteChange,
  { passportId, expiresAtMs, walletId }: Pick<Passport, 'passportId' | 'expiresAtMs' | 'walletId'>,
  standing: 'active' | 'suspended' | 'revoked',
): Promise<number> {
  const isTold = standing === 'active' && walletId !== null && !(await isWalletInToken(tx, passportId));
  return change(globalFeed, {
    kind: 'passport.standing',
    body: {
      passport: idDigest(passportId),
      ...(isTold ? { standing: 'suspended', in_wallet: true } : { standing }),
      expired_by_day: expiredByDay(expiresAtMs),
    },
  });
}
