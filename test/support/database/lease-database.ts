import type { Database } from '../../../control-plane/base/database.ts';
import type { AccountId, GateId, PassportId, SidecarId } from '../../../shared/model/ids.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import type { GateConstraints } from '../../../shared/wire/api/constraints.ts';

/**
 * What leases are about, put into a database without the service around it, so that time can be whatever a
 * test says.
 */
export interface LeaseDatabase {
  readonly accountId: AccountId;
  readonly passportId: PassportId;
  readonly tokenHash: string;
  connectSidecar(): Promise<{ readonly sidecarId: SidecarId; readonly connectionId: string }>;
  createGate(constraints: GateConstraints): Promise<GateId>;
  changeGate(gateId: GateId, constraints: GateConstraints): Promise<void>;
  issuePassport(constraints: GateConstraints): Promise<PassportId>;
}

export async function leaseDatabase(sql: Database): Promise<LeaseDatabase> {
  const random = systemRandom();
  const nowMs = systemClock.now();
  const accountId = random.newId('acct', nowMs);
  const issuerId = random.newId('iss', nowMs);
  const tokenHash = 'ab'.repeat(32);
  await sql`
    INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
    VALUES (${accountId}, 'Test', 'free', 'active', false, 0)`;
  await sql`
    INSERT INTO issuers (issuer_id, account_id, mode, name, trust_tier, metadata, status, is_default, created_at_ms)
    VALUES (${issuerId}, ${accountId}, 'live', 'Test', 'L3', '{}', 'active', true, 0)`;
  await sql`
    INSERT INTO signing_keys (kid, purpose, public_key, sealed_private_key, not_before_ms, created_at_ms)
    VALUES ('test', 'passport', 'none', 'none', 0, 0)`;
  let agents = 0;
  const issuePassport = async (constraints: GateConstraints): Promise<PassportId> => {
    const passportId = random.newId('pass', nowMs);
    await sql`
      INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
        constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, metadata)
      VALUES (${passportId}, ${accountId}, 'live', ${issuerId}, ${`agent-${++agents}`}, 'Test', '{}', '{}',
        ${JSON.stringify(constraints)}::text::jsonb, 'L1', 'none', ${tokenHash}, 'test', 'active', 0, '{}')`;
    return passportId;
  };
  return {
    accountId,
    passportId: await issuePassport({}),
    tokenHash,
    issuePassport,
    connectSidecar: async () => {
      const sidecarId = random.newId('side', nowMs);
      const connectionId = '1.test';
      await sql`
        INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
          acked_account_revision, acked_global_revision, clock_offset_ms)
        VALUES (${sidecarId}, ${accountId}, ${connectionId}, 1, 1, 0, 0, 0)`;
      return { sidecarId, connectionId };
    },
    createGate: async (constraints) => {
      const gateId = random.newId('gate', nowMs);
      await sql`
        INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, version, policy_version,
          created_at_ms, updated_at_ms)
        VALUES (${gateId}, ${accountId}, 'live', 'Test', 'L1', ${JSON.stringify(constraints)}::text::jsonb, 1, 1, 0, 0)`;
      return gateId;
    },
    changeGate: async (gateId, constraints) => {
      await sql`
        UPDATE gates SET constraints = ${JSON.stringify(constraints)}::text::jsonb, version = version + 1
        WHERE gate_id = ${gateId}`;
    },
  };
}
