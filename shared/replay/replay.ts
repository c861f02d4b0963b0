/**
 * Room `shared/replay`: decides the records of an export again, with the decision core and nothing but what
 * the export says (docs/replay.md). `evidence.ts` keeps what it says beside its decisions, `judge.ts` decides
 * one record, `conditions-by-facts.ts` asks its conditions again, `window-sums.ts` adds up what PERMITs took
 * of limits.
 */

import type { DrawnOf, DrawnWindow } from '../decision/windows-of.ts';
import type { Attestation } from '../model/attestation.ts';
import { type Outcome, outcomes } from '../model/decision.ts';
import { parseTime, type UnixMillis } from '../model/time.ts';
import { noFacts, type OpenFacts } from './conditions-by-facts.ts';
import {
  drawnBy,
  Evidence,
  isPresented,
  type Statement,
  standingTermsOf,
  type Unjudged,
} from './evidence.ts';
import { type Judgement, judge } from './judge.ts';
import { type OverLimit, WindowSums } from './window-sums.ts';

type Counts = Record<Judgement['kind'], number>;

/** A record that the export contradicts. */
interface Contradiction {
  readonly chain_id: string;
  readonly sequence: number;
  readonly id: string;
  readonly decision: Outcome;
  readonly reason: string | null;
  readonly fault: string;
  /** What the export gives; null: no other decision. */
  readonly expected: { readonly decision: Outcome; readonly reason: string | null } | null;
}

export interface ReplayReport {
  readonly decisions: Readonly<Record<Outcome, Readonly<Counts>>>;
  /** Records that are no decisions: how a SUSPEND or a PERMIT ended. */
  readonly statements: number;
  /** Decisions by why they were not judged. */
  readonly unjudged: Readonly<Partial<Record<Unjudged, number>>>;
  readonly contradictions: readonly Contradiction[];
  readonly contradictions_unnamed: number;
  /** Limits that PERMITs passed together. */
  readonly over_limits: readonly OverLimit[];
  readonly over_limits_unnamed: number;
}

/** A report names so many; it counts the others. */
const namedMax = 100;

/**
 * Reads an export, verified before. `learn` gets what it states and `note` its records, at least those with a
 * resolution or an approval; then `add` and `judge` get each record again. `judge` needs the sums of all
 * records for those of which `needsSums` holds. `report` is for the end.
 */
export class Replay {
  readonly #evidence = new Evidence();
  readonly #sums = new WindowSums();
  /** Approvals whose money was counted while they waited. */
  readonly #held = new Set<string>();
  readonly #decisions = Object.fromEntries(
    outcomes.map((outcome) => [outcome, { agrees: 0, contradicted: 0, unjudged: 0 }]),
  ) as Record<Outcome, Counts>;
  readonly #unjudged: Partial<Record<Unjudged, number>> = {};
  /** The first ones by their places, in this order. */
  readonly #contradictions: { readonly place: number; readonly contradiction: Contradiction }[] = [];
  #unnamed = 0;
  #statements = 0;

  learn(statement: Statement): void {
    this.#evidence.learn(statement);
  }

  note(record: Attestation): void {
    this.#evidence.note(record);
  }

  /** Counts what a PERMIT took of limits, and what was taken for a while and given back. */
  add(record: Attestation): void {
    const { decision, resolution, refersTo, test, id, timestampMs } = record;
    const drawn = this.#drawnOn(record);
    if (drawn === null) return;
    if (resolution !== null && refersTo?.startsWith('appr_') === true)
      this.#addHeld(record, refersTo, drawn.spend);
    if (decision !== 'PERMIT' || resolution !== null || test) return;
    const isVoided = this.#evidence.isVoided(id);
    const amount = record.amountMicroUsd ?? 0;
    const units = isVoided ? 0 : this.#evidence.leastTaken(id, amount);
    const most = this.#evidence.mostTaken(id, amount);
    const atMs = isPresented(record) ? this.#heldFromMs(record.approvalId) : timestampMs;
    if (atMs !== null) for (const each of drawn.spend) this.#sums.add(each, { units, most, atMs });
    const request = { units: isVoided ? 0 : 1, most: 1, atMs: timestampMs };
    for (const each of drawn.rate) this.#sums.add(each, request);
    if (!isVoided) this.#addStanding(record, units);
  }

  /**
   * `place`: in the files. The report names contradictions in this order. `facts`: what opens its
   * commitments.
   */
  judge(record: Attestation, place: number, facts: OpenFacts = noFacts): void {
    if (record.resolution !== null) {
      this.#statements += 1;
      return;
    }
    const found = judge(record, this.#evidence, this.#sums, facts);
    this.#decisions[record.decision][found.kind] += 1;
    if (found.kind === 'unjudged') this.#unjudged[found.why] = (this.#unjudged[found.why] ?? 0) + 1;
    if (found.kind !== 'contradicted') return;
    const { chainId, sequence, id, decision, reason } = record;
    const { fault, expected } = found;
    const at = this.#contradictions.findLastIndex((each) => each.place < place) + 1;
    const contradiction = { chain_id: chainId, sequence, id, decision, reason, fault, expected };
    this.#contradictions.splice(at, 0, { place, contradiction });
    if (this.#contradictions.length <= namedMax) return;
    this.#contradictions.pop();
    this.#unnamed += 1;
  }

  report(): ReplayReport {
    const over = [...this.#sums.overLimits()];
    return {
      decisions: this.#decisions,
      statements: this.#statements,
      unjudged: this.#unjudged,
      contradictions: this.#contradictions.map(({ contradiction }) => contradiction),
      contradictions_unnamed: this.#unnamed,
      over_limits: over.slice(0, namedMax),
      over_limits_unnamed: Math.max(0, over.length - namedMax),
    };
  }

  /** Null: the file does not say what they were. */
  #drawnOn(record: Attestation): DrawnOf | null {
    const known = record.passportId === null ? null : this.#evidence.passport(record.passportId);
    if (known === null || typeof known === 'string') return null;
    const { passport } = known;
    const policy = this.#evidence.policy(record, passport.mode);
    return typeof policy === 'string' ? null : drawnBy(record, policy, passport);
  }

  /** An approval that no PERMIT used held its money all the same. It may have several records of its end. */
  #addHeld(record: Attestation, approvalId: string, drawn: readonly DrawnWindow[]): void {
    if (this.#evidence.isUsed(approvalId) || this.#held.has(approvalId)) return;
    this.#held.add(approvalId);
    const atMs = this.#heldFromMs(approvalId);
    const most = record.amountMicroUsd ?? 0;
    if (atMs !== null) for (const each of drawn) this.#sums.add(each, { units: 0, most, atMs });
  }

  /** An approval holds its money from when it was asked for. Null: that time is not known. */
  #heldFromMs(approvalId: string): UnixMillis | null {
    const createdAt = this.#evidence.approval(approvalId)?.created_at;
    return createdAt === undefined ? null : parseTime(createdAt);
  }

  #addStanding(record: Attestation, units: number): void {
    const { approvalId } = record;
    if (approvalId?.startsWith('sappr_') !== true) return;
    const body = this.#evidence.approval(approvalId);
    const limit = body === null ? null : (standingTermsOf(body)?.totalMicroUsd ?? null);
    const startsAtMs = parseTime(body?.created_at ?? '');
    if (limit !== null && startsAtMs !== null) this.#sums.addTotal(approvalId, { startsAtMs, limit, units });
  }
}

/** Whether nothing in it contradicts the export. */
export const isJustified = (report: ReplayReport): boolean =>
  report.contradictions.length === 0 && report.over_limits.length === 0;
