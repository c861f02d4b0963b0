import { type BinaryLike, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { assert } from '../../shared/errors/assert.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { LeastServed } from './least-served.ts';
import { peopleLimits } from './limits.ts';

/**
 * The queue of a hash. People who were let in before, by a login in this browser or an invitation, and
 * strangers have a lane each, so that no number of strangers holds up the others. Within a lane each owner
 * has a fair share.
 */
export interface HashLane {
  readonly name: 'vouched' | 'strangers';
  /** A browser, an invitation, or a neighbourhood of addresses. */
  readonly owner: string;
}

/** Passwords as they are kept: `scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`, base64url. */
export interface Passwords {
  hash(password: string, lane: HashLane): Promise<string>;
  /**
   * Whether the password matches each of these hashes, in order; null: no such user, which takes as long. All
   * of them in one run. Throws `overloaded` if too many wait; none was computed then.
   */
  areRight(password: string, hashes: readonly (string | null)[], lane: HashLane): Promise<readonly boolean[]>;
}

/** One of the equal choices of the OWASP Password Storage Cheat Sheet: 16 MB, 0.2 s on a slow core. */
export const passwordCost = { logN: 14, r: 8, p: 5 };
const saltBytes = 16;
const hashBytes = 32;

/**
 * scrypt on the threads of libuv, off the event loop. One runs at a time per lane, so a flood of logins takes
 * half of the four threads and 32 MB. `cost`: for new hashes; stored ones have their own.
 */
export function passwordHasher({ bytes }: Pick<Random, 'bytes'>, cost: PasswordCost): Passwords {
  const lane = () =>
    new LeastServed(systemClock, {
      atOnceMax: peopleLimits.hashesPerLaneMax,
      atOncePerOwnerMax: peopleLimits.hashesPerLaneMax,
      waitingMax: peopleLimits.hashesWaitingMax,
      // Behind a proxy all strangers are one owner.
      waitingPerOwnerMax: peopleLimits.hashesWaitingMax,
      ownersMax: peopleLimits.hashOwnersMax,
      runsCountedMax: peopleLimits.runsCountedMax,
      rememberedMs: peopleLimits.attemptWindowMs,
    });
  const lanes: Readonly<Record<HashLane['name'], LeastServed>> = { vouched: lane(), strangers: lane() };
  /** Of no password: what a login with an unknown address is compared with. */
  const nobodys = render(cost, bytes(saltBytes), bytes(hashBytes));
  return {
    hash: (password, { name, owner }) =>
      lanes[name].run(owner, async () => {
        const salt = bytes(saltBytes);
        return render(cost, salt, await derive(password, salt, cost));
      }),
    areRight: async (password, hashes, { name, owner }) => {
      const right = await lanes[name].run(owner, async () => {
        const each: boolean[] = [];
        for (const hash of hashes) each.push((await isSame(password, hash ?? nobodys)) && hash !== null);
        return each;
      });
      if (right.includes(true)) lanes[name].forgive(owner);
      return right;
    },
  };
}

async function isSame(password: string, hash: string): Promise<boolean> {
  const kept = parse(hash);
  return timingSafeEqual(await derive(password, kept.salt, kept.cost), kept.hash);
}

export type PasswordCost = typeof passwordCost;

const render = ({ logN, r, p }: PasswordCost, salt: Uint8Array, hash: Uint8Array): string =>
  ['scrypt', logN, r, p, base64url(salt), base64url(hash)].join('$');

const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

function parse(text: string): {
  readonly cost: PasswordCost;
  readonly salt: Uint8Array;
  readonly hash: Uint8Array;
} {
  const [name, logN, r, p, salt = '', hash = ''] = text.split('$');
  assert(name === 'scrypt', 'a password was hashed by scrypt');
  return {
    cost: { logN: Number(logN), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, 'base64url'),
    hash: Buffer.from(hash, 'base64url'),
  };
}

function derive(password: string, salt: BinaryLike, { logN, r, p }: PasswordCost): Promise<Buffer> {
  const N = 2 ** logN;
  const options: ScryptOptions = { N, r, p, maxmem: 256 * N * r };
  return new Promise((resolve, reject) => {
    // NFKC, as RFC 8265 asks for: the same password typed on two keyboards is the same.
    scrypt(password.normalize('NFKC'), salt, hashBytes, options, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
