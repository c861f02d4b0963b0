import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { SettledRequest } from '../../shared/wire/settlement.ts';
import type { Transaction } from '../deps.ts';
import { findStanding, type KnownPassport } from '../enforcement/standing-store.ts';
import { refusal } from './nothing-settled.ts';

/** The gate that a settlement is about, as it is now. */
export interface SettledGate {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly policyVersion: number;
  readonly isDeleted: boolean;
}

/** Whom a settlement is about. */
interface Parties {
  readonly passport: KnownPassport['passport'];
  /** Null: it names none. */
  readonly gate: SettledGate | null;
}

/**
 * Sees to it that the sidecar may speak of the passport and of the gate, which is answered as it is now, and null for none: a gate of its account, also a
 * deleted one, as at ingest, and a passport whose token it has seen. Ends the call with `refused` otherwise, and where the passport does not stand any more.
 *
 * The sidecar has checked the passport already, on a state that may be as old as the gate allows. Here the truth is at hand, and passport checks
 * come first (decisions §5): neither a PERMIT nor an approval nor the first PERMIT once more is given out for one that was revoked or suspended before
 * this transaction. The sidecar answers BLOCK `quota_unavailable`, and by the next try it has heard of the revocation itself. Times are left to the
 * sidecar, because a decision holds for the moment in which it was made. What was committed before the revocation stands: look for it first.
 */
export async function readParties(
  tx: Transaction,
  accountId: AccountId,
  { passport_id: passportId, token_hash: tokenHash, gate_id: gateId }: SettledRequest,
): Promise<Parties> {
  const gate = gateId === null ? null : await readOwnGate(tx, accountId, gateId);
  const known = await findStanding(tx, { passportId, tokenHash });
  if (known === null) {
    throw refusal('token_hash does not show that this sidecar has seen a good token of passport_id');
  }
  const { passport, standing } = known;
  if (standing.status !== 'active' || standing.isAccountSuspended || standing.isIssuerSuspended) {
    throw refusal('passport_id is revoked or suspended');
  }
  return { gate, passport };
}

async function readOwnGate(tx: Transaction, accountId: AccountId, gateId: GateId): Promise<SettledGate> {
  const [gate] = await tx<SettledGate[]>`
    SELECT gate_id AS "gateId", account_id AS "accountId", mode, policy_version AS "policyVersion", deleted_at_ms IS NOT NULL AS "isDeleted"
    FROM gates WHERE gate_id = ${gateId} AND account_id = ${accountId}`;
  if (gate === undefined) throw refusal('gate_id is no gate of the account of this sidecar');
  return gate;
}
