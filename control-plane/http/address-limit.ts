import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../shared/runtime/clock.ts';

/** How often strangers may do something that costs us work and needs no key. */
export interface AddressLimit {
  /**
   * Counts one attempt of the peer with this IP address. Returns null where the attempt is within the limit,
   * otherwise the milliseconds until the address may try again; a refused attempt does not extend that time.
   */
  take(address: string | undefined): number | null;
}

/**
 * At most `max` attempts of one address in `windowMs`, counted from its first attempt. Counts are kept in
 * this process: N replicas allow N times as many. The address is that of the socket, because any caller can
 * write forwarded headers; behind a proxy all clients share one limit, so use it only for work that a cache
 * spares regular clients. An IPv6 host owns a whole /64 and counts as that; a peer without an address
 * (already gone) counts like all others without one.
 *
 * Remembers `addressesMax` addresses. With more than that the oldest are forgotten and may try again early,
 * so a second bound on the work as a whole has to exist beside this one.
 */
export function addressLimit(
  clock: Pick<Clock, 'monotonic'>,
  {
    max,
    windowMs,
    addressesMax,
  }: { readonly max: number; readonly windowMs: number; readonly addressesMax: number },
): AddressLimit {
  const counts = new LRUCache<string, number>({
    max: addressesMax,
    ttl: windowMs,
    noUpdateTTL: true,
    // Read the clock at every look: the default reads it once a millisecond by means of a timer.
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  return {
    take: (address) => {
      const peer = networkOf(address);
      const count = counts.get(peer) ?? 0;
      if (count >= max) return Math.max(1, Math.ceil(counts.getRemainingTTL(peer)));
      counts.set(peer, count + 1);
      return null;
    },
  };
}

/** The IPv4 address, or the /64 of the IPv6 address. */
function networkOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return 'unknown';
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}
