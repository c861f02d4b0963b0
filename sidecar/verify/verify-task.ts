import type { Ed25519, Verifier } from '../../shared/crypto/ed25519.ts';
import { es256KeyBytes, es256Verifier } from '../../shared/crypto/es256.ts';
import { assert } from '../../shared/errors/assert.ts';
import { verifyLimits } from './limits.ts';

/** One signature to check. */
export interface VerifyJob {
  /** ASCII; its bytes were signed. */
  readonly signedText: string;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  /** 32 bytes of Ed25519, or 65 of P-256 (shared/crypto/es256.ts): the length says which. */
  readonly publicKey: Uint8Array;
}

const signatureBytes = 64;
const lengthBytes = 4;
const keyLengthBytes = 1;
const fixedBytes = lengthBytes + signatureBytes + keyLengthBytes;

/**
 * The jobs of one task in one buffer, which is transferred instead of copied. Cloned as objects, each byte
 * array would copy the whole buffer behind it.
 *
 *     | length u32 LE | signature 64 | key length u8 | public key | signing input ... |   repeated
 */
export function packTask(jobs: readonly VerifyJob[]): Uint8Array<ArrayBuffer> {
  assert(jobs.length <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  let size = 0;
  for (const { publicKey, signedText } of jobs) size += fixedBytes + publicKey.length + signedText.length;
  const packed = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const { signedText, signature, publicKey } of jobs) {
    assert(signature.length === signatureBytes, 'a signature has 64 bytes');
    packed.writeUInt32LE(signedText.length, at);
    packed.set(signature, at + lengthBytes);
    packed.writeUInt8(publicKey.length, at + lengthBytes + signatureBytes);
    packed.set(publicKey, at + fixedBytes);
    at += fixedBytes + publicKey.length;
    // From the text: an intermediate byte array would be garbage.
    packed.write(signedText, at, 'latin1');
    at += signedText.length;
  }
  return packed;
}

/**
 * Checks every job of a task. Bit `i` of the result is set if the signature of job `i` is valid. A public key
 * that the engine refuses makes only its own job invalid.
 */
export function checkTask(
  packed: Uint8Array,
  verifierOf: (publicKey: Uint8Array) => Verifier | null,
): number {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let valid = 0;
  let job = 0;
  for (let at = 0; at < packed.length; job++) {
    const length = view.getUint32(at, true);
    const signature = packed.subarray(at + lengthBytes, at + lengthBytes + signatureBytes);
    const keyEnd = at + fixedBytes + view.getUint8(at + lengthBytes + signatureBytes);
    const publicKey = packed.subarray(at + fixedBytes, keyEnd);
    const signingInput = packed.subarray(keyEnd, keyEnd + length);
    if (verifierOf(publicKey)?.(signingInput, signature) === true) valid |= 1 << job;
    at = keyEnd + length;
  }
  assert(job <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  return valid;
}

export const isValidAt = (valid: number, job: number): boolean => ((valid >>> job) & 1) === 1;

/** A service has a handful of passport keys, agents have one each; beyond this the cache starts over. */
const knownKeysMax = 1_024;

/** Verifiers by key, because preparing a key costs `node:crypto` half a verification. */
export function rememberVerifiers(ed25519: Ed25519): (publicKey: Uint8Array) => Verifier | null {
  const known = new Map<string, Verifier | null>();
  return (publicKey) => {
    const name = Buffer.from(publicKey.buffer, publicKey.byteOffset, publicKey.length).toString('latin1');
    const found = known.get(name);
    if (found !== undefined) return found;
    if (known.size >= knownKeysMax) known.clear();
    // A copy: the view belongs to the task's buffer.
    const made = makeVerifier(ed25519, publicKey.slice());
    known.set(name, made);
    return made;
  };
}

function makeVerifier(ed25519: Ed25519, publicKey: Uint8Array): Verifier | null {
  try {
    return publicKey.length === es256KeyBytes ? es256Verifier(publicKey) : ed25519.verifier(publicKey);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
