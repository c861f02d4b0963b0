import { ApiError } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Suspension } from '../../shared/model/passport.ts';
import type { Transaction } from '../base/database.ts';
import { findIssuer } from '../issuers/issuer-store.ts';

/** Whose suspension a caller means: that of this issuer, or the account's own. Throws `issuer_not_found`. */
export async function findCause(
  tx: Transaction,
  account: Owner,
  issuerId: string | undefined,
): Promise<Suspension['cause']> {
  if (issuerId === undefined) return 'account';
  const issuer = isId('iss', issuerId) ? await findIssuer(tx, account, issuerId) : null;
  if (issuer === null) throw new ApiError('issuer_not_found', { param: 'issuer_id' });
  return issuer.issuerId;
}
