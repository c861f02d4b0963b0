import { createHash } from 'node:crypto';
import { hashes, Point } from '@noble/ed25519';

/**
 * Signatures that no honest signer makes, built from the equation S = r + k·a with a point of order 8 added
 * to key or nonce, after "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko 2020,
 * https://eprint.iacr.org/2020/1244) and the classes of https://github.com/C2SP/CCTV/tree/main/ed25519. What
 * the engines say of them is decided by which equation they check.
 */
const sha512 = (data: Uint8Array) => Uint8Array.from(createHash('sha512').update(data).digest());
hashes.sha512 = sha512;

export const order = Point.CURVE().n;
const orderEight = Point.fromHex('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a');

export const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

export const toNumber = (littleEndian: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(littleEndian).reverse().toString('hex')}`);

export const toBytes = (value: bigint): Uint8Array =>
  Uint8Array.from(Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse());

export interface EdgeCase {
  readonly publicKey: Uint8Array;
  readonly message: Uint8Array;
  readonly signature: Uint8Array;
}

/**
 * `keyTorsion` and `nonceTorsion` times the point of order 8 are added to A and R; `nonce` 0 makes R of small
 * order.
 */
export function craft(options: {
  readonly secret: bigint;
  readonly nonce: bigint;
  readonly keyTorsion: number;
  readonly nonceTorsion: number;
  readonly message: Uint8Array;
}): EdgeCase {
  const a = 1n + (options.secret % (order - 1n));
  const r = options.nonce % order;
  const publicKey = plus(Point.BASE.multiply(a), options.keyTorsion).toBytes();
  const noncePoint = plus(r === 0n ? Point.ZERO : Point.BASE.multiply(r), options.nonceTorsion).toBytes();
  const k = toNumber(sha512(Buffer.concat([noncePoint, publicKey, options.message]))) % order;
  const s = toBytes((r + k * a) % order);
  return { publicKey, message: options.message, signature: Uint8Array.from([...noncePoint, ...s]) };
}

function plus(point: Point, torsion: number): Point {
  let sum = point;
  for (let i = 0; i < torsion; i++) sum = sum.add(orderEight);
  return sum;
}

/** The encodings of the eight points of small order, and the non-canonical ones of the same points. */
export const smallOrderKeys = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000080',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
];
