/**
 * Room `control-plane/gates`: gates: created, updated, deleted. One file per use case, SQL in
 * `gate-store.ts`.
 */

import { type Catalog, type CatalogOffer, catalogTerms } from '../../shared/model/catalog.ts';
import { namedIssuers } from '../../shared/model/constraints.ts';
import type { Gate } from '../../shared/model/gate.ts';
import { type NewGate, renderGate, renderGateForSidecars } from '../../shared/wire/api/gate.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { holdTrusted, tellTrusted } from '../issuers/trust-issuers.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import { insertGate } from './gate-store.ts';
import { keepPolicy } from './policy-store.ts';
import { refuseUnanswerable } from './refuse-unanswerable.ts';

/** Catalog functions for new gates. Their room is above this one, so the root hands them in. */
export interface FirstCatalog {
  /** Signs and stores version 1 for a gate written in this transaction, and makes it discoverable. */
  readonly publish: (
    tx: Transaction,
    deps: Pick<AppendingDeps, 'clock' | 'signingKeys'>,
    wanted: { readonly gate: Gate; readonly offer: CatalogOffer },
  ) => Promise<Catalog>;
  /** Its form in the audit. */
  readonly onRecord: (catalog: Catalog) => object;
}

/** Creates a gate, which the account's sidecars serve from the push on, and publishes its first catalog. */
export async function createGate(
  tx: Transaction,
  change: WriteChange,
  deps: Pick<AppendingDeps, 'random' | 'clock' | 'signingKeys' | 'gateHost' | 'baseUrl'>,
  {
    caller,
    wanted,
    publish,
  }: { readonly caller: Caller; readonly wanted: NewGate; readonly publish: FirstCatalog['publish'] },
): Promise<{ readonly gate: Gate; readonly catalog: Catalog | null }> {
  const nowMs = deps.clock.now();
  const { policy, offer } = wanted;
  await refuseUnanswerable(tx, deps, {
    accountId: caller.accountId,
    after: policy.constraints,
    before: null,
  });
  const begun: Gate = {
    ...policy,
    gateId: deps.random.newId('gate', nowMs),
    accountId: caller.accountId,
    mode: caller.mode,
    catalogTerms: offer === null ? null : catalogTerms(offer.permissions),
    version: 1,
    policyVersion: 1,
    policyHash: null,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
    lastChangedBy: caller.actor,
    shadow: null,
  };
  const trusted = await holdTrusted(tx, caller, namedIssuers(policy.constraints));
  await insertGate(tx, begun);
  const catalog = offer === null ? null : await publish(tx, deps, { gate: begun, offer });
  const gate: Gate = { ...begun, policyHash: await keepPolicy(tx, deps, begun, catalog) };
  const { gate_id, name, trust_level, gate_url } = renderGate(gate, deps.gateHost);
  const data = { gate_id, name, trust_level, gate_url };
  await emitEvents(tx, deps, [{ event: 'gate.created', to: [caller], data, timestampMs: nowMs }]);
  await tellTrusted(tx, change, trusted);
  await change(gate.accountId, { kind: 'gate.put', body: renderGateForSidecars(gate, []) });
  return { gate, catalog };
}
