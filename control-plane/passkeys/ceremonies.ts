/**
 * Room `control-plane/passkeys`: passkeys: WebAuthn by its library here, a user's own ones in
 * `manage-passkeys.ts`, logins in `log-in-with-passkey.ts`.
 */

import type {
  AuthenticationResponseJSON,
  AuthenticatorTransportFuture,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import type { UserId } from '../../shared/model/ids.ts';
import type { PasskeyJwk } from '../../shared/wire/evidence/answer-proof.ts';
import type { RelyingParty } from '../people/relying-party.ts';
import { passkeysLimits } from './limits.ts';

/** The public half of a passkey. */
export interface PublicCredential {
  readonly credentialId: string;
  readonly publicKey: Uint8Array;
  readonly counter: number;
  readonly transports: readonly string[];
}

/** The browser's answer proves nothing. The message holds no secret. */
export class CeremonyRefused extends Error {
  override readonly name = 'CeremonyRefused';
}

// The library takes a tenth of a second to load, and most processes never need it.
const library = () => import('@simplewebauthn/server');
const helpers = () => import('@simplewebauthn/server/helpers');

const bytesOf = (base64url: string) => Uint8Array.from(Buffer.from(base64url, 'base64url'));

/** What `navigator.credentials.create` is given: for a passkey that a login finds without a name. */
export async function registrationOptions(
  { id, origin }: RelyingParty,
  user: { readonly userId: UserId; readonly email: string; readonly name: string },
  {
    challenge,
    existing,
  }: { readonly challenge: string; readonly existing: readonly Pick<PublicCredential, 'credentialId'>[] },
): Promise<object> {
  const { generateRegistrationOptions } = await library();
  return generateRegistrationOptions({
    rpID: id,
    rpName: `agent-trust (${new URL(origin).host})`,
    userID: Uint8Array.from(Buffer.from(user.userId, 'utf8')),
    userName: user.email,
    userDisplayName: user.name,
    challenge: bytesOf(challenge),
    timeout: passkeysLimits.ceremonyMs,
    attestationType: 'none',
    excludeCredentials: existing.map(({ credentialId }) => ({ id: credentialId })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  });
}

/** The credential that a browser has made for this challenge. Throws CeremonyRefused. */
export async function verifyRegistration(
  { id, origin }: RelyingParty,
  response: object,
  challenge: string,
): Promise<PublicCredential> {
  const { verifyRegistrationResponse } = await library();
  return judged(async () => {
    // The library judges the shape too, and throws.
    const given = response as RegistrationResponseJSON;
    await refuseAttestation(given.response.attestationObject);
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: given,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: id,
      requireUserVerification: true,
    });
    if (!verified) throw new CeremonyRefused('the registration could not be verified');
    const { credential } = registrationInfo;
    const { transportsMax, transportCharsMax, credentialIdCharsMax } = passkeysLimits;
    if (credential.id.length > credentialIdCharsMax) throw new CeremonyRefused('the id is too long');
    const transports = (credential.transports ?? [])
      .filter((each) => typeof each === 'string' && each.length <= transportCharsMax)
      .slice(0, transportsMax);
    return {
      credentialId: credential.id,
      publicKey: credential.publicKey,
      counter: credential.counter,
      transports,
    };
  });
}

/**
 * No attestation was requested, so browsers send none, or one by the new key itself. For other kinds the
 * library would check a stranger's certificates, and fetch revocation lists from their addresses.
 */
async function refuseAttestation(attestationObject: string): Promise<void> {
  const { decodeAttestationObject } = await helpers();
  const decoded = decodeAttestationObject(bytesOf(attestationObject));
  const format = decoded.get('fmt');
  const isBySelf = format === 'packed' && decoded.get('attStmt').get('x5c') === undefined;
  if (format !== 'none' && !isBySelf) throw new CeremonyRefused(`an attestation of the kind ${format}`);
}

/** What `navigator.credentials.get` is given: any passkey of this service. */
export async function loginOptions({ id }: RelyingParty, challenge: string): Promise<object> {
  const { generateAuthenticationOptions } = await library();
  return generateAuthenticationOptions({
    rpID: id,
    challenge: bytesOf(challenge),
    timeout: passkeysLimits.ceremonyMs,
    userVerification: 'required',
  });
}

/** The credential id and claimed user of an unverified answer. */
export function readAssertion(
  response: object,
): { readonly credentialId: string; readonly userHandle: string | null } | null {
  const { id, response: inner } = response as Partial<AuthenticationResponseJSON>;
  if (typeof id !== 'string' || id.length > passkeysLimits.credentialIdCharsMax) return null;
  const handle = inner?.userHandle;
  return {
    credentialId: id,
    userHandle: typeof handle === 'string' ? Buffer.from(handle, 'base64url').toString('utf8') : null,
  };
}

/**
 * Verifies that this credential signed this challenge of this service, unlocked by its user. Returns the
 * authenticator's counter. Throws CeremonyRefused, also for a counter that went back, the sign of a copy.
 */
export async function verifyAssertion(
  { id, origin }: RelyingParty,
  response: object,
  { challenge, credential }: { readonly challenge: string; readonly credential: PublicCredential },
): Promise<number> {
  const { verifyAuthenticationResponse } = await library();
  return judged(async () => {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: response as AuthenticationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: id,
      credential: {
        id: credential.credentialId,
        publicKey: Uint8Array.from(credential.publicKey),
        counter: credential.counter,
        // The library passes them on and judges by none.
        transports: [...credential.transports] as AuthenticatorTransportFuture[],
      },
      requireUserVerification: true,
    });
    if (!verified) throw new CeremonyRefused('the signature is not of this passkey');
    return authenticationInfo.newCounter;
  });
}

/** A stored public key (COSE, RFC 9052) as a JWK, for those who verify without us. Throws CeremonyRefused. */
export async function publicJwkOf(publicKey: Uint8Array): Promise<PasskeyJwk> {
  const { cose, decodeCredentialPublicKey } = await helpers();
  return judged(async () => {
    const key = decodeCredentialPublicKey(Uint8Array.from(publicKey));
    const text = (name: number): string => {
      const value: unknown = (key as Map<number, unknown>).get(name);
      if (value instanceof Uint8Array) return Buffer.from(value).toString('base64url');
      throw new CeremonyRefused('the public key lacks a part');
    };
    const { x, y, n, e } = cose.COSEKEYS;
    if (cose.isCOSEPublicKeyOKP(key)) return { kty: 'OKP', crv: 'Ed25519', x: text(x) };
    if (cose.isCOSEPublicKeyEC2(key)) return { kty: 'EC', crv: 'P-256', x: text(x), y: text(y) };
    return { kty: 'RSA', n: text(n), e: text(e) };
  });
}

/** The library throws generic errors for malformed input from strangers. */
async function judged<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CeremonyRefused) throw error;
    throw new CeremonyRefused(error instanceof Error ? error.message : 'not a passkey', { cause: error });
  }
}
