import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { expiredByDay, globalFeed } from '../../shared/wire/sync/sync.ts';
import type { Change } from '../../shared/wire/sync/sync-schema.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { isWalletInToken } from './passport-store.ts';

export interface PublishedStanding extends Pick<Passport, 'passportId' | 'expiresAtMs'> {
  readonly standing: 'active' | 'suspended' | 'revoked';
  /** It is in a wallet, and its token does not say so. */
  readonly isInWallet: boolean;
}

/** Tells what a passport is from now on. */
export const standingChange = ({
  passportId,
  expiresAtMs,
  standing,
  isInWallet,
}: PublishedStanding): Change => ({
  kind: 'passport.standing',
  body: {
    passport: idDigest(passportId),
    ...(standing === 'active' && isInWallet ? { standing: 'suspended', in_wallet: true } : { standing }),
    expired_by_day: expiredByDay(expiresAtMs),
  },
});

/** Tells it all sidecars. Returns the revision. */
export async function publishStanding(
  tx: Transaction,
  change: WriteChange,
  { passportId, expiresAtMs, walletId }: Pick<Passport, 'passportId' | 'expiresAtMs' | 'walletId'>,
  standing: PublishedStanding['standing'],
): Promise<number> {
  const isInWallet = standing === 'active' && walletId !== null && !(await isWalletInToken(tx, passportId));
  return change(globalFeed, standingChange({ passportId, expiresAtMs, standing, isInWallet }));
}
