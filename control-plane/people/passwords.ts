import { type BinaryLike, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { assert } from '../../shared/errors/assert.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { fairShare } from '../storage/fair-share.ts';
import { peopleLimits } from './limits.ts';

/** Who waits for a hash: a browser that has logged in here before, or anybody. */
export type HashLane = 'known' | 'anybody';

/** Passwords as they are kept: `scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`, base64url. */
export interface Passwords {
  hash(password: string, lane: HashLane): Promise<string>;
  /**
   * Whether the password is the one of the hash; null: there is no such user, which takes as long to say.
   * Throws `overloaded` where too many wait already.
   */
  isRight(password: string, hash: string | null, lane: HashLane): Promise<boolean>;
}

/** One of the equal choices of the OWASP Password Storage Cheat Sheet: 16 MB, 0.2 s on a slow core. */
export const passwordCost = { logN: 14, r: 8, p: 5 };
const saltBytes = 16;
const hashBytes = 32;

/**
 * scrypt on the threads of libuv, off the event loop. At most `peopleLimits.hashesAtOnceMax` run at a time,
 * so that a flood of logins takes half of the four threads and 32 MB. `cost`: of new hashes; those that are
 * kept say their own.
 */
export function passwordHasher({ bytes }: Pick<Random, 'bytes'>, cost: PasswordCost): Passwords {
  const turns = fairShare<HashLane>({
    atOnceMax: peopleLimits.hashesAtOnceMax,
    perOwnerMax: peopleLimits.hashesPerLaneMax,
    waitingPerOwnerMax: peopleLimits.hashesWaitingMax,
  });
  /** Of no password: what a login with an unknown address is compared with. */
  const nobodys = render(cost, bytes(saltBytes), bytes(hashBytes));
  return {
    hash: (password, lane) =>
      turns(lane, async () => {
        const salt = bytes(saltBytes);
        return render(cost, salt, await derive(password, salt, cost));
      }),
    isRight: (password, hash, lane) =>
      turns(lane, async () => {
        const kept = parse(hash ?? nobodys);
        const isSame = timingSafeEqual(await derive(password, kept.salt, kept.cost), kept.hash);
        return isSame && hash !== null;
      }),
  };
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
