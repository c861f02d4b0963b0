import { entriesOf } from '../../../control-plane/book/entry.ts';
import type { AttestationRecord } from '../../../shared/model/attestation.ts';
import { type ApprovalId, type AttestationId, isId, type WalletId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { type WindowName, windowKey } from '../../../shared/quota/window.ts';
import type { Malformed } from '../../../shared/wire/sync/attestation-batch.ts';
import type { LeaseCounter } from '../../../shared/wire/sync/lease-call.ts';
import type {
  ArrivedPermit,
  ArrivedSettlement,
  LookUpSettlement,
  SettledRequest,
  SettlementAnswer,
  SuspendSettlement,
} from '../../../shared/wire/sync/settlement.ts';
import type { Chains } from './chains.ts';
import type { Holds } from './holds.ts';
import { counterOf, type Ledger, type Take, type Units, unitsOf } from './ledger.ts';

interface Row {
  readonly id: string;
  readonly source: string;
  readonly key: string | null;
  /** Null: closed, a void, or a reading. */
  requestHash: string | null;
  readonly took: readonly number[];
  readonly reads: string | null;
  /** The reading of a call that was delivered once more. */
  isRepeat: boolean;
  readonly first: { readonly constraints: readonly string[]; readonly pii: readonly object[] } | null;
  isVoid: boolean;
  isWithdrawn: boolean;
  isAnswered: boolean;
}

export type ApprovalStatus = 'pending' | 'approved' | 'denied' | 'expired' | 'used';

export interface Approval {
  readonly id: ApprovalId;
  readonly binding: string;
  readonly passportId: string;
  readonly gateId: string;
  readonly amountMicroUsd: number | null;
  readonly holds: readonly Units[];
  readonly expiresInMs: number;
  status: ApprovalStatus;
  expiresAtMs: number;
  usedBy: string | null;
}

export interface Sender {
  readonly sidecarId: string;
  readonly accountId: string;
  readonly holder: string;
  readonly nowMs: UnixMillis;
  readonly isRepeat: boolean;
}

export interface Parties {
  policyVersionOf(gateId: string): number | null;
  blockOf(passportId: string): 'passport_revoked' | 'passport_suspended' | 'wallet_frozen' | null;
  isConnected(sidecarId: string): boolean;
  /** A counter of a standing approval that a person or another policy has ended. */
  isStandingOver(counter: string): boolean;
  /** Of a wallet: what its lane and all of it lend; null: the passport does not draw on it. */
  laneOf(passportId: string, lane: LeaseCounter & { readonly window: WindowName }): LaneLimits | null;
  /** The wallet that a record names, which took from these counters. */
  walletOf(record: AttestationRecord): WalletId | null;
}

export interface LaneLimits {
  readonly limit: number;
  readonly baseLimit: number;
}

const readersMax = 16;
const settlementAgeMsMax = 60_000;

/**
 * The rules of `control-plane/decisions` and `control-plane/approvals` for settlements of sidecars, without a
 * database: keys, approvals, readings and voids. Every call is one transaction.
 */
export class Settlements {
  readonly rows = new Map<string, Row>();
  readonly approvals = new Map<string, Approval>();
  /** By key: the PERMIT that has it. */
  readonly #claims = new Map<string, string>();
  /** What each PERMIT on record took. */
  readonly takes = new Map<string, Take>();
  readonly #ledger: Ledger;
  readonly #chains: Chains;
  readonly #parties: Parties;
  readonly #holds: Holds;

  constructor(ledger: Ledger, chains: Chains, holds: Holds, parties: Parties) {
    this.#holds = holds;
    this.#ledger = ledger;
    this.#chains = chains;
    this.#parties = parties;
  }

  /** Look-ups take nothing and come first; suspends find the permits of their call. */
  settleAll(settlements: readonly ArrivedSettlement[], sender: Sender): SettlementAnswer[] {
    const answers = new Map<ArrivedSettlement, SettlementAnswer>();
    for (const kind of ['malformed', 'look_up', 'permit', 'suspend'] as const)
      for (const each of settlements) if (each.kind === kind) answers.set(each, this.#settle(each, sender));
    return settlements.map((each) => answers.get(each) as SettlementAnswer);
  }

  #settle(settlement: ArrivedSettlement, sender: Sender): SettlementAnswer {
    if (settlement.kind === 'malformed') return { kind: 'refused', message: settlement.message };
    const { gate_id: gateId, passport_id: passportId } = settlement;
    if (gateId !== null && this.#parties.policyVersionOf(gateId) === null)
      return { kind: 'refused', message: 'gate_id is not a gate of the account of this sidecar' };
    const reason = this.#parties.blockOf(passportId);
    if (reason !== null) return { kind: 'blocked', reason };
    switch (settlement.kind) {
      case 'look_up':
        return this.#lookUp(settlement, sender);
      case 'permit':
        return this.#permit(settlement, sender);
      case 'suspend':
        return this.#suspend(settlement, sender);
    }
  }

  #permit(permit: ArrivedPermit, sender: Sender): SettlementAnswer {
    const { record, took } = permit.shipped;
    if (sender.nowMs - record.timestampMs > settlementAgeMsMax)
      return { kind: 'refused', message: 'timestamp_ms is too old to be settled' };
    const known = this.rows.get(record.id);
    if (known !== undefined)
      return { kind: known.isVoid || known.requestHash === null ? 'voided' : 'committed' };
    const earlier = this.#claimed(permit, sender);
    if (earlier !== null) return earlier;
    const take = {
      sidecarId: sender.sidecarId,
      took: took ?? [],
      amountMicroUsd: record.amountMicroUsd,
    };
    const fault = this.#ledger.whyNot(take, sender.holder);
    if (fault !== null) return { kind: 'refused', message: fault };
    const counters = take.took.map((id) => this.#ledger.everyLease.get(id)?.at.counter ?? '');
    if (counters.some((counter) => this.#parties.isStandingOver(counter)))
      return { kind: 'refused', message: 'took names a standing approval that has ended', is_passing: true };
    if (permit.approval_id !== null) {
      const approval = this.#bound(permit.approval_id, permit);
      const isItsAmount = approval?.amountMicroUsd === record.amountMicroUsd;
      if (approval === null || !isItsAmount || this.#standing(approval, sender.nowMs) !== 'approved')
        return approvalIs(approval, isItsAmount ? this.#standing(approval, sender.nowMs) : 'mismatch');
      approval.status = 'used';
      approval.usedBy = record.id;
    }
    const key = keyOf(permit, sender);
    this.#insert(record.id, sender, {
      key,
      requestHash: permit.request_hash,
      took: take.took,
      first: { constraints: record.constraintsEvaluated, pii: record.pii },
    });
    this.#ledger.post(record.id, take);
    this.takes.set(record.id, take);
    this.#chains.append(this.named(record));
    this.#holds.begin(record);
    return { kind: 'committed' };
  }

  /** With the wallet that paid, as far as its form names one. */
  named(record: AttestationRecord): AttestationRecord {
    if (record.asserted === null) return record;
    return { ...record, walletId: this.#parties.walletOf(record) };
  }

  #suspend(suspend: SuspendSettlement, sender: Sender): SettlementAnswer {
    const id = suspend.approval_id;
    const { nowMs } = sender;
    const known = this.rows.get(id);
    const own = this.#bound(id, suspend);
    const claimed = this.#claimed(suspend, sender);
    if (claimed !== null) {
      if (own === null || known?.isVoid === true) return claimed;
      this.#dropReading(suspend.reader_id);
      return suspended(own, true);
    }
    if (known?.isVoid === true) return { kind: 'voided' };
    if (known !== undefined && known.requestHash === null) {
      const waiting = this.#waiting(suspend, sender);
      return waiting === null ? { kind: 'voided' } : suspended(waiting, false);
    }
    if (own !== null) return suspended(own, true);
    if (this.#parties.policyVersionOf(suspend.gate_id) !== suspend.gate_version)
      return { kind: 'refused', message: 'the gate has changed since this was decided', is_passing: true };
    const held = suspend.held.map(unitsOf);
    if (!this.#ledger.holderHas(sender.holder, held))
      return { kind: 'refused', message: 'held is not leased to this holder' };
    const pending = this.#pending(suspend, nowMs);
    if (pending !== null) {
      if (!this.#read(pending.id, suspend.reader_id, sender))
        return {
          kind: 'refused',
          message: 'the approval of the same request was just voided',
          is_passing: true,
        };
      this.#insert(id, sender, { requestHash: null });
      return suspended(pending, false);
    }
    const approval: Approval = {
      id,
      binding: bindingOf(suspend),
      passportId: suspend.passport_id,
      gateId: suspend.gate_id,
      amountMicroUsd: suspend.amount_micro_usd,
      holds: this.#ledger.takeFromHolder(sender.holder, held),
      expiresInMs: suspend.expires_in_ms,
      status: 'pending',
      expiresAtMs: nowMs + suspend.expires_in_ms,
      usedBy: null,
    };
    this.#ledger.hold(approval.holds);
    this.approvals.set(id, approval);
    this.#insert(id, sender, { requestHash: suspend.request_hash });
    return suspended(approval, true);
  }

  #lookUp(lookUp: LookUpSettlement, sender: Sender): SettlementAnswer {
    const mayChange = lookUp.short.some((each) => {
      const lane = each.wallet === undefined ? null : this.#parties.laneOf(lookUp.passport_id, each);
      if (each.wallet !== undefined && lane === null) return false;
      const key = windowKey(counterOf(each), { name: each.window, startsAtMs: each.starts_at_ms });
      const at = this.#ledger.windows.get(key);
      const base = at?.base ?? null;
      const isThere =
        at !== undefined &&
        at.leased <= (lane?.limit ?? 0) + each.leased_max &&
        (base === null || base.leased <= (lane?.baseLimit ?? 0) + each.leased_max);
      return isThere || this.#ledger.lent(key, null, (id) => this.#parties.isConnected(id)) > 0;
    });
    const presented = lookUp.approval_id === null ? null : this.#bound(lookUp.approval_id, lookUp);
    const standing =
      lookUp.approval_id === null
        ? null
        : this.#policyFits(lookUp)
          ? this.#standing(presented, sender.nowMs)
          : 'mismatch';
    if (standing === 'mismatch' || standing === 'denied' || standing === 'expired')
      return approvalIs(presented, standing);
    const earlier = this.#claimed(lookUp, sender);
    if (earlier !== null) return earlier;
    if (standing !== null) return approvalIs(presented, standing);
    const waiting = this.#policyFits(lookUp) ? this.#waiting(lookUp, sender) : null;
    return waiting === null ? { kind: 'none', may_change: mayChange } : suspended(waiting, false);
  }

  #policyFits = ({ gate_id: gateId, gate_version: version }: SettledRequest): boolean =>
    gateId !== null && this.#parties.policyVersionOf(gateId) === version;

  #insert(
    id: string,
    { sidecarId }: Pick<Sender, 'sidecarId'>,
    given: Partial<Row> & Pick<Row, 'requestHash'>,
  ): void {
    const row: Row = {
      id,
      source: sidecarId,
      key: null,
      took: [],
      reads: null,
      isRepeat: false,
      first: null,
      isVoid: false,
      isWithdrawn: false,
      isAnswered: false,
      ...given,
    };
    this.rows.set(id, row);
    if (row.key !== null) this.#claims.set(row.key, id);
  }

  /** The answer of the PERMIT that has the key; null: nobody has it. */
  #claimed(settled: Exclude<ArrivedSettlement, Malformed>, sender: Sender): SettlementAnswer | null {
    const key = keyOf(settled, sender);
    const owner = key === null ? undefined : this.rows.get(this.#claims.get(key) ?? '');
    if (owner === undefined || owner.requestHash === null || owner.isVoid) return null;
    if (owner.requestHash !== settled.request_hash) return { kind: 'conflict' };
    // A permit cannot have the key of what it may not read; another request goes on without.
    if (!this.#read(owner.id, settled.reader_id, sender))
      return settled.kind === 'permit' ? { kind: 'voided' } : null;
    const first = {
      attestation_id: owner.id as AttestationId,
      constraints_evaluated: owner.first?.constraints ?? [],
      pii: owner.first?.pii ?? [],
    };
    return { kind: 'replayed', first } as SettlementAnswer;
  }

  #pending(suspend: SettledRequest, nowMs: number): Approval | null {
    for (const each of this.approvals.values())
      if (each.status === 'pending' && each.binding === bindingOf(suspend) && each.expiresAtMs > nowMs)
        return each;
    return null;
  }

  /** The pending approval of the same request, read by this reader. */
  #waiting(settled: SettledRequest, sender: Sender): Approval | null {
    const pending = this.#pending(settled, sender.nowMs);
    return pending !== null && this.#read(pending.id, settled.reader_id, sender) ? pending : null;
  }

  #bound(id: string, settled: SettledRequest): Approval | null {
    const found = this.approvals.get(id);
    return found !== undefined && found.binding === bindingOf(settled) ? found : null;
  }

  #standing(approval: Approval | null, nowMs: number): ApprovalStatus | 'mismatch' {
    if (approval === null) return 'mismatch';
    const isOpen = approval.status === 'pending' || approval.status === 'approved';
    return isOpen && nowMs >= approval.expiresAtMs ? 'expired' : approval.status;
  }

  /** False: what is read, or the reading, was voided before. */
  #read(id: string, reader: string, { sidecarId: source, isRepeat }: Sender): boolean {
    const row = this.rows.get(id);
    if (row === undefined || row.isAnswered) return true;
    if (row.isVoid) return false;
    const known = this.rows.get(reader);
    if (known !== undefined) {
      known.isRepeat &&= isRepeat;
      return known.reads === id && known.source === source && !known.isVoid;
    }
    this.#insert(reader, { sidecarId: source }, { requestHash: null, reads: id, isRepeat });
    const readers = [...this.rows.values()].filter((each) => each.reads === id && !each.isVoid);
    if (readers.length >= readersMax) row.isAnswered = true;
    return true;
  }

  #dropReading(reader: string): void {
    if ((this.rows.get(reader)?.reads ?? null) !== null) this.rows.delete(reader);
  }

  /** Settlements and readings with which no client was answered. */
  voidAll(
    voids: readonly {
      readonly id: string;
      readonly took: readonly number[];
      readonly amountMicroUsd: number | null;
    }[],
    source: string,
    makeId: () => AttestationId,
    nowMs: UnixMillis,
  ): void {
    for (const { id, took, amountMicroUsd } of voids) {
      const row = this.rows.get(id);
      if (row === undefined) {
        this.#insert(id, { sidecarId: source }, { requestHash: null, isVoid: true, isWithdrawn: true });
        this.#ledger.draw({ sidecarId: source, took }, unsettled(amountMicroUsd));
        continue;
      }
      if (row.isVoid || row.source !== source) continue;
      row.isWithdrawn = true;
      for (const each of row.reads === null ? [row] : [row, this.rows.get(row.reads)])
        if (each !== undefined)
          this.#undo(each, each === row ? { took, amountMicroUsd } : null, makeId, nowMs);
    }
  }

  #undo(
    row: Row,
    stated: { readonly took: readonly number[]; readonly amountMicroUsd: number | null } | null,
    makeId: () => AttestationId,
    nowMs: UnixMillis,
  ): void {
    if (!row.isWithdrawn || row.isVoid || row.isAnswered) return;
    for (const other of this.rows.values()) if (other.reads === row.id && !other.isWithdrawn) return;
    row.isVoid = true;
    if (row.key !== null && this.#claims.get(row.key) === row.id) this.#claims.delete(row.key);
    if (row.requestHash === null) {
      if (stated !== null)
        this.#ledger.draw({ sidecarId: row.source, took: stated.took }, unsettled(stated.amountMicroUsd));
      return;
    }
    const record = this.#chains.records.get(row.id);
    const before = this.#holds.void(row.id);
    const isPaid = isId('appr', record?.approvalId ?? null);
    if (before !== null)
      this.#ledger.draw(
        { sidecarId: row.source, took: row.took },
        entriesOf({ kind: 'voided', before, to: isPaid ? 'approval' : 'free' }),
      );
    for (const approval of this.approvals.values()) {
      if (approval.usedBy === row.id && approval.status === 'used') {
        approval.status = 'approved';
        approval.usedBy = null;
      }
    }
    const approval = this.approvals.get(row.id);
    if (approval?.status === 'pending') this.end(approval, 'expired');
    if (record !== undefined) this.#chains.append(voidOf(record, makeId(), nowMs));
  }

  end(approval: Approval, status: 'denied' | 'expired'): void {
    approval.status = status;
    this.#ledger.freeHeld(approval.holds);
  }

  expireOverdue(nowMs: number): void {
    for (const each of this.approvals.values()) {
      const isOpen = each.status === 'pending' || each.status === 'approved';
      if (isOpen && nowMs >= each.expiresAtMs) this.end(each, 'expired');
    }
  }

  /** Whether only calls that were delivered once more keep it true. */
  isReadByRepeats(id: string): boolean {
    const readers = [...this.rows.values()].filter((each) => each.reads === id && !each.isWithdrawn);
    return readers.length > 0 && readers.every(({ isRepeat }) => isRepeat);
  }

  /** Whether a later delivery of this call, too, settles nothing. */
  close(settlement: ArrivedSettlement, answer: SettlementAnswer, { sidecarId }: Sender): boolean {
    if (settlement.kind !== 'permit' && settlement.kind !== 'suspend') return false;
    const isReplayed = answer.kind === 'replayed' && settlement.kind === 'suspend';
    const isPassing = answer.kind === 'refused' && answer.is_passing === true;
    const isRefused = isPassing || ['conflict', 'approval', 'blocked'].includes(answer.kind);
    if (!isReplayed && !isRefused) return false;
    const id = settlement.kind === 'permit' ? settlement.shipped.record.id : settlement.approval_id;
    const isNew = !this.rows.has(id);
    if (isNew) this.#insert(id, { sidecarId }, { requestHash: null });
    if (isReplayed) return isNew;
    const isNewReader = !this.rows.has(settlement.reader_id);
    if (isNewReader)
      this.#insert(
        settlement.reader_id,
        { sidecarId },
        { requestHash: null, isVoid: true, isWithdrawn: true },
      );
    return isNew && isNewReader;
  }
}

