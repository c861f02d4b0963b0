import type { IncomingHttpHeaders } from 'node:http';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes, SealError } from '../../shared/crypto/seal.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { BaseDeps } from '../base/deps.ts';
import { networkOf } from '../http/address-limit.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { type AttemptLimit, attemptLimit } from '../http/attempt-limit.ts';
import { deviceCookie, readCookie } from '../sessions/cookies.ts';
import { peopleLimits } from './limits.ts';

/** What a login is counted under. */
export interface LoginOrigin {
  readonly email: string;
  readonly address: string | undefined;
  /** Of a browser that has logged in with this address before; null: none. */
  readonly device: string | null;
}

/**
 * How often passwords may be tried. Strangers are counted by the address that they name, whether or not it is
 * anybody's, by their own network, and by the account of the user. A browser that has logged in before
 * carries a cookie that proves it, and has a count of its own instead: so a flood that uses up the counts of
 * an owner's address keeps strangers out, and the owner in their own browser gets in (OWASP, "device
 * cookies").
 *
 * Counts are in the memory of this process, and end with their window.
 */
export interface LoginAttempts {
  /** Counts one attempt. Null: it is allowed; otherwise the milliseconds to wait. */
  take(origin: LoginOrigin): number | null;
  /** The same for the account of the user, once it is known. */
  takeOfAccount(origin: LoginOrigin, accountId: AccountId): number | null;
  /** The attempt was a success, or half of one: it does not count. */
  forgive(origin: LoginOrigin, accountId: AccountId): void;
  /** As `take`, for a login that names no address. */
  takeUnnamed(origin: UnnamedOrigin): number | null;
  forgiveUnnamed(origin: UnnamedOrigin): void;
}

/** Where a login comes from that names no address; `device` as somebody's, whoever they are. */
export type UnnamedOrigin = Omit<LoginOrigin, 'email'>;

export function loginAttempts(clock: Pick<Clock, 'monotonic'>): LoginAttempts {
  const { attemptWindowMs: windowMs, attemptKeysMax: keysMax } = peopleLimits;
  const limit = (max: number): AttemptLimit => attemptLimit(clock, { max, windowMs, keysMax });
  const emails = limit(peopleLimits.attemptsPerEmailMax);
  const networks = limit(peopleLimits.attemptsPerNetworkMax);
  const accounts = limit(peopleLimits.attemptsPerAccountMax);
  const devices = limit(peopleLimits.attemptsPerDeviceMax);
  const unnamed = ({ device, address }: UnnamedOrigin) =>
    device === null ? { limit: networks, key: networkOf(address) } : { limit: devices, key: device };
  const emailKey = ({ email }: LoginOrigin) => sha256Hex(email);
  return {
    take: (origin) => {
      if (origin.device !== null) return devices.take(origin.device);
      const network = networkOf(origin.address);
      const networkWaitMs = networks.take(network);
      if (networkWaitMs !== null) return networkWaitMs;
      const emailWaitMs = emails.take(emailKey(origin));
      // What one count refuses is no attempt: it must not use up the other one.
      if (emailWaitMs !== null) networks.giveBack(network);
      return emailWaitMs;
    },
    takeOfAccount: ({ device }, accountId) => (device === null ? accounts.take(accountId) : null),
    forgive: (origin, accountId) => {
      if (origin.device !== null) return devices.giveBack(origin.device);
      networks.giveBack(networkOf(origin.address));
      emails.giveBack(emailKey(origin));
      accounts.giveBack(accountId);
    },
    takeUnnamed: (origin) => {
      const { limit: count, key } = unnamed(origin);
      return count.take(key);
    },
    forgiveUnnamed: (origin) => {
      const { limit: count, key } = unnamed(origin);
      count.giveBack(key);
    },
  };
}

type SealDeps = Pick<BaseDeps, 'sealer' | 'random'>;

const deviceSeal = ({ sealer, random }: SealDeps) =>
  textSeal(sealer, 'people/device', () => random.bytes(nonceBytes));

/**
 * The name of the browser that has logged in with this address before; null: it has not, or cannot show it.
 */
export function readDevice(deps: SealDeps, headers: IncomingHttpHeaders, email: string): string | null {
  const known = openDevice(deps, headers);
  return known?.emailHash === sha256Hex(email) ? known.device : null;
}

/** Where a login that names no address comes from. */
export const unnamedOrigin = (
  deps: SealDeps,
  { headers, ip }: { readonly headers: IncomingHttpHeaders; readonly ip: string },
): UnnamedOrigin => ({ address: ip, device: openDevice(deps, headers)?.device ?? null });

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

/** The value of the cookie by which this browser is known from now on. */
export const newDevice = (deps: SealDeps, email: string): string =>
  deviceSeal(deps).seal(`${sha256Hex(email)} ${Buffer.from(deps.random.bytes(16)).toString('hex')}`);
