import type { Gate, ShadowEnd } from '../../shared/model/gate.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { WebhookDeps } from '../webhooks/deps.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import { markShadowEnded } from './shadow-store.ts';

/**
 * Ends the shadow of a gate that has one in force, in the transaction that has locked the gate and tells its
 * sidecars.
 */
export async function endShadow(
  tx: Transaction,
  deps: Pick<WebhookDeps, 'random'>,
  { gateId, accountId, mode, shadow }: Pick<Gate, 'gateId' | 'accountId' | 'mode' | 'shadow'>,
  { reason, nowMs }: { readonly reason: ShadowEnd; readonly nowMs: UnixMillis },
): Promise<void> {
  if (shadow === null || shadow.expiresAtMs <= nowMs) return;
  await markShadowEnded(tx, gateId, nowMs);
  const { policyHash, basePolicyHash } = shadow;
  const data = { gate_id: gateId, policy_hash: policyHash, base_policy_hash: basePolicyHash, reason };
  await emitEvents(tx, deps, [
    { event: 'shadow.ended', to: [{ accountId, mode }], data, timestampMs: nowMs },
  ]);
}
