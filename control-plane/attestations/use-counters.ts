import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Transaction } from '../base/database.ts';
import { together } from '../storage/together.ts';

interface GateUse {
  total: number;
  permits: number;
  blocks: number;
  lastMs: number;
}

interface PassportUse {
  permits: number;
  lastMs: number;
}

/**
 * Counts decisions at their gates, and PERMITs at their passports (contract §3 and §4); gate tests count
 * nowhere. One statement each, whatever the number of records; rows are locked in the order of their ids
 * until the transaction ends.
 *
 * A SUSPEND counts once, when it is final: if a person approved, either the resulting PERMIT counts or the
 * fact that none came in time. Voiding a decision is not a decision.
 */
export async function countUse(tx: Transaction, attestations: readonly AttestationRecord[]): Promise<void> {
  const gates = new Map<string, GateUse>();
  const passports = new Map<string, PassportUse>();
  for (const { gateId, passportId, decision, test, resolution, timestampMs } of attestations) {
    if (test || resolution === 'approved' || resolution === 'voided') continue;
    // What became of a PERMIT is no decision either.
    if (decision === 'PERMIT' && resolution !== null) continue;
    if (gateId !== null) {
      const use = gates.get(gateId) ?? { total: 0, permits: 0, blocks: 0, lastMs: 0 };
      use.total += 1;
      if (decision === 'PERMIT') use.permits += 1;
      if (decision === 'BLOCK') use.blocks += 1;
      use.lastMs = Math.max(use.lastMs, timestampMs);
      gates.set(gateId, use);
    }
    if (passportId !== null && decision === 'PERMIT') {
      const use = passports.get(passportId) ?? { permits: 0, lastMs: 0 };
      use.permits += 1;
      use.lastMs = Math.max(use.lastMs, timestampMs);
      passports.set(passportId, use);
    }
  }
  // Sent together, and done in this order.
  await together([
    () => (gates.size > 0 ? addGateUse(tx, gates) : null),
    () => (passports.size > 0 ? addPassportUse(tx, passports) : null),
  ]);
}

async function addGateUse(tx: Transaction, gates: ReadonlyMap<string, GateUse>): Promise<void> {
  const uses = [...gates.values()];
  await tx`
    INSERT INTO gate_use (gate_id, total_requests, permits, blocks, last_request_at_ms)
    SELECT * FROM unnest(
      ${[...gates.keys()]}::text[],
      ${uses.map(({ total }) => total)}::bigint[],
      ${uses.map(({ permits }) => permits)}::bigint[],
      ${uses.map(({ blocks }) => blocks)}::bigint[],
      ${uses.map(({ lastMs }) => lastMs)}::bigint[]
    ) AS used (gate_id, total_requests, permits, blocks, last_request_at_ms)
    ORDER BY gate_id
    ON CONFLICT (gate_id) DO UPDATE SET
      total_requests = gate_use.total_requests + excluded.total_requests,
      permits = gate_use.permits + excluded.permits,
      blocks = gate_use.blocks + excluded.blocks,
      last_request_at_ms = greatest(gate_use.last_request_at_ms, excluded.last_request_at_ms)`;
}

async function addPassportUse(tx: Transaction, passports: ReadonlyMap<string, PassportUse>): Promise<void> {
  const uses = [...passports.values()];
  await tx`
    INSERT INTO passport_use (passport_id, use_count, last_used_at_ms)
    SELECT * FROM unnest(
      ${[...passports.keys()]}::text[],
      ${uses.map(({ permits }) => permits)}::bigint[],
      ${uses.map(({ lastMs }) => lastMs)}::bigint[]
    ) AS used (passport_id, use_count, last_used_at_ms)
    ORDER BY passport_id
    ON CONFLICT (passport_id) DO UPDATE SET
      use_count = passport_use.use_count + excluded.use_count,
      last_used_at_ms = greatest(passport_use.last_used_at_ms, excluded.last_used_at_ms)`;
}
