/** Chance that repeats: the same seed gives the same numbers. Not for secrets. */
export interface Chance {
  /** From 0, below 1. */
  fraction(): number;
  /** A whole number from 0, below `count`. */
  below(count: number): number;
  /** True so often. */
  happens(probability: number): boolean;
  /** One of them; there must be one. */
  pick<T>(from: readonly T[]): T;
  /** Another source, which does not depend on how often this one is asked. */
  branch(name: string): Chance;
}

/** Mulberry32: 32 bits of state, good enough to choose among faults. */
export function chance(seed: number): Chance {
  let state = seed >>> 0;
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count: number): number => Math.floor(fraction() * count);
  return {
    fraction,
    below,
    happens: (probability) => fraction() < probability,
    pick: (from) => {
      const picked = from[below(from.length)];
      if (picked === undefined) throw new Error('there is nothing to pick from');
      return picked;
    },
    branch: (name) => chance(hashOf(`${seed} ${name}`)),
  };
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return hash >>> 0;
}
