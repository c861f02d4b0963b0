import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isoCBOR } from '@simplewebauthn/server/helpers';

/** How an answer differs from that of a good authenticator in the right page. */
export interface Deviation {
  readonly origin?: string;
  readonly rpId?: string;
  readonly challenge?: string;
  readonly type?: string;
  /** The person has not unlocked it. */
  readonly isUnverified?: boolean;
  readonly counter?: number;
  readonly userHandle?: string;
  /** Signed by the key of somebody else. */
  readonly isForged?: boolean;
  /** The kind of attestation that a registration claims to have. */
  readonly format?: string;
}

/** A software authenticator with one passkey, for ES256 (WebAuthn Level 3). */
export interface Authenticator {
  readonly credentialId: string;
  /** The answer to `navigator.credentials.create`. */
  create(options: CreationOptions, deviation?: Deviation): Record<string, unknown>;
  /** The answer to `navigator.credentials.get`. */
  get(options: RequestOptions, deviation?: Deviation): Record<string, unknown>;
}

interface CreationOptions {
  readonly challenge: string;
  readonly rp: { readonly id: string };
  readonly user: { readonly id: string };
}
interface RequestOptions {
  readonly challenge: string;
  readonly rpId: string;
}

const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();
const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
const uint = (value: number, bytes: number) => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
};
const flags = { present: 1, verified: 4, attested: 64 };

/** `origin`: of the page in which it is used. `credentialId`: that of another authenticator, to be copied. */
export function authenticator(
  origin: string,
  { credentialId = base64url(randomBytes(16)) }: { readonly credentialId?: string } = {},
): Authenticator {
  const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { privateKey, publicKey } = newKey();
  let counter = 0;
  let userHandle = '';
  const clientData = (type: string, challenge: string, { origin: lied, ...deviation }: Deviation): Buffer =>
    Buffer.from(
      JSON.stringify({
        type: deviation.type ?? type,
        challenge: deviation.challenge ?? challenge,
        origin: lied ?? origin,
        crossOrigin: false,
      }),
    );
  const data = (rpId: string, more: number, deviation: Deviation): Buffer =>
    Buffer.concat([
      sha256(deviation.rpId ?? rpId),
      uint(flags.present | (deviation.isUnverified === true ? 0 : flags.verified) | more, 1),
      uint(deviation.counter ?? counter, 4),
    ]);
  const answer = (response: Record<string, string>) => ({
    id: credentialId,
    rawId: credentialId,
    type: 'public-key',
    clientExtensionResults: {},
    response,
  });
  return {
    credentialId,
    create: ({ challenge, rp, user }, deviation = {}) => {
      userHandle = user.id;
      const id = Buffer.from(credentialId, 'base64url');
      const attested = Buffer.concat([Buffer.alloc(16), uint(id.length, 2), id, coseKey(publicKey)]);
      const attestation = isoCBOR.encode(
        new Map<string, never>([
          ['fmt', (deviation.format ?? 'none') as never],
          ['attStmt', new Map() as never],
          [
            'authData',
            new Uint8Array(Buffer.concat([data(rp.id, flags.attested, deviation), attested])) as never,
          ],
        ]),
      );
      return answer({
        clientDataJSON: base64url(clientData('webauthn.create', challenge, deviation)),
        attestationObject: base64url(attestation),
      });
    },
    get: ({ challenge, rpId }, deviation = {}) => {
      counter += 1;
      const client = clientData('webauthn.get', challenge, deviation);
      const signed = data(rpId, 0, deviation);
      const key = deviation.isForged === true ? newKey().privateKey : privateKey;
      return answer({
        clientDataJSON: base64url(client),
        authenticatorData: base64url(signed),
        signature: base64url(sign('sha256', Buffer.concat([signed, sha256(client)]), key)),
        userHandle: deviation.userHandle ?? userHandle,
      });
    },
  };
}

/** RFC 9053 §7.1.1: an EC2 key for ES256. */
function coseKey(publicKey: KeyObject): Uint8Array {
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
  return isoCBOR.encode(
    new Map<number, number | Uint8Array>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, bytes(x)],
      [-3, bytes(y)],
    ]) as never,
  );
}
