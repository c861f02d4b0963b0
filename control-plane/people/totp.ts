import { createHmac, timingSafeEqual } from 'node:crypto';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';

/** RFC 6238 as every authenticator app has it: SHA-1, six digits, steps of 30 s. */
const stepMs = 30 * secondMs;
const digits = 6;
/** Of SHA-1, as RFC 4226 §4 recommends. */
export const totpSecretBytes = 20;
/** Clocks of phones differ: the step before and the one after count too. */
const steps = [0, -1, 1];

/** The step of this code, around now; null: none. */
export function findTotpStep(secret: Uint8Array, code: string, nowMs: UnixMillis): number | null {
  const now = Math.floor(nowMs / stepMs);
  const given = Buffer.from(code);
  const isCodeOf = (step: number): boolean => {
    const expected = Buffer.from(totpCode(secret, step));
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
  return steps.map((each) => now + each).find(isCodeOf) ?? null;
}

/** RFC 4226 §5.3. */
export function totpCode(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = mac.readUInt8(mac.length - 1) & 15;
  const number = mac.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** What an authenticator app reads as a QR code. */
export function totpUri(secret: Uint8Array, email: string): string {
  const label = `agent-trust:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=agent-trust`;
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648 §6 without padding. */
export function base32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const groups = bits.match(/.{1,5}/g) ?? [];
  return groups.map((group) => alphabet.charAt(Number.parseInt(group.padEnd(5, '0'), 2))).join('');
}
