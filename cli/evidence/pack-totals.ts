import type { AttestationAnswer } from '../../shared/wire/evidence/attestation.ts';
import { isInScope, type PackScope } from './pack-scope.ts';

/** Sums of a gate, a passport, a permission, or of all. Money in micro-USD. */
export interface Sums {
  permitted: number;
  /** Put before a person, and approved, denied or expired: a SUSPEND is on record from then on. */
  asked: number;
  refused: number;
  /** Decisions that a later record took back, because their answer was never used. */
  takenBack: number;
  /** What PERMITs count in the end, but for what is held. */
  spent: bigint;
  /** Held, and not settled before the period ended. */
  held: bigint;
  refunded: bigint;
}

/** A decision that the page names. */
export interface NamedDecision {
  readonly record: AttestationAnswer;
  isTakenBack: boolean;
  /** Of a PERMIT, what it counts in the end, in micro-USD; null: it has no amount. */
  counts: number | null;
  isHeld: boolean;
}

/** A PERMIT to which later records refer. */
interface Open {
  readonly to: readonly Sums[];
  readonly named: NamedDecision | null;
  amount: number;
  isHeld: boolean;
  refunded: number;
}

/** A page names so many; it counts the others. */
export const pageLimits = { decisionsMax: 200, groupsMax: 500, rulesMax: 100, approvalsMax: 200 } as const;

/** Beyond these, groups are added up as one: what an account has gates, permissions and agents of. */
const groupsKeptMax = 10_000;
const otherGroups = '';

const newSums = (): Sums => ({
  permitted: 0,
  asked: 0,
  refused: 0,
  takenBack: 0,
  spent: 0n,
  held: 0n,
  refunded: 0n,
});

/**
 * What a pack adds up, from its records in their order, read twice: `note` gets each of them, and then `add`.
 * Memory: a name for each PERMIT with an outcome, and the sums of `groupsKeptMax` gates, passports and
 * permissions.
 */
export class PackTotals {
  readonly all = newSums();
  readonly gates = new Map<string, Sums>();
  readonly passports = new Map<string, Sums>();
  readonly permissions = new Map<string, Sums>();
  /** Decisions by outcome and reason, as `GET /statistics/decisions` counts them. */
  readonly decisions = new Map<string, number>();
  /** Decisions by the policy under which they were made, in the order of their first one; '': not known. */
  readonly rules = new Map<string, number>();
  readonly permitted: NamedDecision[] = [];
  readonly refused: NamedDecision[] = [];
  /** How requests that were put before a person ended: approved, denied, expired. */
  readonly ends = new Map<string, number>();
  /** Gate tests, which count nowhere. */
  tests = 0;
  /** Records of money about decisions from before the period: their money is not in the sums. */
  earlier = 0;
  /** Records of the file that are there for the chain alone. */
  others = 0;
  readonly #scope: PackScope;
  /** PERMITs to which records of the period refer. */
  readonly #referred = new Set<string>();
  readonly #voided = new Set<string>();
  readonly #open = new Map<string, Open>();
  #chainId = '';

  constructor(scope: PackScope) {
    this.#scope = scope;
  }

  note(record: AttestationAnswer): void {
    const { refers_to: refersTo, resolution } = record;
    if (typeof refersTo !== 'string' || !refersTo.startsWith('att_') || !isInScope(this.#scope, record))
      return;
    if (resolution === 'voided') this.#voided.add(refersTo);
    else this.#referred.add(refersTo);
  }

  add(record: AttestationAnswer): void {
    // What refers to a record is in its chain.
    if (record.chain_id !== this.#chainId) this.#closeChain();
    this.#chainId = record.chain_id;
    if (!isInScope(this.#scope, record)) {
      this.others += 1;
      return;
    }
    if (record.test) this.tests += 1;
    else if (record.resolution === null) this.#decide(record);
    else if (record.resolution === 'voided') return;
    else if (record.decision === 'PERMIT') this.#settle(record);
    else {
      this.ends.set(record.resolution, (this.ends.get(record.resolution) ?? 0) + 1);
      for (const sums of this.#sumsOf(record)) sums.asked += 1;
    }
  }

  /** After the last record. */
  finish(): void {
    this.#closeChain();
  }

  #decide(record: AttestationAnswer): void {
    const { decision, reason, amount_micro_usd: amount, id } = record;
    const name = `${decision} ${reason ?? ''}`;
    this.decisions.set(name, (this.decisions.get(name) ?? 0) + 1);
    const rule = record.policy_hash ?? '';
    this.rules.set(rule, (this.rules.get(rule) ?? 0) + 1);
    const to = this.#sumsOf(record);
    const isTakenBack = this.#voided.has(id);
    const isHeld = (record.hold_expires_at ?? null) !== null;
    const named: NamedDecision = { record, isTakenBack, counts: isTakenBack ? null : amount, isHeld };
    const list = decision === 'BLOCK' ? this.refused : this.permitted;
    const isNamed = decision !== 'SUSPEND' && list.length < pageLimits.decisionsMax;
    if (isNamed) list.push(named);
    const counted = { PERMIT: 'permitted', SUSPEND: 'asked', BLOCK: 'refused' } as const;
    for (const sums of to) {
      sums[counted[decision]] += 1;
      if (isTakenBack) sums.takenBack += 1;
    }
    if (decision !== 'PERMIT' || isTakenBack) return;
    const open: Open = { to, named: isNamed ? named : null, amount: amount ?? 0, isHeld, refunded: 0 };
    if (this.#referred.has(id)) this.#open.set(id, open);
    else close(open);
  }

  /** What the PERMIT counts from now on (docs/verify.md, section 2). */
  #settle({ refers_to: refersTo, resolution, amount_micro_usd: amount }: AttestationAnswer): void {
    const open = this.#open.get(refersTo ?? '');
    if (open === undefined) {
      this.earlier += 1;
      return;
    }
    if (amount !== null) {
      if (resolution === 'refunded') open.refunded += open.amount - amount;
      open.amount = amount;
    }
    if (resolution !== 'extended' && resolution !== 'reported') open.isHeld = false;
  }

  #closeChain(): void {
    for (const open of this.#open.values()) close(open);
    this.#open.clear();
  }

  #sumsOf({ gate_id: gate, passport_id: passport, permission_key: permission }: AttestationAnswer): Sums[] {
    const of = (groups: Map<string, Sums>, name: string | null) => {
      const key = groups.has(name ?? 'none') || groups.size < groupsKeptMax ? (name ?? 'none') : otherGroups;
      const sums = groups.get(key) ?? newSums();
      groups.set(key, sums);
      return sums;
    };
    return [this.all, of(this.gates, gate), of(this.passports, passport), of(this.permissions, permission)];
  }
}

function close({ to, named, amount, isHeld, refunded }: Open): void {
  for (const sums of to) {
    sums[isHeld ? 'held' : 'spent'] += BigInt(amount);
    sums.refunded += BigInt(refunded);
  }
  if (named === null) return;
  named.isHeld = isHeld;
  if (named.counts !== null || amount > 0) named.counts = amount;
}
