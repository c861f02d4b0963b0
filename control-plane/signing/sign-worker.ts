import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import type { Signer } from '../../shared/crypto/ed25519.ts';
import { type ProvenMessage, signProven as signEach } from './sign-proven.ts';

/** Messages of one length, one after the other, of ASCII characters. */
export interface SignTask {
  /** 32 bytes. */
  readonly seed: Uint8Array;
  readonly text: string;
  readonly length: number;
}

export interface SignProvenTask {
  /** 32 bytes. */
  readonly seed: Uint8Array;
  readonly asked: readonly ProvenMessage[];
}

const signatureBytes = 64;
const ed25519 = chooseEd25519();

/** The signer of the last task: one key signs for months. */
let last: { readonly seed: Buffer; readonly signer: Signer } | null = null;

/** Called by the pool. The signatures, in the order of the messages. */
export function sign({ seed, text, length }: SignTask): Uint8Array {
  const signer = signerOf(seed);
  const messages = Buffer.from(text, 'latin1');
  const signatures = new Uint8Array((messages.length / length) * signatureBytes);
  for (let at = 0, to = 0; at < messages.length; at += length, to += signatureBytes) {
    signatures.set(signer.sign(messages.subarray(at, at + length)), to);
  }
  return signatures;
}

/** Called by the pool. */
export const signProven = ({ seed, asked }: SignProvenTask): (Uint8Array | null)[] =>
  signEach(ed25519, signerOf(seed), asked);

function signerOf(seed: Uint8Array): Signer {
  if (last === null || !last.seed.equals(seed)) {
    last = { seed: Buffer.from(seed), signer: ed25519.signer(seed) };
  }
  return last.signer;
}
