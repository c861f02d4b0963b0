import { changeOf, entriesOf, type PermitMoney } from '../../../control-plane/book/entry.ts';
import {
  type ChangeVerdict,
  changePermit,
  moneyOf,
  type PermitChange,
  type PermitState,
} from '../../../control-plane/outcomes/permit-change.ts';
import { type AttestationRecord, emptyExtras } from '../../../shared/model/attestation.ts';
import type { HoldRule } from '../../../shared/model/constraints.ts';
import { holdDefaults } from '../../../shared/model/hold.ts';
import type { AttestationId } from '../../../shared/model/ids.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import type { ShippedOutcome } from '../../../shared/wire/sync/attestation-batch.ts';
import type { Chains } from './chains.ts';
import type { Ledger, Take } from './ledger.ts';

interface HoldsDeps {
  readonly chains: Chains;
  readonly ledger: Ledger;
  readonly takeOf: (id: string) => Take | undefined;
  readonly ruleOf: (gateId: string) => HoldRule | null;
  readonly makeId: () => AttestationId;
}

/**
 * `control-plane/outcomes` without a database: what PERMITs on record count, and the outcomes that sidecars
 * have shipped. The rules are its own; money, records and order are here. Every call is one transaction.
 */
export class Holds {
  readonly permits = new Map<string, PermitState>();
  /** What became of each outcome that was shipped, in their order. */
  readonly reported: { readonly attestationId: string; status: 'waiting' | 'done' | 'refused' }[] = [];
  /** Money goes back to its windows. */
  onReturn: (attestationId: string, microUsd: number) => void = () => undefined;
  #waiting: { readonly shipped: ShippedOutcome; readonly entry: Holds['reported'][number] }[] = [];
  readonly #deps: HoldsDeps;

  constructor(deps: HoldsDeps) {
    this.#deps = deps;
  }

  /** A PERMIT is on record. */
  begin({ id, amountMicroUsd, holdExpiresAtMs }: AttestationRecord): void {
    this.permits.set(id, {
      countsMicroUsd: amountMicroUsd,
      hold:
        holdExpiresAtMs === null || amountMicroUsd === null
          ? null
          : { amountMicroUsd, status: 'open', expiresAtMs: holdExpiresAtMs },
      reported: null,
      refundedMicroUsd: 0 as MicroUsd,
      overrunMicroUsd: 0 as MicroUsd,
      isVoid: false,
    });
  }

  /** Returns what it counted until now. */
  void(id: string): PermitMoney | null {
    const state = this.permits.get(id);
    if (state === undefined) return null;
    const { hold, countsMicroUsd } = state;
    this.permits.set(id, {
      ...state,
      isVoid: true,
      hold: hold?.status === 'open' ? { ...hold, status: 'released' } : hold,
      countsMicroUsd: countsMicroUsd === null ? null : (0 as MicroUsd),
    });
    return moneyOf(state);
  }

  /** What a PERMIT counts of its own take. */
  countsOf(id: string): { readonly own: number; readonly isVoid: boolean } | undefined {
    const state = this.permits.get(id);
    return state === undefined ? undefined : { own: moneyOf(state).own, isVoid: state.isVoid };
  }

  arrive(shipped: ShippedOutcome): void {
    const entry: Holds['reported'][number] = { attestationId: shipped.attestationId, status: 'waiting' };
    this.reported.push(entry);
    this.#waiting.push({ shipped, entry });
  }

  /** Those without their PERMITs wait for them. */
  applyReported(nowMs: UnixMillis): void {
    this.#waiting = this.#waiting.filter(({ shipped, entry }) => {
      const verdict = this.change(shipped.attestationId, { kind: 'outcome', ...shipped.given }, nowMs);
      if (verdict !== null) entry.status = verdict.kind === 'refused' ? 'refused' : 'done';
      return verdict === null;
    });
  }

  expire(nowMs: UnixMillis): void {
    for (const [id, { hold, isVoid }] of this.permits)
      if (hold?.status === 'open' && hold.expiresAtMs <= nowMs && !isVoid)
        this.change(id, { kind: 'expire' }, nowMs);
  }

  /** Null: the PERMIT is not on record. */
  change(id: string, change: PermitChange, nowMs: UnixMillis): ChangeVerdict | null {
    const { chains, ledger, takeOf, ruleOf, makeId } = this.#deps;
    const record = chains.records.get(id);
    const state = this.permits.get(id);
    if (record === undefined || state === undefined) return null;
    const rule = (record.gateId === null ? null : ruleOf(record.gateId)) ?? holdDefaults;
    const terms = { rule, isForeign: false, decidedAtMs: record.timestampMs };
    const verdict = changePermit(state, change, terms, nowMs);
    if (verdict.kind !== 'changed') return verdict;
    this.permits.set(id, verdict.state);
    const entries = entriesOf({ kind: 'changed', before: moneyOf(state), after: moneyOf(verdict.state) });
    const take = takeOf(id);
    if (take !== undefined) ledger.draw(take, entries);
    const { spent } = changeOf(entries);
    if (spent < 0) this.onReturn(id, -spent);
    const { countsMicroUsd, hold } = verdict.state;
    chains.append({
      ...record,
      ...(record.asserted === null ? emptyExtras : {}),
      id: makeId(),
      amountMicroUsd: countsMicroUsd,
      resolution: verdict.resolution,
      refersTo: record.id,
      holdExpiresAtMs: hold?.status === 'open' ? hold.expiresAtMs : null,
      stateAgeMs: null,
      timestampMs: nowMs,
    });
    return verdict;
  }
}
