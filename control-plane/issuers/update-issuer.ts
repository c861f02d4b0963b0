import type { Static } from 'typebox';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Issuer } from '../../shared/model/issuer.ts';
import {
  type CountedIssuer,
  type IssuerUpdate,
  issuerReadOnly,
  parseIssuerUpdate,
  renderIssuerReadOnly,
} from '../../shared/wire/issuer.ts';
import { refuseChanges } from '../../shared/wire/read-only.ts';
import { globalFeed } from '../../shared/wire/sync.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findCountedIssuer, lockIssuer, updateIssuerRow } from './issuer-store.ts';

/**
 * A suspended issuer's passports are blocked everywhere, so its standing is published to the sidecars of all
 * accounts.
 */
export async function updateIssuer(
  deps: SigningDeps,
  caller: Caller,
  { issuerId, body }: { readonly issuerId: IssuerId; readonly body: Static<typeof IssuerUpdate> },
): Promise<CountedIssuer> {
  const wanted = parseIssuerUpdate(body);
  return administer(deps, caller, async (tx, change) => {
    const current = await lockIssuer(tx, caller, issuerId);
    if (current === null) throw new ApiError('issuer_not_found');
    refuseChanges(body, renderIssuerReadOnly(current), issuerReadOnly);
    const status = wanted.status ?? current.status;
    const next: Issuer = {
      ...current,
      name: wanted.name ?? current.name,
      metadata: wanted.metadata ?? current.metadata,
      status,
    };
    await updateIssuerRow(tx, issuerId, next);
    const updated = await findCountedIssuer(tx, caller, { issuerId, nowMs: deps.clock.now() });
    if (status !== current.status) {
      await change(globalFeed, {
        kind: 'issuer.standing',
        body: { issuer: idDigest(issuerId), standing: status },
      });
    }
    const before = issuerOnRecord(current);
    return {
      result: must(updated, 'a locked issuer is still there'),
      audited: { operation: 'updateIssuer', target: issuerId, before, after: issuerOnRecord(next) },
    };
  });
}

/** An issuer as the audit shows it: without the counts of its passports, which move by themselves. */
export const issuerOnRecord = ({ issuerId, name, domain, trustTier, metadata, status }: Issuer) => ({
  issuer_id: issuerId,
  name,
  domain,
  trust_tier: trustTier,
  metadata,
  status,
});
