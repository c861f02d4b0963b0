import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { idRandomBytes, isId, makeId } from '../../../shared/model/ids.ts';
import { latestUnixMs, type UnixMillis } from '../../../shared/model/time.ts';

const moments = fc.integer({ min: 0, max: latestUnixMs }).map((value) => value as UnixMillis);
const chances = fc.uint8Array({ minLength: idRandomBytes, maxLength: idRandomBytes });

describe('ids', () => {
  it('are a prefix and 26 characters, and are recognised', () => {
    fc.assert(
      fc.property(moments, chances, (nowMs, random) => {
        const id = makeId('gate', nowMs, random);
        expect(id).toMatch(/^gate_[0-9a-hjkmnp-tv-z]{26}$/);
        expect(isId('gate', id)).toBe(true);
        expect(isId('pass', id)).toBe(false);
      }),
    );
  });

  it('are the number of their bits in base 32', () => {
    const base32 = (number: bigint, length: number): string =>
      Array.from(number.toString(32).padStart(length, '0'), (digit) =>
        '0123456789abcdefghjkmnpqrstvwxyz'.charAt(Number.parseInt(digit, 32)),
      ).join('');
    fc.assert(
      fc.property(moments, chances, (nowMs, random) => {
        const chance = BigInt(`0x${Buffer.from(random).toString('hex')}`);
        expect(makeId('att', nowMs, random)).toBe(`att_${base32(BigInt(nowMs), 10)}${base32(chance, 16)}`);
      }),
    );
  });

  it.each([
    ...['', 'gate_', 'gate_zzzzzzzzzzzzzzzzzzzzzzzzzz', 'gate-00000000000000000000000000'],
    ...['gate_0000000000000000000000000', 'gate_0000000000000000000000000I'],
    7,
    null,
  ])('refuses %j', (value) => {
    expect(isId('gate', value)).toBe(false);
  });
});
