import { assert } from '../../shared/errors/assert.ts';
import type { Transaction } from '../base/database.ts';

/** PostgreSQL, "COPY": the signature of its binary format, without flags and without an extension. */
const fileHeader = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const fileEnd = -1;
const nullLength = -1;
const u32 = 2 ** 32;
/** UTF-8 takes at most three bytes for a UTF-16 code unit. */
const bytesPerUnitMax = 3;

/**
 * Rows in the binary format of COPY, written once into one piece of memory: no text of a number or of bytes
 * is made here or read there. Begin each row with `row`, then write each of its columns in their order.
 * `expectedBytes`: the memory doubles where that is not enough.
 */
export class CopyRows {
  #bytes: Buffer;
  #length = fileHeader.length;

  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafeSlow(fileHeader.length + expectedBytes);
    fileHeader.copy(this.#bytes);
  }

  row(columns: number): void {
    const at = this.#room(2);
    this.#bytes.writeInt16BE(columns, at);
  }

  null(): void {
    const at = this.#room(4);
    this.#bytes.writeInt32BE(nullLength, at);
  }

  /** `"char"`, of one ASCII character. */
  char(value: string): void {
    const at = this.#field(1);
    this.#bytes[at] = value.charCodeAt(0);
  }

  boolean(value: boolean): void {
    const at = this.#field(1);
    this.#bytes[at] = value ? 1 : 0;
  }

  int(value: number): void {
    const at = this.#field(4);
    this.#bytes.writeInt32BE(value, at);
  }

  /** From 0 to 2^53 - 1. */
  bigint(value: number): void {
    assert(Number.isSafeInteger(value) && value >= 0, 'a bigint of the database stays below 2^53');
    const at = this.#field(8);
    this.#bytes.writeUInt32BE(Math.floor(value / u32), at);
    this.#bytes.writeUInt32BE(value % u32, at + 4);
  }

  text(value: string): void {
    this.#text(value, 0);
  }

  jsonb(value: unknown): void {
    const version = 1;
    const at = this.#text(JSON.stringify(value), 1);
    this.#bytes[at] = version;
  }

  /** `bytea` or `uuid`, from the hex of exactly so many bytes. */
  hex(value: string, length: number): void {
    assert(value.length === 2 * length, 'bytes have their length');
    const at = this.#field(length);
    assert(this.#bytes.write(value, at, length, 'hex') === length, 'bytes are written as hex');
  }

  /** `bytea` or `uuid`: the part of `source` from `start` on. */
  bytes(source: Uint8Array, start: number, length: number): void {
    assert(start + length <= source.length, 'the bytes are there');
    const at = this.#field(length);
    for (let i = 0; i < length; i++) this.#bytes[at + i] = source[start + i] ?? 0;
  }

  /** All rows, and their end. Nothing may be written any more: the memory goes with the result. */
  take(): Buffer {
    const at = this.#room(2);
    this.#bytes.writeInt16BE(fileEnd, at);
    return this.#bytes.subarray(0, this.#length);
  }

  /** Where a value of so many bytes is to be written. */
  #field(length: number): number {
    const at = this.#room(4 + length);
    this.#bytes.writeInt32BE(length, at);
    return at + 4;
  }

  /** Leaves `before` bytes in front of the text; returns where they are. */
  #text(value: string, before: number): number {
    const lengthAt = this.#room(4 + before);
    this.#reserve(value.length * bytesPerUnitMax);
    const length = this.#bytes.write(value, this.#length);
    this.#length += length;
    this.#bytes.writeInt32BE(before + length, lengthAt);
    return lengthAt + 4;
  }

  #room(length: number): number {
    this.#reserve(length);
    const at = this.#length;
    this.#length += length;
    return at;
  }

  #reserve(length: number): void {
    const needed = this.#length + length;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/** `COPY <table> (<columns>) FROM STDIN (FORMAT binary)`, to be built once. */
export function copyStatement(table: string, columns: readonly string[]): TemplateStringsArray {
  const text = [`COPY ${table} (${columns.join(', ')}) FROM STDIN (FORMAT binary)`];
  return Object.assign(text, { raw: text });
}

/**
 * Runs a `copyStatement` with the rows, in the transaction of the caller. Both are sent in one go, and what
 * is sent next travels after them. Rejects with the error of PostgreSQL, as any query does; nothing is
 * stored then.
 */
export function copyIn(tx: Transaction, statement: TemplateStringsArray, rows: Buffer): PromiseLike<unknown> {
  const query = tx(statement).simple();
  // A word of our patch of the driver.
  Object.assign((query as unknown as { options: object }).options, { rows });
  return query;
}
