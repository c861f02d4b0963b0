import { ownerName } from '../../shared/crypto/federated-id.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { globalFeed } from '../../shared/wire/sync.ts';
import type { AuditedChange } from '../audit/administer.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { countPassportsOf, lockOwnerStatus, type OwnerStatus, setOwnerStatus } from './owner-store.ts';
import { adoptOwnerEnd } from './unnamed-end-store.ts';

/** An owner of passports: a person or team (contract §4). */
export interface OwnerState {
  readonly owner: string;
  readonly status: OwnerStatus;
  /** Passports of this owner, whatever their own status. */
  readonly passports: number;
}

/**
 * Suspends all passports of this owner, those that are made or seen later too, or reactivates them. The
 * status of each passport stays its own. Repeating it changes nothing.
 */
export const moveOwner = (
  deps: SigningDeps,
  caller: Caller,
  { owner, to }: { readonly owner: string; readonly to: OwnerStatus },
): Promise<OwnerState> =>
  administer(deps, caller, async (tx, change) => {
    const { state, audited } = await moveOwnerIn(tx, change, caller, { owner, to });
    return { result: state, audited };
  });

/** The same in a transaction of the caller's. */
export async function moveOwnerIn(
  tx: Transaction,
  change: WriteChange,
  account: Owner,
  { owner, to }: { readonly owner: string; readonly to: OwnerStatus },
): Promise<{ readonly state: OwnerState; readonly audited: AuditedChange | null }> {
  await adoptOwnerEnd(tx, account, owner);
  const before = await lockOwnerStatus(tx, account, owner);
  const passports = await countPassportsOf(tx, account, owner);
  const state = { owner, status: to, passports };
  if (before === to) return { state, audited: null };
  await setOwnerStatus(tx, account, owner, to);
  await change(globalFeed, {
    kind: 'passport.standing',
    // A sidecar looks an owner up as it does a passport.
    body: { passport: idDigest(ownerName(account, owner)), standing: to, expired_by_day: null },
  });
  const operation = to === 'suspended' ? 'suspendOwner' : 'reactivateOwner';
  return {
    state,
    audited: {
      operation,
      target: owner,
      before: { owner, status: before },
      after: { owner, status: to },
    },
  };
}
