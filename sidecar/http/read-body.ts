import { limits } from '../../shared/model/limits.ts';
import { httpLimits } from './limits.ts';

/** What the large bodies that are being received hold together; written by their readers. */
export interface LargeBodies {
  bytes: number;
}

/**
 * Gathers a body that comes in several pieces. The buffer doubles as bytes arrive: a client that declares
 * much and sends little, or sends it byte by byte, holds no more memory than twice what it sent. Past
 * `bytesMax`, and where there is no room beside other large bodies, nothing is kept, only counted.
 */
export class BodyReader {
  readonly #bytesMax: number;
  readonly #largeBodies: LargeBodies;
  #buffer = noBytes;
  #received = 0;
  /** Its part of `#largeBodies`. */
  #largeBytes = 0;
  #isCrowdedOut = false;

  constructor(bytesMax: number, largeBodies: LargeBodies) {
    this.#bytesMax = bytesMax;
    this.#largeBodies = largeBodies;
  }

  /** Copies: the bytes stay the caller's. */
  take(piece: Uint8Array): void {
    const before = this.#received;
    this.#received += piece.byteLength;
    if (this.#received > this.#buffer.byteLength && !this.isTooLarge) this.#growTo(this.#received, before);
    if (this.isTooLarge || this.#isCrowdedOut) this.release();
    else this.#buffer.set(piece, before);
  }

  /** Keeps nothing any more. To be called when the body is delivered or no longer wanted. */
  release(): void {
    this.#buffer = noBytes;
    this.#largeBodies.bytes -= this.#largeBytes;
    this.#largeBytes = 0;
  }

  get received(): number {
    return this.#received;
  }

  get isTooLarge(): boolean {
    return this.#received > this.#bytesMax;
  }

  /** There was no room for it beside other large bodies. */
  get isCrowdedOut(): boolean {
    return this.#isCrowdedOut;
  }

  /** The bytes so far, which outlast `release`. Not after it became too large or was crowded out. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#received);
  }

  #growTo(needed: number, used: number): void {
    const length = Math.min(Math.max(needed, 2 * this.#buffer.byteLength), this.#bytesMax);
    this.#isCrowdedOut ||= !this.#takeRoomFor(length);
    if (this.#isCrowdedOut) return;
    // Not of Node's pool: it lives until its client has sent the rest, and would keep 8 KiB.
    const grown = Buffer.allocUnsafeSlow(length);
    grown.set(this.#buffer.subarray(0, used));
    this.#buffer = grown;
  }

  /** False: there is none. A body of usual size always has room, so that no batch crowds out a check. */
  #takeRoomFor(length: number): boolean {
    if (length <= limits.bodyBytesMax) return true;
    const bytes = this.#largeBodies.bytes + length - this.#largeBytes;
    if (bytes > httpLimits.largeBodiesBytesMax) return false;
    this.#largeBodies.bytes = bytes;
    this.#largeBytes = length;
    return true;
  }
}

const noBytes = Buffer.alloc(0);
