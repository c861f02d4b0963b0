import { setImmediate as nextTurn } from 'node:timers/promises';
import type {
  EnvelopeFault,
  EnvelopeKey,
  EnvelopeSignature,
  UnsignedRecord,
} from '../../shared/attestation/envelope.ts';
import type { RecordSigning } from '../../shared/attestation/export.ts';
import { signatureMessage } from '../../shared/attestation/record.ts';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import type { ProvenMessage } from '../signing/sign-proven.ts';
import type { SigningKey, SigningKeys } from '../signing/signing-keys.ts';
import { attestationsLimits } from './limits.ts';

/**
 * Signs the envelopes of one export.
 *
 * Contract: signs for a record only where its signature verifies, and the key of that is not compromised:
 * whoever can write to the database must not get a signature of the service for it.
 */
interface EnvelopeSigner extends EnvelopeKey {
  signRecords(asked: readonly UnsignedRecord[]): Promise<readonly EnvelopeSignature[]>;
}

/** `key`: the attestation key that signs now. */
export function envelopeSigner(signingKeys: SigningKeys, key: SigningKey): EnvelopeSigner {
  let keys = attestationKeys(signingKeys);
  let isReloaded = false;
  return {
    keyId: key.kid,
    sign: (text) => key.signer.sign(Buffer.from(text, 'utf8')),
    signRecords: async (asked) => {
      if (!isReloaded && asked.some(({ attestation }) => !keys.has(attestation.signingKeyId))) {
        // Another replica may have put a key into use.
        isReloaded = true;
        await signingKeys.reload();
        keys = attestationKeys(signingKeys);
      }
      const judged = asked.map(({ attestation, text }) => {
        const proof = proofOf(attestation, keys.get(attestation.signingKeyId));
        return typeof proof === 'string' ? proof : { message: text, proof };
      });
      const signatures = (await key.signProven(judged.filter((each) => typeof each !== 'string'))).values();
      return judged.map((each) =>
        typeof each === 'string' ? each : (signatures.next().value ?? 'record_invalid'),
      );
    },
  };
}

/**
 * Envelopes of the records that wait for one, in pieces of at most `exportSignedAtOnceMax`. After each piece
 * the event loop has a turn.
 */
export async function* signedEnvelopes(
  { take, write }: RecordSigning,
  { signRecords }: Pick<EnvelopeSigner, 'signRecords'>,
): AsyncGenerator<string> {
  for (;;) {
    const asked = take(attestationsLimits.exportSignedAtOnceMax);
    if (asked.length === 0) return;
    yield write(await signRecords(asked));
    await nextTurn();
  }
}

const attestationKeys = (signingKeys: SigningKeys): ReadonlyMap<string, VerificationKey> =>
  new Map(
    signingKeys.all().flatMap((each) => (each.purpose === 'attestation' ? [[each.kid, each] as const] : [])),
  );

/** By which the record is the service's own. Its hash was computed from what it says when it was read. */
function proofOf(
  attestation: Attestation,
  key: VerificationKey | undefined,
): ProvenMessage['proof'] | EnvelopeFault {
  if (key === undefined) return 'key_unknown';
  if (key.compromised) return 'key_compromised';
  const signature = decodeBase64url(attestation.signature);
  if (signature === null) return 'record_invalid';
  return { publicKey: key.publicKey, message: signatureMessage(attestation.hash), signature };
}
