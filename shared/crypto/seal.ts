import { createCipheriv, createDecipheriv, createHmac, timingSafeEqual } from 'node:crypto';
import { assert } from '../errors/assert.ts';
import { decodeBase64url, encodeBase64url } from './base64url.ts';

/**
 * A sealed text cannot be opened: another master key or context, or changed text. Contains nothing of its
 * content.
 */
export class SealError extends Error {
  override readonly name = 'SealError';
}

export interface Sealer {
  /**
   * `v1.<nonce>.<ciphertext and tag>`. The context names the place of the secret (`signing_keys/<kid>`): text
   * moved to another place does not open there. `nonce`: 12 random bytes, never used twice with one master
   * key.
   */
  seal(plain: Uint8Array, context: string, nonce: Uint8Array): string;
  /** Throws SealError. */
  open(sealed: string, context: string): Uint8Array;
  /** base64url HMAC-SHA256 of the text: only who has the master key can make one. */
  mac(text: string, context: MacContext): string;
  isMacOf(mac: string, text: string, context: MacContext): boolean;
}

/** Each has a key of its own. */
export type MacContext = 'agent-trust.receipt.v1';

const algorithm = 'aes-256-gcm';
const version = 'v1';
const masterKeyBytes = 32;
export const nonceBytes = 12;
const tagBytes = 16;

/**
 * Secrets at rest: AES-256-GCM under MASTER_KEY (contract §1), the context as additional data. Copies the
 * key.
 */
export function sealer(masterKey: Uint8Array): Sealer {
  assert(masterKey.length === masterKeyBytes, 'a master key has 32 bytes');
  const key = Uint8Array.from(masterKey);
  const macKeys = new Map<MacContext, Buffer>();
  const macBytes = (text: string, context: MacContext): Buffer => {
    const macKey = macKeys.get(context) ?? createHmac('sha256', key).update(context).digest();
    macKeys.set(context, macKey);
    return createHmac('sha256', macKey).update(text).digest();
  };
  return {
    seal: (plain, context, nonce) => {
      assert(nonce.length === nonceBytes, 'a nonce has 12 bytes');
      const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      cipher.setAAD(Buffer.from(context, 'utf8'));
      const sealed = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
      return `${version}.${encodeBase64url(nonce)}.${encodeBase64url(sealed)}`;
    },
    open: (sealed, context) => {
      const { nonce, body } = readSealed(sealed);
      const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(Buffer.from(context, 'utf8'));
      decipher.setAuthTag(body.subarray(body.length - tagBytes));
      const plain = decipher.update(body.subarray(0, body.length - tagBytes));
      try {
        return Uint8Array.from(Buffer.concat([plain, decipher.final()]));
      } catch (cause) {
        throw new SealError('sealed with another master key, for another context, or changed since', {
          cause,
        });
      }
    },
    mac: (text, context) => encodeBase64url(macBytes(text, context)),
    isMacOf: (mac, text, context) => {
      const given = decodeBase64url(mac);
      const right = macBytes(text, context);
      return given?.length === right.length && timingSafeEqual(given, right);
    },
  };
}

function readSealed(sealed: string): { readonly nonce: Uint8Array; readonly body: Uint8Array } {
  const parts = sealed.split('.');
  const [found, nonceText, bodyText] = parts;
  if (parts.length !== 3 || found !== version || nonceText === undefined || bodyText === undefined) {
    throw new SealError('not sealed by this version');
  }
  const nonce = decodeBase64url(nonceText);
  const body = decodeBase64url(bodyText);
  if (nonce?.length !== nonceBytes || body === null || body.length < tagBytes) {
    throw new SealError('not sealed by this version');
  }
  return { nonce, body };
}
