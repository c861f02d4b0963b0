/**
 * Gathers a body that comes in several pieces. The buffer doubles as bytes arrive: a client that declares
 * much and sends little, or sends it byte by byte, holds no more memory than twice what it sent. Past
 * `bytesMax` nothing is kept, only counted.
 */
export class BodyReader {
  readonly #bytesMax: number;
  #buffer = Buffer.allocUnsafe(0);
  #received = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Copies: the bytes stay the caller's. */
  take(piece: Uint8Array): void {
    const before = this.#received;
    this.#received += piece.byteLength;
    if (this.isTooLarge) {
      this.#buffer = Buffer.allocUnsafe(0);
      return;
    }
    if (this.#received > this.#buffer.byteLength) this.#growTo(this.#received, before);
    this.#buffer.set(piece, before);
  }

  get received(): number {
    return this.#received;
  }

  get isTooLarge(): boolean {
    return this.#received > this.#bytesMax;
  }

  /** The bytes so far. Not after it became too large. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#received);
  }

  #growTo(needed: number, used: number): void {
    const grown = Buffer.allocUnsafe(Math.min(Math.max(needed, 2 * this.#buffer.byteLength), this.#bytesMax));
    grown.set(this.#buffer.subarray(0, used));
    this.#buffer = grown;
  }
}
