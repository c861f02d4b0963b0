import type { IncomingHttpHeaders } from 'node:http';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes, SealError } from '../../shared/crypto/seal.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { BaseDeps } from '../base/deps.ts';
import { neighbourhoodOf, networkOf } from '../http/address-limit.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { deviceCookie, readCookie } from '../sessions/cookies.ts';
import { AttemptCounts, type CountLimit } from './attempt-counts.ts';
import type { CountedUnit } from './attempt-store.ts';
import { peopleLimits } from './limits.ts';
import type { HashLane } from './passwords.ts';

/** The origin of a login: attempts are counted by it. */
export interface LoginOrigin {
  /** Null: it names none. */
  readonly email: string | null;
  readonly address: string | undefined;
  /** The browser's id, if it has logged in before (with this address, if named); null: none. */
  readonly device: string | null;
}

/**
 * Rate limits of password tries. Strangers are counted by the address that they name, known or not, by their
 * network, and by the account of the user. A browser that has logged in before carries a cookie that proves
 * it, and has a count of its own instead: so a flood that uses up the counts of an owner's address locks
 * strangers out, but not the owner in their own browser (OWASP, "device cookies").
 */
export interface LoginAttempts {
  /** Counts an attempt. Throws `rate_limited`, and `overloaded` where too many attempts come at once. */
  begin(origin: LoginOrigin): Promise<LoginAttempt>;
}

/** An attempt that is allowed. */
export interface LoginAttempt {
  /**
   * Also counts it for the user's account, once known; null: unknown address, which takes the same work.
   * Throws as `begin`.
   */
  countFor(accountId: AccountId | null): Promise<void>;
  /** Uncounts a success or an unjudged attempt. Never rejects. */
  forgive(): Promise<void>;
}

/**
 * Runs an authentication. Only a judged failure (`login_failed`) counts; a success, and an attempt not judged
 * because of overload or outage, does not.
 */
export async function counted<T>(
  attempts: LoginAttempts,
  origin: LoginOrigin,
  work: (attempt: Pick<LoginAttempt, 'countFor'>) => Promise<T>,
): Promise<T> {
  const attempt = await attempts.begin(origin);
  let isWrong = false;
  try {
    return await work(attempt);
  } catch (error) {
    isWrong = error instanceof ApiError && error.code === 'login_failed';
    throw error;
  } finally {
    if (!isWrong) await attempt.forgive();
  }
}

/** The lane for the hashes of a login. */
export const laneOf = ({ device, address }: Pick<LoginOrigin, 'device' | 'address'>): HashLane =>
  device === null
    ? { name: 'strangers', owner: neighbourhoodOf(address) }
    : { name: 'vouched', owner: device };

export function loginAttempts(deps: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): LoginAttempts {
  const counts = new AttemptCounts(deps);
  return {
    begin: async ({ email, address, device }) => {
      const lane = device === null ? 'anybody' : 'known';
      const units: CountedUnit[] = [];
      const take = async (...limits: readonly CountLimit[]) => {
        const counted = await counts.take(limits, lane);
        if (!counted.isAllowed) throw tooMany(counted.waitMs);
        units.push(...counted.units);
      };
      const network = count('network', networkOf(address), peopleLimits.attemptsPerNetworkMax);
      if (device !== null) await take(count('device', device, peopleLimits.attemptsPerDeviceMax));
      else if (email === null) await take(network);
      else await take(network, count('email', email, peopleLimits.attemptsPerEmailMax));
      return {
        countFor: async (accountId) => {
          if (device !== null) return;
          const of = accountId ?? `of nobody ${email}`;
          await take(count('account', of, peopleLimits.attemptsPerAccountMax));
        },
        forgive: () => counts.giveBack(units.splice(0)),
      };
    },
  };
}

const count = (kind: string, of: string, max: number): CountLimit => ({
  key: sha256Hex(`${kind} ${of}`),
  max,
});

const tooMany = (waitMs: number): ApiError =>
  new ApiError('rate_limited', {
    message: 'Too many logins were tried. Wait as long as Retry-After says.',
    retryAfterS: Math.ceil(waitMs / secondMs),
  });

type SealDeps = Pick<BaseDeps, 'sealer' | 'random'>;

const deviceSeal = ({ sealer, random }: SealDeps) =>
  textSeal(sealer, 'people/device', () => random.bytes(nonceBytes));

/** The id of a browser that has logged in with this address before; null: none, or no valid cookie. */
export function readDevice(deps: SealDeps, headers: IncomingHttpHeaders, email: string): string | null {
  const known = openDevice(deps, headers);
  return known?.emailHash === sha256Hex(email) ? known.device : null;
}

/** Where a login that names no address comes from. */
export const unnamedOrigin = (
  deps: SealDeps,
  { headers, ip }: { readonly headers: IncomingHttpHeaders; readonly ip: string },
): LoginOrigin => ({ email: null, address: ip, device: openDevice(deps, headers)?.device ?? null });

function openDevice(
  deps: SealDeps,
  headers: IncomingHttpHeaders,
): { readonly emailHash: string; readonly device: string } | null {
  const sealed = readCookie(headers, deviceCookie);
  if (sealed === null) return null;
  try {
    const [emailHash, device] = deviceSeal(deps).open(sealed).split(' ');
    return emailHash !== undefined && device !== undefined ? { emailHash, device } : null;
  } catch (error) {
    if (error instanceof SealError) return null;
    throw error;
  }
}

/** A new cookie value that identifies this browser. */
export const newDevice = (deps: SealDeps, email: string): string =>
  deviceSeal(deps).seal(`${sha256Hex(email)} ${Buffer.from(deps.random.bytes(16)).toString('hex')}`);
