import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { SettledRequest, SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import type { Transaction } from '../base/database.ts';
import { isShown } from '../issuers/shown-passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { findStandings, type KnownPassport } from './passport-standing-store.ts';

/** The gate that a settlement names, in its current state. */
export interface SettledGate {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly policyVersion: number;
  /** See Gate. */
  readonly policyHash: string | null;
  readonly isDeleted: boolean;
}

/** The gate and passport of a settlement. */
export interface Parties {
  readonly kind: 'parties';
  readonly passport: KnownPassport['passport'];
  /** Null: the settlement names none. */
  readonly gate: SettledGate | null;
}

type Refused = Extract<SettlementAnswer, { kind: 'refused' | 'blocked' }>;

/**
 * Resolves each settlement's gate and passport. The gate must belong to the sidecar's account (deleted gates
 * count, as at ingest), and the sidecar must have seen the passport's token. `refused` otherwise.
 *
 * The sidecar checked the passport on a state as old as the gate allows. The database has the current one,
 * and passport checks come first (contract §5): a passport revoked or suspended before this transaction gets
 * no PERMIT, no approval and no replay. Times are left to the sidecar, because a decision holds for the
 * moment it was made.
 */
export async function readParties(
  tx: Transaction,
  accountId: AccountId,
  settlements: readonly SettledRequest[],
): Promise<readonly (Parties | Refused)[]> {
  const tokens = settlements.map(({ passport_id, token_hash, user }) => ({
    passportId: passport_id,
    tokenHash: token_hash,
    user,
  }));
  const [gates, passports] = await together([
    () => readOwnGates(tx, accountId, settlements),
    () => findStandings(tx, tokens),
  ]);
  return settlements.map(({ gate_id, token_hash }) => {
    const gate = gate_id === null ? null : gates.get(gate_id);
    if (gate === undefined) return refused('gate_id is not a gate of the account of this sidecar');
    const known = passports.get(token_hash);
    if (known === undefined || !isShown(known.shown, token_hash, accountId))
      return refused('token_hash does not show that this sidecar has seen a good token of passport_id');
    return blockOf(known) ?? { kind: 'parties', passport: known.passport, gate };
  });
}

export const refused = (message: string): Refused => ({ kind: 'refused', message });

/** Lost a race; the request may succeed when decided again. */
export const passed = (message: string): Refused => ({ kind: 'refused', message, is_passing: true });

function blockOf({ standing, isWalletFrozen }: KnownPassport): Refused | null {
  if (standing.status === 'revoked') return { kind: 'blocked', reason: 'passport_revoked' };
  if (standing.status === 'suspended' || standing.isAccountSuspended)
    return { kind: 'blocked', reason: 'passport_suspended' };
  if (standing.isIssuerSuspended) return { kind: 'blocked', reason: 'issuer_untrusted' };
  return isWalletFrozen ? { kind: 'blocked', reason: 'wallet_frozen' } : null;
}

async function readOwnGates(
  tx: Transaction,
  accountId: AccountId,
  settlements: readonly SettledRequest[],
): Promise<ReadonlyMap<GateId, SettledGate>> {
  const gateIds = distinct(settlements.map(({ gate_id }) => gate_id));
  if (gateIds.length === 0) return new Map();
  const gates = await tx<SettledGate[]>`
    SELECT gate_id AS "gateId", account_id AS "accountId", mode, policy_version AS "policyVersion",
      policy_hash AS "policyHash", deleted_at_ms IS NOT NULL AS "isDeleted"
    FROM gates LEFT JOIN gate_policies USING (gate_id, policy_version) WHERE gate_id = ANY(${gateIds}::text[]) AND account_id = ${accountId}`;
  return new Map(gates.map((gate) => [gate.gateId, gate]));
}
