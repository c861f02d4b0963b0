import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { CountedIssuer, IssuerChange } from '../../shared/wire/issuer.ts';
import { globalFeed } from '../../shared/wire/sync.ts';
import type { Deps } from '../deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { findCountedIssuer, lockIssuer, updateIssuerRow } from './issuer-store.ts';

/** A suspended issuer's passports are blocked everywhere, so its standing goes to the sidecars of all accounts. */
export async function updateIssuer(
  deps: Deps,
  owner: Owner,
  { issuerId, wanted }: { readonly issuerId: IssuerId; readonly wanted: IssuerChange },
): Promise<CountedIssuer> {
  return changeTransaction(deps, async (tx, change) => {
    const current = await lockIssuer(tx, owner, issuerId);
    if (current === null) throw new ApiError('issuer_not_found');
    const status = wanted.status ?? current.status;
    await updateIssuerRow(tx, issuerId, {
      name: wanted.name ?? current.name,
      metadata: wanted.metadata ?? current.metadata,
      status,
    });
    const updated = await findCountedIssuer(tx, owner, { issuerId, nowMs: deps.clock.now() });
    if (status !== current.status) {
      await change(globalFeed, {
        kind: 'issuer.standing',
        body: { issuer_id: issuerId, standing: status },
      });
    }
    return must(updated, 'a locked issuer is still there');
  });
}
