import { randomFillSync } from 'node:crypto';
import { assembleId, type Id, type IdPrefix, idRandomBytes, idTime } from '../model/ids.ts';
import type { UnixMillis } from '../model/time.ts';

/** The only source of randomness. */
export interface Random {
  /** Cryptographically secure bytes in a buffer that the caller owns. */
  bytes(count: number): Uint8Array;
  newId<P extends IdPrefix>(prefix: P, nowMs: UnixMillis): Id<P>;
}

/** Pool for ids: one call to the operating system serves several hundred. */
const poolBytes = idRandomBytes * 400;

export function systemRandom(): Random {
  const pool = new Uint8Array(poolBytes);
  let used = poolBytes;
  // Cached from the last id: most ids share its millisecond.
  let timeMs: UnixMillis | null = null;
  let time = '';
  return {
    bytes: (count) => randomFillSync(new Uint8Array(count)),
    newId: (prefix, nowMs) => {
      if (used + idRandomBytes > poolBytes) {
        randomFillSync(pool);
        used = 0;
      }
      if (nowMs !== timeMs) {
        timeMs = nowMs;
        time = idTime(nowMs);
      }
      const id = assembleId(prefix, time, pool, used);
      used += idRandomBytes;
      return id;
    },
  };
}
