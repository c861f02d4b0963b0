import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { expiredByDay, globalFeed } from '../../shared/wire/sync.ts';
import type { WriteChange } from '../sync/change-transaction.ts';

/** Tells all sidecars what this passport is from now on. Returns the revision. */
export const publishStanding = (
  change: WriteChange,
  { passportId, expiresAtMs }: Pick<Passport, 'passportId' | 'expiresAtMs'>,
  standing: 'active' | 'suspended' | 'revoked',
): Promise<number> =>
  change(globalFeed, {
    kind: 'passport.standing',
    body: { passport: idDigest(passportId), standing, expired_by_day: expiredByDay(expiresAtMs) },
  });
