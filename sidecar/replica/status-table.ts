import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import { type DigestWords, digestAt } from '../../shared/model/id-digest.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { DigestTable, digestValueMax } from './digest-table.ts';

/** `in_wallet`: active, and in a wallet of which its token does not know. */
type PassportStatus = 'active' | 'suspended' | 'revoked' | 'in_wallet';

/**
 * The passports that are not active, by digest of their id. Read for every decision; may hold a million
 * passports.
 *
 *     value of an entry:  the day by which the passport has expired (29 bits), revoked or only suspended (1
 *                         bit each; both: in a wallet)
 *
 * The day is in the high bits, so entries to drop are those below a number.
 */
export class StatusTable {
  readonly #table: DigestTable;

  /** `expected`: as in DigestTable. */
  constructor(expected = 0) {
    this.#table = new DigestTable(expected);
  }

  get size(): number {
    return this.#table.size;
  }

  /** The status of the passport whose digest starts at `words[at]`. */
  get(words: DigestWords, at: number): PassportStatus {
    const value = this.#table.get(words, at);
    if (value === 0) return 'active';
    return statusOf[value & (suspendedBit | revokedBit)] ?? 'revoked';
  }

  /**
   * `expiredByDay`: the first UTC day, counted from 1970, that begins with the passport expired. Null: never.
   */
  set(
    words: DigestWords,
    status: PassportStatus,
    { at, expiredByDay }: { readonly at: number; readonly expiredByDay: number | null },
  ): void {
    const day = expiredByDay ?? never;
    assert(day >= 0 && day <= never, 'a day has 29 bits');
    this.#table.set(words, at, status === 'active' ? 0 : day * dayUnit + bitsOf[status]);
  }

  /** Scans the next `slotCount` slots and drops passports expired for more than `limits.standingKeptMs`. */
  sweep(nowMs: UnixMillis, slotCount: number): void {
    const today = Math.floor((nowMs - limits.standingKeptMs) / dayMs);
    this.#table.sweep(slotCount, (today + 1) * dayUnit);
  }
}

/**
 * The status of a passport: its own, suspended while its owner is, and that of its user where he is a
 * subject of the token's issuer who is stopped (contract §4).
 */
export function statusIn(table: StatusTable, passport: VerifiedPassport): PassportStatus {
  const { digests, owner, user, source } = passport;
  const status = table.get(digests, digestAt.passport);
  if (status === 'revoked') return status;
  const ofUser = user === null || source === null ? 'active' : table.get(digests, digestAt.user);
  if (ofUser === 'revoked' || ofUser === 'suspended') return ofUser;
  if (owner === null || status === 'suspended') return status;
  return table.get(digests, digestAt.owner) === 'active' ? status : 'suspended';
}

const suspendedBit = 1;
const revokedBit = 2;
const bitsOf = {
  suspended: suspendedBit,
  revoked: revokedBit,
  in_wallet: suspendedBit | revokedBit,
} as const;
const statusOf: readonly PassportStatus[] = ['revoked', 'suspended', 'revoked', 'in_wallet'];
const dayUnit = 4;
/** The day of a passport that never expires. */
const never = Math.floor(digestValueMax / dayUnit);
