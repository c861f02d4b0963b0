import { assert } from '../../shared/errors/assert.ts';
import { type DigestWords, idDigestWords } from '../../shared/model/id-digest.ts';

/**
 * A map from digests to whole numbers from 1 to 2^31 - 1, in typed arrays: about half the memory of a Map of
 * ids and a third of its time for a look-up, which allocates nothing (bench row `standings`). A Map is its
 * oracle in the tests.
 *
 * Open addressing with linear probing. A slot is five words, the digest and its value; value 0 is an empty
 * slot. A removed entry leaves no mark: the entries behind it move up. Digests are hashes already, so their
 * bits choose the place:
 *
 *     first word, 8 bits:  one of 256 shards       second word: the slot in it
 *
 * Shards grow one by one, so a table of a million grows in steps of some 0.1 ms instead of one long stop. An
 * attacker may generate ids that share a place, but a row of neighbours slows down only the look-ups at that
 * place.
 */
export class DigestTable {
  readonly #shards: (Shard | null)[] = new Array<Shard | null>(shardCount).fill(null);
  /** Initial slots of a shard. */
  readonly #firstSlots: number;
  #size = 0;
  /** Where the next sweep begins. */
  #sweepShard = 0;
  #sweepSlot = 0;

  /**
   * `expected`: entries to be added at once. Each shard starts large enough for its part: outgrown shards
   * would stay with the allocator, as many bytes again as the table.
   */
  constructor(expected = 0) {
    this.#firstSlots = slotsFor(expected / shardCount);
  }

  get size(): number {
    return this.#size;
  }

  /** The value of the digest that starts at `words[at]`; 0: absent. */
  get(words: DigestWords, at: number): number {
    const shard = this.#shards[word(words, at) & shardMask] ?? null;
    return shard === null ? 0 : word(shard.words, findSlot(shard, words, at) * slotWords + valueAt);
  }

  /** Value 0 removes it. */
  set(words: DigestWords, at: number, value: number): void {
    assert(Number.isInteger(value) && value >= 0 && value <= digestValueMax, 'a value has 31 bits');
    if (value === 0) this.#remove(words, at);
    else this.#put(words, at, value);
  }

  /**
   * Scans the next `slotCount` slots and removes each entry with a value under `below`; starts over after the
   * last slot.
   */
  sweep(slotCount: number, below: number): void {
    for (let looked = 0; looked < slotCount; looked++) {
      const shard = this.#shards[this.#sweepShard] ?? null;
      if (shard === null || this.#sweepSlot > shard.slotMask) {
        this.#sweepSlot = 0;
        this.#sweepShard++;
        if (this.#sweepShard < shardCount) continue;
        this.#sweepShard = 0;
        return;
      }
      const value = word(shard.words, this.#sweepSlot * slotWords + valueAt);
      if (value === 0 || value >= below) this.#sweepSlot++;
      // Another entry may have moved up into this slot: scan it next.
      else this.#emptySlot(shard, this.#sweepSlot);
    }
  }

  #put(words: DigestWords, at: number, value: number): void {
    const index = word(words, at) & shardMask;
    let shard = this.#shards[index] ?? null;
    if (shard === null || shard.used + 1 > (shard.slotMask + 1) * fullPart) {
      shard = shard === null ? newShard(this.#firstSlots) : grown(shard);
      this.#shards[index] = shard;
    }
    const place = findSlot(shard, words, at) * slotWords;
    if (shard.words[place + valueAt] === 0) {
      for (let i = 0; i < idDigestWords; i++) shard.words[place + i] = word(words, at + i);
      shard.used++;
      this.#size++;
    }
    shard.words[place + valueAt] = value;
  }

  #remove(words: DigestWords, at: number): void {
    const shard = this.#shards[word(words, at) & shardMask] ?? null;
    if (shard === null) return;
    const slot = findSlot(shard, words, at);
    if (word(shard.words, slot * slotWords + valueAt) !== 0) this.#emptySlot(shard, slot);
  }

  #emptySlot(shard: Shard, slot: number): void {
    emptySlot(shard, slot);
    this.#size--;
  }
}

export const digestValueMax = 2 ** 31 - 1;

interface Shard {
  /** The slots; at least a quarter is empty. */
  readonly words: Int32Array;
  /** The number of slots, a power of two, less one. */
  readonly slotMask: number;
  used: number;
}

const shardCount = 256;
const shardMask = shardCount - 1;
/** Maximum load of a shard; beyond it searches get long. */
const fullPart = 3 / 4;
const slotsMin = 4;
/** Digests spread evenly: of a million, no shard gets a tenth more than its share. */
const chance = 1.1;
const slotWords = idDigestWords + 1;
const valueAt = idDigestWords;

const word = (words: Int32Array, index: number): number => words[index] ?? 0;
const homeOf = (shard: Shard, words: Int32Array, at: number): number => word(words, at + 1) & shard.slotMask;

/** The slot of this digest, or the empty slot where it belongs. There is always an empty one. */
function findSlot(shard: Shard, words: DigestWords, at: number): number {
  const slots = shard.words;
  for (let slot = homeOf(shard, words, at); ; slot = (slot + 1) & shard.slotMask) {
    const place = slot * slotWords;
    if (slots[place + valueAt] === 0) return slot;
    // The fourth word first: neighbours share bits of the others.
    if (
      slots[place + 3] === words[at + 3] &&
      slots[place + 2] === words[at + 2] &&
      slots[place + 1] === words[at + 1] &&
      slots[place] === words[at]
    )
      return slot;
  }
}

/**
 * Moves up the entries after the slot, unless that would put them before their home, so that no search ends
 * too early.
 */
function emptySlot(shard: Shard, slot: number): void {
  const { words, slotMask } = shard;
  let hole = slot;
  for (let next = (hole + 1) & slotMask; ; next = (next + 1) & slotMask) {
    const place = next * slotWords;
    if (words[place + valueAt] === 0) break;
    const fromHome = (next - homeOf(shard, words, place)) & slotMask;
    if (fromHome < ((next - hole) & slotMask)) continue;
    words.copyWithin(hole * slotWords, place, place + slotWords);
    hole = next;
  }
  words[hole * slotWords + valueAt] = 0;
  shard.used--;
}

const newShard = (slots: number): Shard => ({
  words: new Int32Array(slots * slotWords),
  slotMask: slots - 1,
  used: 0,
});

/** Slots of a shard that holds this many entries without growing. */
function slotsFor(entries: number): number {
  let slots = slotsMin;
  while (slots * fullPart < entries * chance) slots *= 2;
  return slots;
}

/** The same entries in twice as many slots. */
function grown(shard: Shard): Shard {
  const larger = newShard((shard.slotMask + 1) * 2);
  larger.used = shard.used;
  for (let place = 0; place < shard.words.length; place += slotWords) {
    if (shard.words[place + valueAt] === 0) continue;
    const digest = shard.words as DigestWords;
    const to = findSlot(larger, digest, place) * slotWords;
    for (let i = 0; i < slotWords; i++) larger.words[to + i] = word(shard.words, place + i);
  }
  return larger;
}
