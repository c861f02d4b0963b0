import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32c } from '../../../sidecar/attest/crc32c.ts';

/**
 * RFC 3720 (iSCSI) appendix B.4, and the check value of the catalogue of parametrised CRC algorithms
 * (CRC-32/ISCSI).
 */
const vectors: readonly (readonly [what: string, bytes: Uint8Array, crc: number])[] = [
  ['32 bytes of zeroes', new Uint8Array(32), 0x8a9136aa],
  ['32 bytes of ones', new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ['32 bytes that rise', Uint8Array.from({ length: 32 }, (_, i) => i), 0x46dd794e],
  ['32 bytes that fall', Uint8Array.from({ length: 32 }, (_, i) => 31 - i), 0x113fdb5c],
  [
    'an iSCSI read command',
    Buffer.from(
      '01c00000000000000000000000000000140000000000040000000014000000182800000000000000' + '0200000000000000',
      'hex',
    ),
    0xd9963a56,
  ],
  ['the digits 1 to 9', Buffer.from('123456789'), 0xe3069283],
  ['nothing', new Uint8Array(0), 0],
];

/** One bit at a time, straight from the definition. */
function slowCrc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

describe('crc32c', () => {
  it.each(vectors)('gives the published value of %s', (_, bytes, crc) => {
    expect(crc32c(bytes, 0, bytes.length)).toBe(crc);
  });

  it('agrees with the definition for any bytes, from any place to any place', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(100), fc.nat(100), (bytes, a, b) => {
        const start = Math.min(a, b, bytes.length);
        const end = Math.min(Math.max(a, b), bytes.length);
        expect(crc32c(bytes, start, end)).toBe(slowCrc32c(bytes.subarray(start, end)));
      }),
    );
  });
});
