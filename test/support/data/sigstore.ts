import { bundleFromJSON } from '@sigstore/bundle';
import { toSignedEntity, toTrustMaterial, Verifier } from '@sigstore/verify';

/**
 * What the verifier of Sigstore says of a DSSE envelope, as npm and others use it: null, or its fault. It
 * knows our public key, and demands neither a transparency log nor a certificate.
 */
export function sigstoreFault(
  envelope: unknown,
  jwks: { readonly keys: readonly JwkOfKey[] },
): string | null {
  const hint = (envelope as { signatures: { keyid: string }[] }).signatures[0]?.keyid ?? '';
  const nothing = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
  const keys = Object.fromEntries(
    jwks.keys
      .filter(({ purpose }) => purpose === 'attestation')
      .map(({ kid, x }) => [kid, { rawBytes: spkiOf(x), keyDetails: 'PKIX_ED25519' }]),
  );
  try {
    const bundle = bundleFromJSON({
      mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
      verificationMaterial: { publicKey: { hint } },
      dsseEnvelope: envelope,
    });
    const trust = toTrustMaterial({ mediaType: '', ...nothing } as never, keys as never);
    new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, tsaThreshold: 0 }).verify(
      toSignedEntity(bundle),
    );
    return null;
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

interface JwkOfKey {
  readonly kid: string;
  readonly x: string;
  readonly purpose: string;
}

/** RFC 8410 §4: the SubjectPublicKeyInfo of an Ed25519 key. */
const spkiOf = (x: string): Buffer =>
  Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(x, 'base64url')]);
