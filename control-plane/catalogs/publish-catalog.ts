/** Room `control-plane/catalogs`: permission catalogs of gates. SQL in `catalog-store.ts`. */

import { ApiError } from '../../shared/errors/api-error.ts';
import { type Catalog, type CatalogOffer, catalogTerms } from '../../shared/model/catalog.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { signCatalog } from '../../shared/wire/evidence/catalog-signature.ts';
import { voidApprovals } from '../approvals/void-approvals.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import { indexGates } from '../discovery/index-gates.ts';
import { endShadow } from '../gates/end-shadow.ts';
import { lockGate, updateGateRow } from '../gates/gate-store.ts';
import { keepPolicy } from '../gates/policy-store.ts';
import { putGate } from '../gates/put-gate.ts';
import type { Caller } from '../http/caller.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { insertCatalog, nextCatalogVersion } from './catalog-store.ts';

type PublishDeps = Pick<AppendingDeps, 'clock' | 'signingKeys'>;

/**
 * Publishes the next version of a gate's catalog (contract §10): from the push on sidecars permit only its
 * offers, at its prices. The gate's version rises too, because its policy changed, and its open approvals are
 * voided: `voided` is their number, for `expireVoided`.
 */
export async function replaceCatalog(
  tx: Transaction,
  change: WriteChange,
  deps: PublishDeps & Pick<AppendingDeps, 'random'>,
  wanted: {
    readonly caller: Caller;
    readonly gateId: GateId;
    readonly offer: CatalogOffer;
  },
): Promise<{ readonly catalog: Catalog; readonly voided: number }> {
  const { caller, offer } = wanted;
  const current = await lockGate(tx, caller, wanted.gateId);
  if (current === null) throw new ApiError('gate_not_found');
  const nowMs = deps.clock.now();
  const version = current.version + 1;
  const begun: Gate = {
    ...current,
    catalogTerms: catalogTerms(offer.permissions),
    version,
    policyVersion: version,
    updatedAtMs: nowMs,
    lastChangedBy: caller.actor,
  };
  await updateGateRow(tx, begun);
  const voided = await voidApprovals(tx, { ...begun, isDeleted: false }, nowMs);
  const catalog = await publishCatalog(tx, deps, { gate: begun, offer });
  const gate: Gate = { ...begun, policyHash: await keepPolicy(tx, deps, begun, catalog), shadow: null };
  await endShadow(tx, deps, current, { reason: 'policy_changed', nowMs });
  await putGate(tx, change, gate, nowMs);
  return { catalog, voided };
}

/** The audit stores only what identifies a catalog, because every version is kept for ever. */
export const catalogOnRecord = ({ version, contentHash, permissions }: Catalog) => ({
  version,
  content_hash: contentHash,
  permissions: permissions.length,
});

/**
 * Signs and stores the next version, and makes it discoverable. The caller holds the gate's lock and has
 * written the gate itself.
 */
export async function publishCatalog(
  tx: Transaction,
  { clock, signingKeys }: PublishDeps,
  { gate, offer }: { readonly gate: Gate; readonly offer: CatalogOffer },
): Promise<Catalog> {
  const version = await nextCatalogVersion(tx, gate.gateId);
  const content = { ...offer, gateId: gate.gateId, version, publishedAtMs: clock.now() };
  const catalog = signCatalog(content, signingKeys.current('catalog'));
  await insertCatalog(tx, catalog);
  await indexGates(tx, [gate.gateId]);
  return catalog;
}
