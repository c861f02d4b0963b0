import type { Ed25519, Verifier } from '../../shared/crypto/ed25519.ts';
import { assert } from '../../shared/errors/assert.ts';
import { verifyLimits } from './limits.ts';

/** One signature to check. */
export interface VerifyJob {
  /** ASCII; its bytes were signed. */
  readonly signedText: string;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
}

const signatureBytes = 64;
const publicKeyBytes = 32;
const lengthBytes = 4;
const headBytes = lengthBytes + signatureBytes + publicKeyBytes;

/**
 * The jobs of one task in one buffer, which is transferred instead of copied. Cloned as objects, each byte
 * array would copy the whole buffer behind it.
 *
 *     | length u32 LE | signature 64 | public key 32 | signing input ... |   repeated
 */
export function packTask(jobs: readonly VerifyJob[]): Uint8Array<ArrayBuffer> {
  assert(jobs.length <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  let size = 0;
  for (const job of jobs) size += headBytes + job.signedText.length;
  const packed = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const { signedText, signature, publicKey } of jobs) {
    assert(signature.length === signatureBytes, 'a signature has 64 bytes');
    assert(publicKey.length === publicKeyBytes, 'a public key has 32 bytes');
    packed.writeUInt32LE(signedText.length, at);
    packed.set(signature, at + lengthBytes);
    packed.set(publicKey, at + lengthBytes + signatureBytes);
    // From the text: an intermediate byte array would be garbage.
    packed.write(signedText, at + headBytes, 'latin1');
    at += headBytes + signedText.length;
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
    const publicKey = packed.subarray(at + lengthBytes + signatureBytes, at + headBytes);
    const signingInput = packed.subarray(at + headBytes, at + headBytes + length);
    if (verifierOf(publicKey)?.(signingInput, signature) === true) valid |= 1 << job;
    at += headBytes + length;
  }
  assert(job <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  return valid;
}

export const isValidAt = (valid: number, job: number): boolean => ((valid >>> job) & 1) === 1;

/** A service has a handful of passport keys; beyond this the cache starts over. */
const knownKeysMax = 64;

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
    return ed25519.verifier(publicKey);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
