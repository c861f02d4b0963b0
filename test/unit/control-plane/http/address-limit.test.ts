import { expect, it } from 'vitest';
import { addressLimit } from '../../../../control-plane/http/address-limit.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';

function limitAt(bounds: Partial<Parameters<typeof addressLimit>[1]> = {}) {
  let nowMs = 1_000;
  const limit = addressLimit(
    { monotonic: () => nowMs as MonotonicMillis },
    { max: 3, windowMs: 60_000, addressesMax: 100, ...bounds },
  );
  return {
    take: limit.take,
    advance: (durationMs: number) => {
      nowMs += durationMs;
    },
  };
}

it('lets an address try so often in its window, and says when it may again', () => {
  const { take, advance } = limitAt();
  expect([take('192.0.2.1'), take('192.0.2.1')]).toEqual([null, null]);
  advance(20_000);
  expect(take('192.0.2.1')).toBeNull();
  expect(take('192.0.2.1')).toBe(40_000);
  advance(39_999);
  expect(take('192.0.2.1')).toBe(1);
  advance(2);
  expect(take('192.0.2.1')).toBeNull();
});

it('counts addresses apart, and an IPv6 network or a mapped IPv4 address as one', () => {
  const { take } = limitAt({ max: 1 });
  expect(take('192.0.2.1')).toBeNull();
  expect(take('192.0.2.2')).toBeNull();
  expect(take('::ffff:192.0.2.1')).not.toBeNull();
  expect(take('2001:db8:0:1::1')).toBeNull();
  expect(take('2001:db8:0:1:ffff::2')).not.toBeNull();
  expect(take('2001:db8:0:2::1')).toBeNull();
});

it('counts peers without an address together', () => {
  const { take } = limitAt({ max: 1 });
  expect(take(undefined)).toBeNull();
  expect(take('somewhere')).not.toBeNull();
});

it('keeps a bounded number of addresses, and forgets the oldest first', () => {
  const { take } = limitAt({ max: 1, addressesMax: 2 });
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) expect(take(address)).toBeNull();
  expect(take('192.0.2.3')).not.toBeNull();
  expect(take('192.0.2.1')).toBeNull();
});
