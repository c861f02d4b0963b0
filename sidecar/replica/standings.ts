import type { PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';

type Standing = 'active' | 'suspended' | 'revoked';

/**
 * The passports that are not simply active, by id. Looked at for every decision, held for perhaps a million passports, and all
 * of it is behind this interface, so that a denser form may take its place.
 */
export interface Standings {
  get(passportId: PassportId): Standing;
  /** `expiresAtMs`: when the passport expires; an hour later (`limits.standingKeptMs`) nobody needs to know any more. Null: never. */
  set(passportId: PassportId, standing: Standing, expiresAtMs: UnixMillis | null): void;
  readonly size: number;
  /** Looks at the next `count` entries and forgets those that nobody needs any more; the call after the last begins anew. */
  sweep(nowMs: UnixMillis, count: number): void;
}

/** `never`: in the place of a time that does not come. */
const never = Number.POSITIVE_INFINITY;

export function makeStandings(): Standings {
  // Two maps of plain numbers instead of one of objects: an entry costs no allocation of its own.
  const revoked = new Map<PassportId, number>();
  const suspended = new Map<PassportId, number>();
  let position = walk();

  function* walk(): Generator<readonly [Map<PassportId, number>, PassportId, number]> {
    for (const entries of [revoked, suspended]) {
      for (const [passportId, expiresAtMs] of entries) yield [entries, passportId, expiresAtMs];
    }
  }

  return {
    get: (passportId) => {
      if (revoked.has(passportId)) return 'revoked';
      return suspended.has(passportId) ? 'suspended' : 'active';
    },
    set: (passportId, standing, expiresAtMs) => {
      revoked.delete(passportId);
      suspended.delete(passportId);
      if (standing === 'revoked') revoked.set(passportId, expiresAtMs ?? never);
      if (standing === 'suspended') suspended.set(passportId, expiresAtMs ?? never);
    },
    get size() {
      return revoked.size + suspended.size;
    },
    sweep: (nowMs, count) => {
      for (let i = 0; i < count; i++) {
        const next = position.next();
        if (next.done) {
          position = walk();
          return;
        }
        const [entries, passportId, expiresAtMs] = next.value;
        if (expiresAtMs + limits.standingKeptMs <= nowMs) entries.delete(passportId);
      }
    },
  };
}