const keyOf = (settled: SettledRequest, { accountId }: Sender): string | null =>
  settled.idempotency_key === null
    ? null
    : `${settled.passport_id} ${settled.gate_id ?? accountId} ${settled.idempotency_key}`;

const bindingOf = (of: SettledRequest): string =>
  `${of.passport_id} ${of.gate_id} ${of.gate_version} ${of.request_hash}`;

const approvalIs = (approval: Approval | null, standing: ApprovalStatus | 'mismatch'): SettlementAnswer => ({
  kind: 'approval',
  standing,
  expires_at_ms: standing === 'mismatch' ? null : ((approval?.expiresAtMs ?? null) as UnixMillis | null),
});

const suspended = (approval: Approval, isNew: boolean): SettlementAnswer => ({
  kind: 'suspended',
  approval_id: approval.id,
  expires_at_ms: approval.expiresAtMs as UnixMillis,
  is_new: isNew,
});

const voidOf = (
  record: AttestationRecord,
  id: AttestationId,
  timestampMs: UnixMillis,
): AttestationRecord => ({
  ...record,
  id,
  resolution: 'voided',
  refersTo: record.id,
  timestampMs,
});

const unsettled = (amountMicroUsd: number | null) =>
  entriesOf({ kind: 'unsettled', money: amountMicroUsd ?? 0 });
