import { randomFillSync } from 'node:crypto';
import { assembleId, type Id, type IdPrefix, idRandomBytes, idTime } from '../model/ids.ts';
import type { UnixMillis } from '../model/time.ts';

/** The only source of randomness. */
export interface Random {
  /** Cryptographically secure bytes in a buffer that the caller owns. */
  bytes(count: number): Uint8Array;
  newId<P extends IdPrefix>(prefix: P, nowMs: UnixMillis): Id<P>;
}

/** Ids are made from a pool: one call to the operating system serves several hundred of them. */
const poolBytes = idRandomBytes * 400;

export function systemRandom(): Random {
  const pool = new Uint8Array(poolBytes);
  let used = poolBytes;
  // Of the last id: most ids are made in the same millisecond as the one before.
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
