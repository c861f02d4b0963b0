import type { Gate, GateShadow, PredictedCounts } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { Database, Transaction } from '../base/database.ts';
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

/** The newest shadow of a gate, which may have ended. */
export interface NewestShadow {
  readonly policyHash: string;
  /** Its RFC 8785 form. */
  readonly policy: string;
  readonly basePolicyHash: string;
  readonly createdAtMs: UnixMillis;
}

/** Null: the gate never had one. */
export async function findNewestShadow(
  sql: Database | Transaction,
  gateId: GateId,
): Promise<NewestShadow | null> {
  const [row] = await sql<NewestShadow[]>`
    SELECT policy_hash AS "policyHash", body AS policy, base_policy_hash AS "basePolicyHash",
      created_at_ms AS "createdAtMs"
    FROM gate_shadows JOIN policies USING (policy_hash) WHERE gate_id = ${gateId}`;
  return row ?? null;
}

/** A shadow that became the policy of its gate. */
export interface Promotion {
  readonly atMs: UnixMillis;
  readonly policyHash: string;
  /** What it said before; null: too much to be counted. */
  readonly predicted: PredictedCounts | null;
}

export async function writePromotion(
  tx: Transaction,
  gateId: GateId,
  { atMs, policyHash, predicted }: Promotion,
): Promise<void> {
  await tx`
    UPDATE gate_shadows SET promoted_at_ms = ${atMs}, promoted_policy_hash = ${policyHash},
      predicted = ${predicted === null ? null : JSON.stringify(predicted)}::text::json
    WHERE gate_id = ${gateId}`;
}

/** The newest one; null: none. */
export async function findPromotion(sql: Database, gateId: GateId): Promise<Promotion | null> {
  const [row] = await sql<Promotion[]>`
    SELECT promoted_at_ms AS "atMs", promoted_policy_hash AS "policyHash", predicted
    FROM gate_shadows WHERE gate_id = ${gateId} AND promoted_at_ms IS NOT NULL`;
  return row ?? null;
}
