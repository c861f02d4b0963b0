import { readFileSync } from 'node:fs';

/**
 * More than the cache of one core has, and a part of the one that all cores share. Other virtual machines on
 * the same host use that one too, and Linux has no counter of how much of it is left.
 */
const bytesMax = 8 * 1_048_576;
const shareOfCache = 1 / 4;
/** Of one line of the cache, in numbers of 4 bytes. */
const lineNumbers = 16;

/**
 * Nanoseconds. A shared cache usually answers in 10 to 70, and memory without neighbours in about 100:
 * from here on most reads went to memory.
 */
const memoryReadNs = 100;

/** Most reads miss the shared cache. */
export const lacksRoom = (readNs: number): boolean => readNs >= memoryReadNs;

export const lackOfRoom = 'there was no room in the shared cache';
/** What it means, for the notes of a table. */
export const lackOfRoomMeans =
  'That is as long as memory takes: others on this host have taken that cache, or it gives this machine little of it. What needs much memory is several times slower, each side by another factor.';

let chain: Int32Array | null = null;

/**
 * Nanoseconds of a read that only the shared cache can answer: the faster of two walks, because a walk may be
 * interrupted. Keeps the calling core busy for about 70 ms where there is no room, and for less where there
 * is.
 */
export function sharedCacheReadNs(): number {
  chain ??= newChain(Math.min(bytesMax, sharedCacheBytes() * shareOfCache));
  // Other programs have evicted it meanwhile.
  walk(chain);
  return Math.min(walkNs(chain), walkNs(chain));
}

/** As Linux says, such as `32768K`; where it does not say, large enough. */
function sharedCacheBytes(): number {
  try {
    const size = readFileSync('/sys/devices/system/cpu/cpu0/cache/index3/size', 'latin1');
    return Number.parseInt(size, 10) * 1_024;
  } catch {
    return bytesMax / shareOfCache;
  }
}

function walkNs(of: Int32Array): number {
  const beganMs = performance.now();
  walk(of);
  return ((performance.now() - beganMs) * 1e6) / (of.length / lineNumbers);
}

/** As many steps as there are lines, each to where the line before it says; returns where that ends. */
function walk(of: Int32Array): number {
  let at = 0;
  for (let lines = of.length / lineNumbers; lines > 0; lines--) at = of[at] ?? 0;
  return at;
}

/** Each line leads to another one, and all of them back to the first, in an order that no core guesses. */
function newChain(ofBytes: number): Int32Array {
  const lines = ofBytes / (Int32Array.BYTES_PER_ELEMENT * lineNumbers);
  const order = Array.from({ length: lines }, (_, line) => line);
  // The same order each time: nothing may depend on luck.
  let state = 1;
  for (let last = lines - 1; last > 0; last--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const other = Math.floor((state / 2 ** 32) * (last + 1));
    [order[last], order[other]] = [order[other] as number, order[last] as number];
  }
  const numbers = new Int32Array(lines * lineNumbers);
  order.forEach((line, place) => {
    numbers[line * lineNumbers] = (order[(place + 1) % lines] as number) * lineNumbers;
  });
  return numbers;
}
