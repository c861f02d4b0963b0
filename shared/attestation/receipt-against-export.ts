import { minuteMs, parseTime } from '../model/time.ts';
import type { ReceiptStatement } from '../wire/evidence/decision-receipt.ts';

/** Records are dated at most this far ahead of their arrival (contract §9). */
const aheadMsMax = minuteMs;

/**
 * What a receipt that verifies and an export that verifies say of each other:
 *
 *   kept         the export has the record, as the receipt says
 *   differs      it has another record under that id
 *   voided       the record is there, and taken back: its client was answered, as the receipt proves
 *   left_out     the chain is there from its first record to one later than the promised time, without it
 *   undecided    nothing of that, for the reason named
 */
export type ReceiptFinding =
  | { readonly kind: 'kept'; readonly sequence: number }
  | { readonly kind: 'differs'; readonly sequence: number; readonly member: string }
  | { readonly kind: 'voided'; readonly sequence: number }
  | { readonly kind: 'left_out'; readonly lastSequence: number }
  | { readonly kind: 'undecided'; readonly why: 'no_chain' | 'begins_later' | 'ends_too_early' };

type Line = Readonly<Record<string, unknown>>;
type Found = { readonly sequence: number; readonly member: string | null };

/** Members of a record that a receipt states, too. */
const stated = ['chain_id', 'decision', 'gate_id', 'reason', 'request_hash'] as const;

/**
 * Holds a receipt against the records of an export, line by line, in constant memory. Believes the lines:
 * they were verified. Two signed statements that contradict each other convict the operator, who signs both:
 * the sidecar's key is certified by the control plane.
 */
export class ReceiptAgainstExport {
  readonly #statement: ReceiptStatement;
  readonly #logByMs: number;
  #first: number | null = null;
  #last = 0;
  /** A record of the chain was made after the promised time: what had come by then is before it. */
  #isLaterThere = false;
  #found: Found | null = null;
  #voidedAt: number | null = null;

  constructor(statement: ReceiptStatement) {
    this.#statement = statement;
    this.#logByMs = parseTime(statement.log_by) ?? Number.POSITIVE_INFINITY;
  }

  /** A line of the file: jsonl, or the same in a JSON export. */
  see(line: string): void {
    const { attestation_id: id, chain_id: chainId } = this.#statement;
    // Before it is parsed: nearly all lines are of other chains.
    if (!line.includes(`"${id}"`) && !line.includes(`"chain_id":"${chainId}"`)) return;
    const record = recordOf(line);
    const sequence = record?.['sequence'];
    if (record === null || typeof sequence !== 'number') return;
    if (record['chain_id'] === chainId) this.#seeOfChain(record, sequence);
    if (record['id'] === id) this.#found = { sequence, member: this.#otherMember(record) };
    if (record['refers_to'] === id && record['resolution'] === 'voided') this.#voidedAt = sequence;
  }

  #seeOfChain(record: Line, sequence: number): void {
    this.#first ??= sequence;
    this.#last = sequence;
    const atMs = typeof record['timestamp'] === 'string' ? parseTime(record['timestamp']) : null;
    if (atMs !== null && atMs > this.#logByMs + aheadMsMax) this.#isLaterThere = true;
  }

  #otherMember(record: Line): string | null {
    return stated.find((name) => record[name] !== this.#statement[name]) ?? null;
  }

  /** Once the whole export was seen. */
  finish(): ReceiptFinding {
    if (this.#found !== null) {
      const { sequence, member } = this.#found;
      if (member !== null) return { kind: 'differs', sequence, member };
      return this.#voidedAt === null
        ? { kind: 'kept', sequence }
        : { kind: 'voided', sequence: this.#voidedAt };
    }
    if (this.#first === null) return { kind: 'undecided', why: 'no_chain' };
    if (this.#first > 1) return { kind: 'undecided', why: 'begins_later' };
    if (!this.#isLaterThere) return { kind: 'undecided', why: 'ends_too_early' };
    return { kind: 'left_out', lastSequence: this.#last };
  }
}

function recordOf(line: string): Line | null {
  const text = line.endsWith(',') ? line.slice(0, -1) : line;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Line) : null;
  } catch {
    return null;
  }
}
