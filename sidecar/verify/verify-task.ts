import type { Ed25519, Verifier } from '../../shared/crypto/ed25519.ts';
import { es256KeyBytes, es256Verifier } from '../../shared/crypto/es256.ts';
import { foreignVerifier } from '../../shared/crypto/foreign-key.ts';
import { assert } from '../../shared/errors/assert.ts';
import { type FederatedAlgorithm, federatedAlgorithms } from '../../shared/model/federation.ts';
import { verifyLimits } from './limits.ts';

/** One signature to check. */
export interface VerifyJob {
  /** ASCII; its bytes were signed. */
  readonly signedText: string;
  readonly signature: Uint8Array;
  readonly publicKey: Uint8Array;
  /**
   * Of a key of an issuer of others, which is SubjectPublicKeyInfo. Null or absent: 32 bytes of Ed25519, or
   * 65 of P-256 (shared/crypto/es256.ts); the length says which.
   */
  readonly algorithm?: FederatedAlgorithm | null;
}

const headBytes = 4 + 2 + 2 + 1;
const ownAlgorithm = 0;

/**
 * The jobs of one task in one buffer, which is transferred instead of copied. Cloned as objects, each byte
 * array would copy the whole buffer behind it.
 *
 *     | length u32 LE | of signature u16 LE | of key u16 LE | algorithm u8 | signature | key | signing input |
 */
export function packTask(jobs: readonly VerifyJob[]): Uint8Array<ArrayBuffer> {
  assert(jobs.length <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  let size = 0;
  for (const { signedText, signature, publicKey } of jobs)
    size += headBytes + signature.length + publicKey.length + signedText.length;
  const packed = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const { signedText, signature, publicKey, algorithm = null } of jobs) {
    packed.writeUInt32LE(signedText.length, at);
    packed.writeUInt16LE(signature.length, at + 4);
    packed.writeUInt16LE(publicKey.length, at + 6);
    packed[at + 8] = algorithm === null ? ownAlgorithm : 1 + federatedAlgorithms.indexOf(algorithm);
    at += headBytes;
    packed.set(signature, at);
    packed.set(publicKey, at + signature.length);
    at += signature.length + publicKey.length;
    // From the text: an intermediate byte array would be garbage.
    at += packed.write(signedText, at, 'latin1');
  }
  return packed;
}

/** Finds the verifier of a key. Null: the engine refuses the key. */
export type VerifierOf = (publicKey: Uint8Array, algorithm?: FederatedAlgorithm | null) => Verifier | null;

/**
 * Checks every job of a task. Bit `i` of the result is set if the signature of job `i` is valid. A public key
 * that the engine refuses makes only its own job invalid.
 */
export function checkTask(packed: Uint8Array, verifierOf: VerifierOf): number {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let valid = 0;
  let job = 0;
  for (let at = 0; at < packed.length; job++) {
    const signatureAt = at + headBytes;
    const keyAt = signatureAt + view.getUint16(at + 4, true);
    const inputAt = keyAt + view.getUint16(at + 6, true);
    const end = inputAt + view.getUint32(at, true);
    const algorithm = federatedAlgorithms[view.getUint8(at + 8) - 1] ?? null;
    const verify = verifierOf(packed.subarray(keyAt, inputAt), algorithm);
    if (verify?.(packed.subarray(inputAt, end), packed.subarray(signatureAt, keyAt)) === true)
      valid |= 1 << job;
    at = end;
  }
  assert(job <= verifyLimits.verifyBatchMax, 'a task holds at most one batch');
  return valid;
}

export const isValidAt = (valid: number, job: number): boolean => ((valid >>> job) & 1) === 1;

/**
 * A service has a handful of passport keys, its issuers of others some dozens, agents have one each; beyond
 * this the cache starts over.
 */
const knownKeysMax = 1_024;

/** Verifiers by key, because preparing a key costs `node:crypto` half a verification. */
export function rememberVerifiers(ed25519: Ed25519): VerifierOf {
  const known = new Map<string, Verifier | null>();
  return (publicKey, algorithm = null) => {
    const bytes = Buffer.from(publicKey.buffer, publicKey.byteOffset, publicKey.length).toString('latin1');
    const name = algorithm === null ? bytes : `${algorithm} ${bytes}`;
    const found = known.get(name);
    if (found !== undefined) return found;
    if (known.size >= knownKeysMax) known.clear();
    // A copy: the view belongs to the task's buffer.
    const made = makeVerifier(ed25519, publicKey.slice(), algorithm);
    known.set(name, made);
    return made;
  };
}

function makeVerifier(
  ed25519: Ed25519,
  publicKey: Uint8Array,
  algorithm: FederatedAlgorithm | null,
): Verifier | null {
  try {
    if (algorithm !== null) return foreignVerifier(algorithm, publicKey);
    return publicKey.length === es256KeyBytes ? es256Verifier(publicKey) : ed25519.verifier(publicKey);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
