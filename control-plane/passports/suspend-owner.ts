import type { Owner } from '../../shared/model/owner.ts';
import type { Suspension } from '../../shared/model/passport.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { renderOwner } from '../../shared/wire/api/passport.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findCause } from './find-cause.ts';
import { lockOwners, moveSuspensions, type SuspensionMove } from './suspension-store.ts';
import { adoptOwnerEnd } from './unnamed-end-store.ts';

/** An owner of passports: a person or team (contract §4). */
export interface OwnerState {
  readonly owner: string;
  /** Why the owner is suspended; empty: the owner is not. */
  readonly suspendedBy: readonly Suspension[];
  /** Passports that have this owner, whatever their status, or that are suspended because they had. */
  readonly passports: number;
}

/**
 * Suspends an owner with all passports, those that are made or seen later too, or ends what the account, or
 * the issuer that is named, has against the owner. Repeating it changes nothing.
 */
export const moveOwner = (
  deps: SigningDeps,
  caller: Caller,
  asked: {
    readonly owner: string;
    readonly to: SuspensionMove['to'];
    /** Whose suspension ends. Absent: the account's. */
    readonly issuerId?: string | undefined;
  },
): Promise<OwnerState> =>
  administer(deps, caller, async (tx, change) => {
    const { to } = asked;
    const owner = canonicalName(asked.owner);
    const nowMs = deps.clock.now();
    const cause = await findCause(tx, caller, asked.issuerId);
    const owned = { accountId: caller.accountId, mode: caller.mode, owner };
    await lockOwners(tx, [owned], 'exclusive');
    await adoptOwnerEnd(tx, change, { ...owned, nowMs });
    const before = await readOwner(tx, caller, owner);
    await moveSuspensions(tx, change, caller, { moves: [{ of: { owner }, to, cause, event: null }], nowMs });
    const after = { ...(await readOwner(tx, caller, owner)), passports: before.passports };
    const { status, suspended_by } = renderOwner(before);
    const audited = {
      operation: to === 'suspended' ? ('suspendOwner' as const) : ('reactivateOwner' as const),
      target: owner,
      before: { owner, status, suspended_by },
      after: { ...renderOwner(after), cause },
    };
    const isSame = before.suspendedBy.length === after.suspendedBy.length;
    return { result: after, audited: isSame ? null : audited };
  });

async function readOwner(tx: Transaction, { accountId, mode }: Owner, owner: string): Promise<OwnerState> {
  const suspendedBy = await tx<Suspension[]>`
    SELECT cause, since_ms AS "sinceMs", event, NULL AS owner FROM suspensions
    WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ${owner} AND passport_id = '' ORDER BY since_ms, cause`;
  const [row] = await tx<{ passports: number }[]>`
    SELECT count(*)::int AS passports FROM (
      SELECT passport_id FROM passports WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ${owner}
      UNION SELECT passport_id FROM suspensions
      WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ${owner} AND passport_id <> '') AS of`;
  return { owner, suspendedBy, passports: row?.passports ?? 0 };
}
