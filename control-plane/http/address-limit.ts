import ipaddr from 'ipaddr.js';
import type { Clock } from '../../shared/runtime/clock.ts';
import { attemptLimit } from './attempt-limit.ts';

/** Rate limit for work that needs no key. */
export interface AddressLimit {
  /**
   * Counts one attempt of the peer with this IP address. Returns null within the limit, else the milliseconds
   * until the address may try again; a refused attempt does not extend that time.
   */
  take(address: string | undefined): number | null;
}

/**
 * At most `max` attempts of one address in `windowMs`, as `attemptLimit` counts them. The address is that of
 * the socket, because any caller can write forwarded headers; behind a proxy all clients share one limit, so
 * use it only for work that a cache spares regular clients. An IPv6 host owns a whole /64 and counts as that;
 * a peer without an address (already gone) counts like all others without one.
 *
 * Remembers `addressesMax` addresses. Beyond that the oldest are evicted and may try again early, so the
 * total work needs a second bound.
 */
export function addressLimit(
  clock: Pick<Clock, 'monotonic'>,
  {
    max,
    windowMs,
    addressesMax,
  }: { readonly max: number; readonly windowMs: number; readonly addressesMax: number },
): AddressLimit {
  const attempts = attemptLimit(clock, { max, windowMs, keysMax: addressesMax });
  return { take: (address) => attempts.take(networkOf(address)) };
}

/** The IPv4 address, or the /64 of the IPv6 address. */
export function networkOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return 'unknown';
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}

/**
 * A network that one party often owns whole: the /24 of an IPv4 address, the /48 of an IPv6 address. For fair
 * shares of work, where a neighbour only waits longer; `networkOf` is for rate limits, which refuse.
 */
export function neighbourhoodOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return 'unknown';
  const parsed = ipaddr.process(address);
  return parsed
    .toByteArray()
    .slice(0, parsed.kind() === 'ipv4' ? 3 : 6)
    .join('.');
}
