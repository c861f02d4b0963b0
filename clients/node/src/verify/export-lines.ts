/**
 * Cuts bytes that arrive in pieces into lines. A line is null where it is not UTF-8, is longer than
 * `lineBytesMax`, or is the last one and lacks its newline; a carriage return is part of the line. Holds at
 * most one line; yields nothing after the null for a line that is too long.
 */
export class LineSplitter {
  readonly #lineBytesMax: number;
  // Keeps a byte order mark in the text: no line of ours begins with one.
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #isOverrun = false;
  /** Why the last line is null, for people. */
  fault = '';

  constructor({ lineBytesMax }: { readonly lineBytesMax: number }) {
    this.#lineBytesMax = lineBytesMax;
  }

  *push(piece: Uint8Array): Generator<string | null> {
    for (let start = 0; !this.#isOverrun; ) {
      const stop = piece.indexOf(newline, start);
      const part = piece.subarray(start, stop < 0 ? piece.length : stop);
      this.#isOverrun = this.#pendingBytes + part.length > this.#lineBytesMax;
      if (this.#isOverrun) yield this.#none('a line is too long');
      else if (stop < 0) {
        // The caller may reuse its buffer.
        if (part.length > 0) this.#pending.push(Uint8Array.from(part));
        this.#pendingBytes += part.length;
        return;
      } else {
        start = stop + 1;
        yield this.#decode(this.#takePending(part));
      }
    }
  }

  /** After the last piece: null for an unfinished line. */
  *end(): Generator<null> {
    if (this.#pendingBytes > 0 && !this.#isOverrun) yield this.#none('the file does not end in a newline');
  }

  #none(fault: string): null {
    this.fault = fault;
    return null;
  }

  #decode(bytes: Uint8Array): string | null {
    try {
      return this.#utf8.decode(bytes);
    } catch {
      return this.#none('the file is not UTF-8');
    }
  }

  #takePending(rest: Uint8Array): Uint8Array {
    if (this.#pending.length === 0) return rest;
    const whole = new Uint8Array(this.#pendingBytes + rest.length);
    let at = 0;
    for (const part of [...this.#pending, rest]) {
      whole.set(part, at);
      at += part.length;
    }
    this.#pending = [];
    this.#pendingBytes = 0;
    return whole;
  }
}

const newline = 0x0a;

/** A line of JSON: equal to a jsonl line, only closing a chain, or misplaced. */
export type LineRead =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'closing' }
  | { readonly kind: 'misplaced' };

const manifestEnd = ',"chains":[';
const chainEnd = ',"attestations":[';
const chainClosed = ']}';
const attachmentsBegin = '],"attachments":[';
const endBegin = '],"end":';

/** Whether this line begins an export as JSON. */
export const isJsonStart = (line: string): boolean =>
  line.startsWith('{"manifest":') && line.endsWith(manifestEnd);

/**
 * Reads an export as JSON (docs/verify.md, 8) line by line, each without its newline. Checks the brackets
 * only and leaves their content to the reader of jsonl. After a misplaced line, results are meaningless.
 *
 *     start ──> first ──chain──> records ──last record──> closing ──"]},"──> chain ──chain──> records
 *                 └────end────> ended                        └─────"]}"────> end ────end────> ended
 *
 * A chain without records is closed in place of its first one. Attachments stand in place of the end, and are
 * read until it.
 */
export function jsonLineReader(): (line: string) => LineRead {
  let expected:
    | 'start'
    | 'first'
    | 'empty'
    | 'records'
    | 'closing'
    | 'chain'
    | 'end'
    | 'attachments'
    | 'last'
    | 'ended' = 'start';

  function readHeader(line: string): LineRead {
    if (expected === 'end' && line === attachmentsBegin) {
      expected = 'attachments';
      return { kind: 'closing' };
    }
    if (expected !== 'chain' && line.startsWith(endBegin)) {
      expected = 'ended';
      return { kind: 'line', line: `{${line.slice(2)}` };
    }
    if (expected === 'end' || expected === 'last' || !line.endsWith(chainEnd)) return { kind: 'misplaced' };
    expected = 'empty';
    return { kind: 'line', line: `{"chain":${line.slice(0, -chainEnd.length)}}}` };
  }

  function readClosing(line: string): LineRead {
    expected = line === chainClosed ? 'end' : 'chain';
    return { kind: line === chainClosed || line === `${chainClosed},` ? 'closing' : 'misplaced' };
  }

  /** One of several, with a comma after it unless it is the last. */
  function readItem(line: string, more: 'records' | 'attachments', last: 'closing' | 'last'): LineRead {
    const isLast = !line.endsWith(',');
    expected = isLast ? last : more;
    return { kind: 'line', line: isLast ? line : line.slice(0, -1) };
  }

  return (line) => {
    switch (expected) {
      case 'start':
        expected = 'first';
        if (!isJsonStart(line)) return { kind: 'misplaced' };
        return { kind: 'line', line: `${line.slice(0, -manifestEnd.length)}}` };
      case 'first':
      case 'chain':
      case 'end':
      case 'last':
        return readHeader(line);
      case 'empty':
        return line.startsWith(chainClosed) ? readClosing(line) : readItem(line, 'records', 'closing');
      case 'records':
        return readItem(line, 'records', 'closing');
      case 'attachments':
        return readItem(line, 'attachments', 'last');
      case 'closing':
        return readClosing(line);
      case 'ended':
        return { kind: 'misplaced' };
    }
  };
}
