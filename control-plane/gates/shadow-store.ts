import type { Gate, GateShadow } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { Transaction } from '../base/database.ts';
import { routesColumn } from './gate-store.ts';

/** In the place of the one before it. The caller holds the gate's lock, and has kept both policies. */
export async function writeShadow(
  tx: Transaction,
  { gateId, policyVersion }: Pick<Gate, 'gateId' | 'policyVersion'>,
  shadow: GateShadow,
): Promise<void> {
  await tx`
    INSERT INTO gate_shadows (gate_id, trust_level, constraints, routes, policy_hash, base_policy_hash, base_policy_version,
      created_at_ms, expires_at_ms, ended_at_ms)
    VALUES (${gateId}, ${shadow.trustLevel}, ${JSON.stringify(renderConstraints(shadow.constraints))}::text::jsonb,
      ${routesColumn(shadow)}::text::jsonb, ${shadow.policyHash}, ${shadow.basePolicyHash}, ${policyVersion},
      ${shadow.createdAtMs}, ${shadow.expiresAtMs}, NULL)
    ON CONFLICT (gate_id) DO UPDATE SET trust_level = excluded.trust_level, constraints = excluded.constraints,
      routes = excluded.routes, policy_hash = excluded.policy_hash, base_policy_hash = excluded.base_policy_hash,
      base_policy_version = excluded.base_policy_version, created_at_ms = excluded.created_at_ms,
      expires_at_ms = excluded.expires_at_ms, ended_at_ms = NULL`;
}

export async function markShadowEnded(tx: Transaction, gateId: GateId, nowMs: UnixMillis): Promise<void> {
  await tx`UPDATE gate_shadows SET ended_at_ms = ${nowMs} WHERE gate_id = ${gateId} AND ended_at_ms IS NULL`;
}
