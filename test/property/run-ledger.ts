import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { nowMs } from '../unit/decision/samples.ts';
import type { WorldSpec } from './run-world.ts';

interface Asked {
  /** The copy. */
  readonly of: string;
  readonly sidecar: number;
  readonly key: string | null;
  readonly hash: string;
  readonly presents: boolean;
  readonly id: string;
  /** See SettledRequest.reader_id. */
  readonly reader: string;
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
  /** Null: it came to nothing. */
  readonly call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }> | null;
  isVoid: boolean;
  /** It is void as soon as nobody reads it. */
  isWithdrawn: boolean;
}

/** Where the units of the one limit are. */
interface Units {
  free: number;
  /** Taken by PERMITs on record. */
  posted: number;
  held: number;
  /** By sidecar: units leased and not taken by a PERMIT on record. */
  readonly leased: number[];
}

/**
 * The control plane over maps: one limit, keys, approvals, settlements and voids. Each step is one of its
 * statements that sees a state of its own.
 */
export class RunLedger {
  isRevoked = false;
  readonly #limit: number;
  readonly #presentedId: string;
  readonly #units: Units;
  #refusals = 0;
  readonly #settled = new Map<string, Settled>();
  readonly #approvals = new Map<string, Approval>();
  /** What a reader reads; null after its void. */
  readonly #readings = new Map<string, string | null>();
  /** PERMITs of plain requests. */
  readonly #spooled = new Set<string>();
  /** Look-ups between their two steps, with what the first one read: units before keys. */
  readonly #begun = new Map<object, boolean>();

  constructor({ limit, sidecars, approval, copies }: WorldSpec, presentedId: string) {
    this.#limit = limit;
    this.#presentedId = presentedId;
    const leased = Array.from({ length: sidecars }, () => 0);
    this.#units = { free: limit, posted: 0, held: 0, leased };
    if (approval === null) return;
    const hash = copies.find(({ presents }) => presents)?.hash ?? '';
    this.#approvals.set(presentedId, { hash, status: approval, usedBy: null });
    this.#units.free--;
    this.#units.held++;
  }

  lease(sidecar: number): boolean {
    if (this.#units.free === 0) return false;
    this.#units.free--;
    this.#addLeased(sidecar, 1);
    return true;
  }

  returnUnit(sidecar: number): void {
    this.#addLeased(sidecar, -1);
    this.#units.free++;
  }

  spool(id: string): void {
    this.#spooled.add(id);
  }

  post(sidecar: number): void {
    this.#addLeased(sidecar, -1);
    this.#units.posted++;
  }

  /** Every unit is used on record, or held by an approval. */
  get isUsedUp(): boolean {
    return this.#units.posted + this.#units.held === this.#limit;
  }

  leasedTo = (sidecar: number): number => this.#units.leased[sidecar] ?? 0;
  /** Of a look-up: its first step has happened. */
  hasBegun = (message: object): boolean => this.#begun.has(message);
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
    this.#units.held--;
    this.#units.free++;
  }

  /** Null: the first of two steps. `message`: what the steps belong to. */
  execute(call: LedgerCall, message: object): SettlementAnswer | null {
    if (call.kind !== 'look_up') return this.#closing(call, this.#settle(call));
    if (this.isRevoked) return { kind: 'blocked', reason: 'passport_revoked' };
    const begun = this.#begun.get(message);
    if (begun === undefined) {
      this.#begun.set(message, this.#mayChange(call));
      return null;
    }
    this.#begun.delete(message);
    return this.#find(call) ?? { kind: 'none', may_change: begun };
  }

  void(id: string, sidecar: number, units: 0 | 1): void {
    const settled = this.#settled.get(id);
    const isClosed = settled?.call === null && !settled.isVoid;
    if (settled === undefined || isClosed) {
      this.#settled.set(id, { call: null, isVoid: true, isWithdrawn: true });
      for (let unit = 0; unit < units; unit++) this.returnUnit(sidecar);
      return;
    }
    settled.isWithdrawn = true;
    this.#undoUnread(id, settled);
  }

  voidReading(reader: string): void {
    const id = this.#readings.get(reader) ?? null;
    this.#readings.set(reader, null);
    const settled = id === null ? undefined : this.#settled.get(id);
    if (id !== null && settled !== undefined) this.#undoUnread(id, settled);
  }

