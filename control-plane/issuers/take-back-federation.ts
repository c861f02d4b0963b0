import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { FederatedIssuer } from '../../shared/model/federation.ts';
import { renderFederatedIssuer } from '../../shared/wire/api/federation.ts';
import { appendAuditEntry } from '../audit/append-entry.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { findFederation, type StoredFederation, updateFederation } from './federation-store.ts';
import { putFederation } from './follow-keys.ts';
import { findIssuer, lockIssuer } from './issuer-store.ts';
import { issuerOnRecord } from './update-issuer.ts';

/** Whether sidecars knew a later state of this issuer than the database has. */
export function isFederationBehind(stored: StoredFederation, known: FederatedIssuer): boolean {
  const contentOf = (issuer: FederatedIssuer) => {
    const { settings, keys } = renderFederatedIssuer(issuer, true);
    return canonicalJson({ settings, keys });
  };
  return known.version >= stored.version && contentOf(known) !== contentOf(stored);
}

/**
 * The settings and keys of an issuer of others become once more what sidecars knew, so that no key and no
 * audience comes back that was taken away. Keys that are published are read again soon.
 */
export const takeBackFederation = (
  deps: SigningDeps,
  caller: Caller,
  known: FederatedIssuer,
): Promise<void> =>
  changeTransaction(deps, async (tx, change) => {
    const { issuerId } = known;
    const before = await lockIssuer(tx, caller, issuerId);
    const stored = await findFederation(tx, issuerId);
    if (before === null || stored === null) throw new ApiError('issuer_not_found');
    if (!isFederationBehind(stored, known)) return;
    // Sidecars take it for another state than any that they may have.
    const { status, fault } = stored;
    const next = { ...known, version: known.version + 1, status, fault };
    await updateFederation(tx, next);
    await putFederation(tx, change, next);
    const after = await findIssuer(tx, caller, issuerId);
    await appendAuditEntry(tx, deps, caller, {
      operation: 'recoverHistory',
      target: issuerId,
      before: issuerOnRecord(before),
      after: issuerOnRecord(must(after, 'a locked issuer is still there')),
    });
  });
