import { isAttachment } from '../../clients/node/src/verify/attachments.ts';
import { isRecord } from '../../clients/node/src/verify/export-shapes.ts';
import { isFactsLine } from '../../clients/node/src/verify/facts.ts';
import { parseAttachment } from '../../shared/attestation/attachments.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import { noFacts, openFacts } from '../../shared/replay/conditions-by-facts.ts';
import { needsSums } from '../../shared/replay/judge.ts';
import { Replay, type ReplayReport } from '../../shared/replay/replay.ts';
import { parseAttestation } from '../../shared/wire/evidence/attestation.ts';
import type { FactsAnswer } from '../../shared/wire/evidence/fact.ts';
import { parseText } from './export-lines.ts';

/**
 * A replay of the lines of exports that verify, jsonl or json: `learn` gets each of them once, then `decide`
 * does, then `decideAtLimits`. `place`: the number of the line.
 *
 * Most lines are parsed once. Others are passed over by their text, which has one spelling for what it says
 * (RFC 8785): none of the members looked for occurs in a string, where a quotation mark is escaped.
 */
export class LineReplay {
  readonly #replay = new Replay();
  #waiting: { readonly record: Attestation; readonly place: number } | null = null;

  learn(line: string): void {
    if (isPlainDecision(line)) return;
    const value = parseLine(line);
    const statement = parseAttachment(value);
    if (statement !== null) this.#replay.learn(statement);
    const record = parseAttestation(value);
    if (record !== null) this.#replay.note(record);
  }

  /** Adds up what records took, and judges those that need no sums. `newer`: this version cannot read it. */
  decide(line: string, place: number): 'newer' | undefined {
    const value = parseLine(line);
    this.#judgeWaiting(value);
    const record = parseAttestation(value);
    if (record === null) return isOfNewer(value) ? 'newer' : undefined;
    this.#replay.add(record);
    if (!needsSums(record)) this.#waiting = { record, place };
    return undefined;
  }

  decideAtLimits(line: string, place: number): undefined {
    if (this.#waiting === null && !line.includes(limitExceeded)) return;
    const value = parseLine(line);
    this.#judgeWaiting(value);
    const record = parseAttestation(value);
    if (record !== null && needsSums(record)) this.#waiting = { record, place };
  }

  /** The facts of a record stand in the line after it. */
  #judgeWaiting(next: unknown): void {
    if (this.#waiting === null) return;
    const { record, place } = this.#waiting;
    this.#waiting = null;
    this.#replay.judge(
      record,
      place,
      isFactsLine(next) ? openFacts(next as unknown as FactsAnswer) : noFacts,
    );
  }

  report(): ReplayReport {
    this.#judgeWaiting(undefined);
    return this.#replay.report();
  }
}

/** Learned from by no replay: it names no approval, and is no end of something. */
const isPlainDecision = (line: string): boolean =>
  line.startsWith('{"amount_micro_usd":') &&
  line.includes('"resolution":null') &&
  !line.includes('"approval_id":"');

/** In all records that need sums, and in few others. */
const limitExceeded = '_limit_exceeded"';

const isOfNewer = (value: unknown): boolean =>
  (isRecord(value) || isAttachment(value)) && parseAttachment(value) === null;

/** As json, a comma may follow, and some lines only open or close. */
const parseLine = (line: string): unknown => parseText(line.endsWith(',') ? line.slice(0, -1) : line);
