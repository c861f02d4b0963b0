import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import type { SettlementAnswer } from '../../shared/wire/settlement.ts';
import { nowMs } from '../unit/decision/samples.ts';
import type { WorldSpec } from './run-world.ts';

/** Variants of the protocol that this one has replaced, or that somebody may think of. Each of them breaks a promise. */
export const mutants = [
  /** A look-up reads keys before the units of others. */
  'keys_before_units',
  'ignores_may_change',
  /** A look-up goes out while a permit of its key is under way from the same sidecar. */
  'look_up_does_not_wait',
  'gives_back_unknown',
  /** Of a settlement whose outcome is not known the client gets BLOCK, and the settlement may still be committed. */
  'blocks_late',
  /** What was refused after an attempt without an answer is given back, and not voided. */
  'gives_back_uncertain',
  'voids_what_was_replayed',
  'look_up_marks_nothing',
  'replays_undecided',
  'void_without_tombstone',
  'void_keeps_approval_used',
  'void_frees_twice',
  'repeat_commits_again',
] as const;
export type Mutant = (typeof mutants)[number];

interface Asked {
  /** The copy. */
  readonly of: string;
  readonly sidecar: number;
  readonly key: string | null;
  readonly hash: string;
  readonly presents: boolean;
  readonly id: string;
}

export type LedgerCall =
  | (Asked & { readonly kind: 'permit' | 'suspend'; readonly units: 0 | 1 })
  | (Asked & { readonly kind: 'look_up'; readonly isShort: boolean });

type ApprovalStatus = 'pending' | 'approved' | 'expired' | 'used';

interface Approval {
  readonly hash: string;
  status: ApprovalStatus;
  usedBy: string | null;
}

interface Settled {
  readonly call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }> | null;
  isVoid: boolean;
  /** Another request was answered with it: see `is_answered` in settlement-store.ts. */
  isAnswered: boolean;
}

/** The control plane over maps: one limit, keys, approvals, settlements and voids. Each step is one of its statements that sees a state of its own. */
export class RunLedger {
  isRevoked = false;
  readonly #limit: number;
  readonly #mutant: Mutant | null;
  readonly #presentedId: string;
  #free: number;
  #posted = 0;
  #held = 0;
  readonly #leased: number[];
  readonly #settled = new Map<string, Settled>();
  readonly #approvals = new Map<string, Approval>();
  /** PERMITs of plain requests. */
  readonly #spooled = new Set<string>();
  /** Look-ups between their two steps, with what the first one read. */
  readonly #begun = new Map<
    object,
    { readonly call: LedgerCall; readonly first: boolean | SettlementAnswer | null }
  >();

  constructor({ limit, sidecars, approval, mutant, copies }: WorldSpec, presentedId: string) {
    this.#limit = limit;
    this.#mutant = mutant;
    this.#presentedId = presentedId;
    this.#free = limit;
    this.#leased = Array.from({ length: sidecars }, () => 0);
    if (approval === null) return;
    const hash = copies.find(({ presents }) => presents)?.hash ?? '';
    this.#approvals.set(presentedId, { hash, status: approval, usedBy: null });
    this.#free--;
    this.#held++;
  }

