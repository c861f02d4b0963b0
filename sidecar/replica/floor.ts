import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import { digestAt } from '../../shared/model/id-digest.ts';
import type { ReplicaState } from './replica-state.ts';
import { statusIn } from './status-table.ts';

/** A state that was in force here and that the control plane's database lacks (contract §17). */
export interface KnownFloor {
  readonly generation: string | null;
  readonly state: ReplicaState;
}

/**
 * What was in force here, under what the control plane says now: of the two, the stricter decides. What
 * permits must be in both: gates, their standing approvals, and keys. What forbids is enough in one:
 * revocations, suspensions, keys that are compromised. A gate of which a later policy was in force blocks
 * with `state_stale`: the ledger counts by the earlier one, and a limit that was lowered since would be
 * passed.
 */
export class Floor {
  readonly #floors: readonly KnownFloor[];
  readonly #stricter = new WeakMap<CompiledGate, CompiledGate>();

  constructor(floors: readonly KnownFloor[]) {
    this.#floors = floors;
  }

  /** Whether each of these states is of a history from which the one with this lineage goes on. */
  isUnder(generation: string | null, earlier: readonly string[]): boolean {
    return this.#floors.every(
      (floor) =>
        floor.generation !== null && floor.generation !== generation && earlier.includes(floor.generation),
    );
  }

  gate(told: CompiledGate): CompiledGate | null {
    let isStale = false;
    let { standingApprovals } = told;
    for (const { state } of this.#floors) {
      const known = state.gates.get(told.gateId);
      if (known === undefined) return null;
      isStale ||= known.policyVersion > told.policyVersion;
      if (standingApprovals.length > 0) {
        const ids = new Set(known.standingApprovals.map(({ standingApprovalId }) => standingApprovalId));
        standingApprovals = standingApprovals.filter((each) => ids.has(each.standingApprovalId));
      }
    }
    if (!isStale && standingApprovals.length === told.standingApprovals.length) return told;
    const stricter = this.#stricter.get(told) ?? {
      ...told,
      standingApprovals,
      stateAgeMsMax: isStale ? neverFresh : told.stateAgeMsMax,
    };
    this.#stricter.set(told, stricter);
    return stricter;
  }

  hasCaller(keyHash: string): boolean {
    return this.#floors.every(({ state }) => state.callers.has(keyHash));
  }

  get isAccountSuspended(): boolean {
    return this.#floors.some(({ state }) => state.suspendedAccounts.get(state.accountDigest, 0) !== 0);
  }

  standing(told: PassportStanding, passport: VerifiedPassport): PassportStanding {
    const { digests, keyId, source } = passport;
    let { status, isIssuerSuspended, isAccountSuspended, isKeyCompromised } = told;
    for (const { state } of this.#floors) {
      const known = statusIn(state.standings, passport);
      if (severity[known] > severity[status]) status = known;
      isIssuerSuspended ||= source !== null && state.foreignIssuers.find(passport.issuerId) === null;
      isIssuerSuspended ||= state.suspendedIssuers.get(digests, digestAt.issuer) !== 0;
      isAccountSuspended ||= state.suspendedAccounts.get(digests, digestAt.account) !== 0;
      isKeyCompromised ||= source === null && state.keys.find('passport', keyId)?.key.compromised === true;
    }
    return { status, isIssuerSuspended, isAccountSuspended, isKeyCompromised, stateAgeMs: told.stateAgeMs };
  }
}

const severity: Readonly<Record<PassportStanding['status'], number>> = {
  active: 0,
  suspended: 1,
  revoked: 2,
};
/** No state is younger. */
const neverFresh = -1;