  #undoUnread(id: string, settled: Settled): void {
    if (settled.isVoid || !settled.isWithdrawn) return;
    if ([...this.#readings.values()].includes(id)) return;
    settled.isVoid = true;
    const { call } = settled;
    if (call === null) return;
    if (call.kind === 'suspend') {
      if (this.liveApprovals().includes(id)) this.expire(id);
      return;
    }
    this.#units.posted -= call.units;
    this.#units.free += call.units;
    for (const approval of this.#approvals.values()) {
      if (approval.usedBy !== id) continue;
      approval.status = 'approved';
      approval.usedBy = null;
      this.#units.posted--;
      this.#units.held++;
    }
  }

  isStanding(id: string): boolean {
    const settled = this.#settled.get(id);
    return this.#spooled.has(id) || (settled?.call?.kind === 'permit' && !settled.isVoid);
  }

  standingOf(copy: string): string[] {
    return [...this.#settled].flatMap(([id, { call }]) =>
      call?.of === copy && this.isStanding(id) ? [id] : [],
    );
  }

  check(): void {
    const units = [this.#units.free, this.#units.posted, this.#units.held, ...this.#units.leased];
    const sum = units.reduce((one, other) => one + other, 0);
    const standing = this.#standing();
    if (standing.length + this.#spooled.size + this.#units.held > this.#limit)
      throw new Error('more is permitted than the limit');
    if (units.some((each) => each < 0)) throw new Error(`units below zero: ${units.join()}`);
    if (sum !== this.#limit) throw new Error(`units are not conserved: ${units.join()}`);
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
    if (held !== this.#units.held) throw new Error(`${held} approvals wait, and hold ${this.#units.held}`);
    const used = this.#standing().length + this.#spooled.size;
    if (used !== this.#units.posted)
      throw new Error(`${used} units are used, and ${this.#units.posted} are posted`);
  }

  #settle(call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }>): SettlementAnswer {
    if (this.isRevoked) return { kind: 'blocked', reason: 'passport_revoked' };
    return call.kind === 'permit' ? this.#permit(call) : this.#suspend(call);
  }

  /** Of every second refusal: of the others the close fails, so that the sidecar voids them. */
  #closing(call: LedgerCall, answer: SettlementAnswer): SettlementAnswer {
    const isRefused = ['conflict', 'approval', 'blocked'].includes(answer.kind);
    const isReplayedSuspend = answer.kind === 'replayed' && call.kind === 'suspend';
    if (!isRefused && !isReplayedSuspend) return answer;
    this.#refusals++;
    if (this.#refusals % 2 === 0 || this.#settled.has(call.id)) return answer;
    if (isRefused && this.#readings.has(call.reader)) return answer;
    this.#settled.set(call.id, { call: null, isVoid: false, isWithdrawn: false });
    if (isRefused) this.#readings.set(call.reader, null);
    return { ...answer, is_closed: true } as SettlementAnswer;
  }

  #permit(call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }>): SettlementAnswer {
    const known = this.#settled.get(call.id);
    if (known?.isVoid === true || known?.call === null) return { kind: 'voided' };
    if (known !== undefined) return { kind: 'committed' };
    const earlier = this.#claimed(call);
    if (earlier !== null) return earlier;
    if (call.presents) {
      const approval = this.#presented(call);
      if (approval.status !== 'approved') return approvalIs(approval.status);
      approval.status = 'used';
      approval.usedBy = call.id;
      this.#units.held--;
      this.#units.posted++;
    } else {
      this.#addLeased(call.sidecar, -1);
      this.#units.posted++;
    }
    this.#settled.set(call.id, { call, isVoid: false, isWithdrawn: false });
    return { kind: 'committed' };
  }

  #suspend(call: Extract<LedgerCall, { readonly kind: 'permit' | 'suspend' }>): SettlementAnswer {
    const known = this.#settled.get(call.id);
    const hasOpened = known !== undefined && known.call !== null && !known.isVoid;
    if (hasOpened) return suspendedUnder(call.id, true);
    const earlier = this.#claimed(call);
    if (earlier !== null) return earlier;
    if (known?.isVoid === true) return { kind: 'voided' };
    const waiting = this.#waiting(call);
    if (known !== undefined) return waiting ?? { kind: 'voided' };
    if (waiting?.kind === 'suspended')
      this.#settled.set(call.id, { call: null, isVoid: false, isWithdrawn: false });
    if (waiting !== null) return waiting;
    this.#approvals.set(call.id, { hash: call.hash, status: 'pending', usedBy: null });
    this.#addLeased(call.sidecar, -1);
    this.#units.held++;
    this.#settled.set(call.id, { call, isVoid: false, isWithdrawn: false });
    return suspendedUnder(call.id, true);
  }

  /** There is room again, or holders, the asking one with them, have units that they have not posted yet. */
  #mayChange = (call: LedgerCall): boolean =>
    call.kind === 'look_up' &&
    call.isShort &&
    (this.#units.free > 0 || this.#units.leased.some((units) => units > 0));

  #find(call: LedgerCall): SettlementAnswer | null {
    const presented = call.presents ? this.#presented(call).status : null;
    if (presented === 'expired') return approvalIs(presented);
    const earlier = this.#claimed(call);
    if (earlier !== null) return earlier;
    return presented === null ? this.#waiting(call) : approvalIs(presented);
  }

  #claimed({ key, hash, reader }: LedgerCall): SettlementAnswer | null {
    if (key === null) return null;
    for (const [id, settled] of this.#settled) {
      const { call, isVoid } = settled;
      if (call?.kind !== 'permit' || isVoid || call.key !== key) continue;
      if (call.hash !== hash) return { kind: 'conflict' };
      if (!this.#read(reader, id)) return { kind: 'voided' };
      return {
        kind: 'replayed',
        first: { attestation_id: id as AttestationId, constraints_evaluated: [], pii: [] },
      };
    }
    return null;
  }

  #waiting({ hash, reader }: LedgerCall): SettlementAnswer | null {
    for (const [id, approval] of this.#approvals) {
      if (approval.status !== 'pending' || approval.hash !== hash) continue;
      return this.#read(reader, id) ? suspendedUnder(id, false) : { kind: 'voided' };
    }
    return null;
  }

  /** False: the reading was voided before it came. */
  #read(reader: string, id: string): boolean {
    if (this.#readings.get(reader) === null) return false;
    this.#readings.set(reader, id);
    return true;
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
    this.#units.leased[sidecar] = (this.#units.leased[sidecar] ?? 0) + units;
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
