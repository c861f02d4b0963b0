import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import { digestAt } from '../../shared/model/id-digest.ts';
import type { ForeignIssuer, ForeignIssuerTable } from '../../shared/verification/foreign-issuers.ts';
import { renderFederation } from '../../shared/wire/api/federation.ts';
import type { ReplicaState } from './replica-state.ts';
import { statusIn } from './status-table.ts';

/** A state that was in force here and that the control plane's database lacks (contract §17). */
export interface KnownFloor {
  readonly generation: string | null;
  readonly state: ReplicaState;
}

/**
 * What was in force here, under what the control plane says now: of the two, the stricter decides. What
 * permits must be in both: gates, their standing approvals, keys, and issuers of others with their settings
 * and keys. What forbids is enough in one: revocations, suspensions, keys that are compromised. A gate of
 * which a later policy was in force blocks with `state_stale`: the ledger counts by the earlier one, and a
 * limit that was lowered since would be passed.
 */
export class Floor {
  readonly #floors: readonly KnownFloor[];
  readonly #stricter = new WeakMap<CompiledGate, CompiledGate>();
  /** By `kid`; a verified passport names one that its issuer has. */
  readonly #trusted = new WeakMap<ForeignIssuer, Map<string, boolean>>();

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

  isWalletFrozen(key: string): boolean {
    return this.#floors.some(({ state }) => state.wallets.isFrozen(key));
  }

  hasCaller(keyHash: string): boolean {
    return this.#floors.every(({ state }) => state.callers.has(keyHash));
  }

  get isAccountSuspended(): boolean {
    return this.#floors.some(({ state }) => state.suspendedAccounts.get(state.accountDigest, 0) !== 0);
  }

  /** `issuers`: of others, as they are told now. */
  standing(
    told: PassportStanding,
    passport: VerifiedPassport,
    issuers: ForeignIssuerTable,
  ): PassportStanding {
    const { digests, keyId, source, issuerId } = passport;
    let { status, isIssuerSuspended, isAccountSuspended, isKeyCompromised, isInWallet } = told;
    isIssuerSuspended ||= source !== null && !this.#trusts(issuers.find(issuerId), keyId);
    for (const { state } of this.#floors) {
      const stored = statusIn(state.standings, passport);
      const known = stored === 'in_wallet' ? 'active' : stored;
      isInWallet ||= stored === 'in_wallet';
      if (severity[known] > severity[status]) status = known;
      isIssuerSuspended ||= state.suspendedIssuers.get(digests, digestAt.issuer) !== 0;
      isAccountSuspended ||= state.suspendedAccounts.get(digests, digestAt.account) !== 0;
      isKeyCompromised ||= source === null && state.keys.find('passport', keyId)?.key.compromised === true;
    }
    return {
      ...{ status, isIssuerSuspended, isAccountSuspended, isKeyCompromised, isInWallet },
      stateAgeMs: told.stateAgeMs,
    };
  }

  #trusts(told: ForeignIssuer | null, keyId: string): boolean {
    if (told === null) return false;
    const verdicts = this.#trusted.get(told) ?? new Map<string, boolean>();
    const isTrusted =
      verdicts.get(keyId) ??
      this.#floors.every(({ state }) => trustsToo(state.foreignIssuers.find(told.issuerId), told, keyId));
    this.#trusted.set(told, verdicts.set(keyId, isTrusted));
    return isTrusted;
  }
}

/**
 * Whether what this issuer verifies by this key was a passport where it was known, too: not where its
 * settings have changed since, or the key was withdrawn.
 */
function trustsToo(known: ForeignIssuer | null, told: ForeignIssuer, keyId: string): boolean {
  if (known === null) return false;
  if (known.version < told.version) return true;
  if (settingsOf(known) !== settingsOf(told)) return false;
  const names = new Set(known.keys.map(nameOf));
  return told.keys.every((key) => (key.kid ?? '') !== keyId || names.has(nameOf(key)));
}

const settingsOf = ({ federation }: ForeignIssuer): string => canonicalJson(renderFederation(federation));

const nameOf = ({ kid, algorithm, publicKey }: ForeignIssuer['keys'][number]): string =>
  `${algorithm} ${publicKey} ${kid ?? ''}`;

const severity: Readonly<Record<PassportStanding['status'], number>> = {
  active: 0,
  suspended: 1,
  revoked: 2,
};
/** No state is younger. */
const neverFresh = -1;
