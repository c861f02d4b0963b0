import { must } from '../errors/assert.ts';
import type { Ed25519 } from './ed25519.ts';
import { nobleEd25519 } from './ed25519-noble.ts';
import { nodeEd25519 } from './ed25519-node.ts';
import { sodiumEd25519 } from './ed25519-sodium.ts';

/**
 * The fastest engine that works here. sodium-native verifies in 0.4 of the time of node:crypto but is a
 * native addon, which may be missing for this platform; node:crypto may be an OpenSSL without Ed25519; noble
 * is plain JavaScript and always works.
 */
export const chooseEd25519 = (): Ed25519 =>
  must(
    firstWorking([sodiumEd25519, nodeEd25519, nobleEd25519]),
    'one of the Ed25519 engines reproduces the test vector of RFC 8032',
  );

/** The engine of the first maker that neither throws nor signs wrongly. Exported for its test. */
export function firstWorking(makers: readonly (() => Ed25519)[]): Ed25519 | null {
  for (const make of makers) {
    try {
      const engine = make();
      if (reproducesTestVector(engine)) return engine;
    } catch {
      // The library cannot be loaded or lacks the algorithm: try the next. The result's name shows the
      // choice.
    }
  }
  return null;
}

/** RFC 8032 §7.1, TEST 2. */
function reproducesTestVector(engine: Ed25519): boolean {
  const signer = engine.signer(
    Buffer.from('4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb', 'hex'),
  );
  const message = Uint8Array.of(0x72);
  const signature = Buffer.from(
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da' +
      '085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
    'hex',
  );
  return signature.equals(signer.sign(message)) && engine.verifier(signer.publicKey)(message, signature);
}
