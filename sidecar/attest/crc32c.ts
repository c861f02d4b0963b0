/**
 * CRC-32C (Castagnoli): reflected polynomial 0x82f63b78, initial value and final xor 0xffffffff, as in RFC
 * 3720 B.4. It guards the frames of spools that builds until 2026-11-22 have written; later ones have the
 * CRC-32 of zlib, which is native.
 */
export function crc32c(bytes: Uint8Array, start: number, end: number): number {
  let crc = -1;
  for (let i = start; i < end; i++) crc = (crc >>> 8) ^ (table[(crc ^ (bytes[i] ?? 0)) & 0xff] ?? 0);
  return ~crc >>> 0;
}

/** Entry b: the checksum's change by byte b. */
const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});
