/**
 * Random numbers from a seed of 64 bits: xoshiro128**, in 32-bit integers alone, so that every version of
 * Node draws the same. Each purpose has a stream of its own, named: to leave out a fault must not change what
 * the network does to the rest.
 */
export class Chance {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: bigint, purpose: string) {
    let hash = (Number(seed & 0xffffffffn) ^ 0x9e3779b9) | 0;
    let other = (Number((seed >> 32n) & 0xffffffffn) ^ 0x85ebca6b) | 0;
    for (let i = 0; i < purpose.length; i++) {
      hash = Math.imul(hash ^ purpose.charCodeAt(i), 0x01000193);
      other = Math.imul(other ^ hash, 0x5bd1e995) + 0x1b873593;
    }
    const next = (): number => {
      hash = (hash + 0x9e3779b9) | 0;
      let mixed = Math.imul(hash ^ (hash >>> 16) ^ other, 0x21f0aaad);
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
      return mixed ^ (mixed >>> 15);
    };
    this.#a = next();
    this.#b = next();
    this.#c = next();
    this.#d = next() | 1;
  }

  /** 32 bits. */
  bits(): number {
    const result = Math.imul(rotated(Math.imul(this.#b, 5), 7), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotated(this.#d, 11);
    return result;
  }

  /** From 0 to below 1. */
  fraction(): number {
    return this.bits() / 2 ** 32;
  }

  /** A whole number from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  between(least: number, most: number): number {
    return least + this.fraction() * (most - least);
  }

  happens(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  bytes(count: number): Uint8Array {
    const bytes = new Uint8Array(count);
    for (let at = 0; at < count; at += 4) {
      const bits = this.bits();
      for (let i = 0; i < 4 && at + i < count; i++) bytes[at + i] = bits >>> (8 * i);
    }
    return bytes;
  }
}

const rotated = (bits: number, by: number): number => (bits << by) | (bits >>> (32 - by));