  lease(sidecar: number): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    this.#addLeased(sidecar, 1);
    return true;
  }

  returnUnit(sidecar: number): void {
    this.#addLeased(sidecar, -1);
    this.#free++;
  }

  spool(id: string): void {
    this.#spooled.add(id);
  }

  post(sidecar: number): void {
    this.#addLeased(sidecar, -1);
    this.#posted++;
  }

  leasedTo = (sidecar: number): number => this.#leased[sidecar] ?? 0;
  hasBegun = (call: LedgerCall): boolean => [...this.#begun.values()].some((begun) => begun.call === call);
  pendingApprovals = (): string[] => this.#approvalsThat('pending');
  liveApprovals = (): string[] => [...this.pendingApprovals(), ...this.#approvalsThat('approved')];

  approve(id: string): void {
    const approval = this.#approvals.get(id);
    if (approval !== undefined) approval.status = 'approved';
  }

  expire(id: string): void {
    const approval = this.#approvals.get(id);
    if (approval === undefined) return;
    approval.status = 'expired';
    this.#held--;
    this.#free++;
  }

  /** Null: the first of two steps. `message`: what the steps belong to. */
  execute(call: LedgerCall, message: object): SettlementAnswer | null {
    if (this.isRevoked) return { kind: 'blocked', reason: 'passport_revoked' };
    if (call.kind !== 'look_up') return call.kind === 'permit' ? this.#permit(call) : this.#suspend(call);
    const begun = this.#begun.get(message);
    const isKeysFirst = this.#mutant === 'keys_before_units';
    if (begun === undefined) {
      this.#begun.set(message, { call, first: isKeysFirst ? this.#find(call) : this.#mayChange(call) });
      return null;
    }
    this.#begun.delete(message);
    if (typeof begun.first === 'boolean')
      return this.#find(call) ?? { kind: 'none', may_change: begun.first };
    return begun.first ?? { kind: 'none', may_change: this.#mayChange(call) };
  }

  void(id: string, sidecar: number, units: 0 | 1): void {
    const settled = this.#settled.get(id);
    if (settled === undefined) {
      if (this.#mutant !== 'void_without_tombstone')
        this.#settled.set(id, { call: null, isVoid: true, isAnswered: false });
      for (let unit = 0; unit < units; unit++) this.returnUnit(sidecar);
      return;
    }
    if (settled.isVoid) return;
    if (settled.isAnswered && this.#mutant !== 'voids_what_was_replayed') return;
    settled.isVoid = true;
    if (settled.call?.kind === 'suspend') {
      if (this.liveApprovals().includes(id)) this.expire(id);
      return;
    }
    this.#posted -= units;
    this.#free += units;
    if (this.#mutant === 'void_frees_twice') this.#free += units;
    if (this.#mutant === 'void_keeps_approval_used') return;
    for (const approval of this.#approvals.values()) {
      if (approval.usedBy !== id) continue;
      approval.status = 'approved';
      approval.usedBy = null;
      this.#posted--;
      this.#held++;
    }
  }

  isStanding(id: string): boolean {
    const settled = this.#settled.get(id);
    return this.#spooled.has(id) || (settled?.call?.kind === 'permit' && !settled.isVoid);
  }

  standingOf(copy: string): { readonly id: string; readonly wasRead: boolean }[] {
    return [...this.#settled].flatMap(([id, { call, isAnswered }]) =>
      call?.of === copy && this.isStanding(id) ? [{ id, wasRead: isAnswered }] : [],
    );
  }

  check(): void {
    const units = [this.#free, this.#posted, this.#held, ...this.#leased];
    const sum = units.reduce((one, other) => one + other, 0);
    if (units.some((each) => each < 0)) throw new Error(`units below zero: ${units.join()}`);
    if (sum !== this.#limit) throw new Error(`units are not conserved: ${units.join()}`);
    const standing = this.#standing();
    if (standing.length + this.#spooled.size > this.#limit)
      throw new Error('more is permitted than the limit');
    const keys = standing.flatMap(({ key }) => (key === null ? [] : [key]));
    if (new Set(keys).size !== keys.length) throw new Error('a key has two PERMITs');
    const presenting = standing.filter(({ presents }) => presents);
    if (presenting.length > 1) throw new Error('an approval was used twice');
    const approval = this.#approvals.get(this.#presentedId);
    if ((approval?.status === 'used') !== (presenting.length === 1) && approval !== undefined)
      throw new Error('an approval is used if and only if a PERMIT used it');
  }

  checkEnd(): void {
    const held = this.liveApprovals().length;
    if (held !== this.#held) throw new Error(`${held} approvals wait, and hold ${this.#held}`);
    const used = this.#standing().length + this.#spooled.size;
    if (used !== this.#posted) throw new Error(`${used} PERMITs stand, and ${this.#posted} units are posted`);
  }

  #permit(call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }>): SettlementAnswer {
    const known = this.#settled.get(call.id);
    if (known?.isVoid === true) return { kind: 'voided' };
    if (known !== undefined && this.#mutant !== 'repeat_commits_again') return { kind: 'committed' };
    const earlier = known === undefined ? this.#claimed(call) : null;
    if (earlier !== null) return earlier;
    if (call.presents) {
      const approval = this.#presented(call);
      if (approval.status !== 'approved') return approvalIs(approval.status);
      approval.status = 'used';
      approval.usedBy = call.id;
      this.#held--;
      this.#posted++;
    } else {
      this.#addLeased(call.sidecar, -1);
      this.#posted++;
    }
    this.#settled.set(call.id, { call, isVoid: false, isAnswered: false });
    return { kind: 'committed' };
  }

  #suspend(call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }>): SettlementAnswer {
    const earlier = this.#claimed(call);
    if (earlier !== null) return earlier;
    const known = this.#settled.get(call.id);
    if (known?.isVoid === true) return { kind: 'voided' };
    if (known !== undefined) return suspendedUnder(call.id, true);
    const waiting = this.#waiting(call.hash);
    if (waiting !== null) return waiting;
    this.#approvals.set(call.id, { hash: call.hash, status: 'pending', usedBy: null });
    this.#addLeased(call.sidecar, -1);
    this.#held++;
    this.#settled.set(call.id, { call, isVoid: false, isAnswered: false });
    return suspendedUnder(call.id, true);
  }

  /** Units that holders, the asking one with them, have not posted yet. */
  #mayChange = (call: LedgerCall): boolean =>
    call.kind === 'look_up' && call.isShort && this.#leased.some((units) => units > 0);

  #find(call: LedgerCall): SettlementAnswer | null {
    const presented = call.presents ? this.#presented(call).status : null;
    if (presented === 'expired') return approvalIs(presented);
    const earlier = this.#claimed(call);
    if (earlier !== null) return earlier;
    return presented === null ? this.#waiting(call.hash) : approvalIs(presented);
  }

  #claimed({ key, hash }: LedgerCall): SettlementAnswer | null {
    if (key === null) return null;
    for (const [id, settled] of this.#settled) {
      const { call, isVoid } = settled;
      if (call?.kind !== 'permit' || isVoid || call.key !== key) continue;
      if (call.hash !== hash) return { kind: 'conflict' };
      this.#mark(settled);
      return {
        kind: 'replayed',
        first: { attestation_id: id as AttestationId, constraints_evaluated: [], pii: [] },
      };
    }
    return null;
  }

  #waiting(hash: string): SettlementAnswer | null {
    for (const [id, approval] of this.#approvals) {
      if (approval.status !== 'pending' || approval.hash !== hash) continue;
      const opened = this.#settled.get(id);
      if (opened !== undefined) this.#mark(opened);
      return suspendedUnder(id, false);
    }
    return null;
  }

  #mark(settled: Settled): void {
    if (this.#mutant !== 'look_up_marks_nothing') settled.isAnswered = true;
  }

  #presented({ hash }: LedgerCall): Approval {
    const approval = this.#approvals.get(this.#presentedId);
    if (approval === undefined || approval.hash !== hash)
      throw new Error('worlds present their own approval only');
    return approval;
  }

  #standing = (): LedgerCall[] =>
    [...this.#settled].flatMap(([id, { call }]) => (call !== null && this.isStanding(id) ? [call] : []));

  #approvalsThat = (status: ApprovalStatus): string[] =>
    [...this.#approvals].flatMap(([id, approval]) => (approval.status === status ? [id] : []));

  #addLeased(sidecar: number, units: number): void {
    this.#leased[sidecar] = (this.#leased[sidecar] ?? 0) + units;
  }
}

const approvalIs = (standing: ApprovalStatus): SettlementAnswer => ({
  kind: 'approval',
  standing,
  expires_at_ms: nowMs,
});

const suspendedUnder = (id: string, isNew: boolean): SettlementAnswer => ({
  kind: 'suspended',
  approval_id: id as ApprovalId,
  expires_at_ms: nowMs,
  is_new: isNew,
});
