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
   * `v1.<nonce>.<ciphertext and tag>`, or `v2.<key id>.` and the same. The context names the place of the
   * secret (`signing_keys/<kid>`): text moved to another place does not open there. `nonce`: 12 random bytes,
   * never used twice with one master key.
   */
  seal(plain: Uint8Array, context: string, nonce: Uint8Array): string;
  /** By any of the master keys. Throws SealError. */
  open(sealed: string, context: string): Uint8Array;
  /** Of the master key that seals. */
  readonly keyId: string;
  /** What this sealer seals begins with it, and nothing that another master key has sealed. */
  readonly prefix: string;
  /** base64url HMAC-SHA256 of the text: only who has the master key can make one. */
  mac(text: string, context: MacContext): string;
  /** By any of the master keys, or of the `macKeys`. */
  isMacOf(mac: string, text: string, context: MacContext): boolean;
}

/** Each has a key of its own. */
export type MacContext = 'agent-trust.receipt.v1';

export interface SealerOptions {
  /** Open what they have sealed, and seal nothing. Default: none. */
  readonly fallbacks?: readonly Uint8Array[];
  /**
   * Whether sealed texts name their master key. The first key of a database leaves its name out, as all keys
   * did before there could be a second one. Default: false.
   */
  readonly isNamed?: boolean;
  /** Of master keys that are gone (`macKeyOf`). Default: none. */
  readonly macKeys?: readonly Uint8Array[];
}

const algorithm = 'aes-256-gcm';
export const masterKeyBytes = 32;
export const nonceBytes = 12;
const tagBytes = 16;
const idBytes = 8;

/** What the texts of a first key begin with. */
export const unnamedPrefix = 'v1.';
/** What the texts of any later key begin with. */
export const namedPrefix = (keyId: string): string => `v2.${keyId}.`;

const derived = (masterKey: Uint8Array, context: string): Buffer =>
  createHmac('sha256', masterKey).update(context).digest();

/** Names a master key and tells nothing about it: 16 hex characters. */
export const masterKeyId = (masterKey: Uint8Array): string =>
  derived(masterKey, 'agent-trust.master-key-id.v1').subarray(0, idBytes).toString('hex');

/** With it MACs of a master key verify; it opens nothing. */
export const macKeyOf = (masterKey: Uint8Array, context: MacContext): Uint8Array =>
  derived(masterKey, context);

/**
 * Secrets at rest: AES-256-GCM under MASTER_KEY (contract §1), the context as additional data. Copies the
 * keys.
 */
export function sealer(masterKey: Uint8Array, options: SealerOptions = {}): Sealer {
  const { fallbacks = [], isNamed = false, macKeys = [] } = options;
  const keys = [masterKey, ...fallbacks].map((each) => {
    assert(each.length === masterKeyBytes, 'a master key has 32 bytes');
    return { id: masterKeyId(each), key: Uint8Array.from(each) };
  });
  const own = Uint8Array.from(masterKey);
  const keyId = masterKeyId(own);
  const prefix = isNamed ? namedPrefix(keyId) : unnamedPrefix;
  const macKeysBy = new Map<MacContext, readonly Uint8Array[]>();
  const macKeysOf = (context: MacContext): readonly Uint8Array[] => {
    const known = macKeysBy.get(context) ?? [...keys.map(({ key }) => macKeyOf(key, context)), ...macKeys];
    macKeysBy.set(context, known);
    return known;
  };
  const macBytes = (text: string, key: Uint8Array): Buffer => createHmac('sha256', key).update(text).digest();
  return {
    keyId,
    prefix,
    seal: (plain, context, nonce) => {
      assert(nonce.length === nonceBytes, 'a nonce has 12 bytes');
      const cipher = createCipheriv(algorithm, own, nonce, { authTagLength: tagBytes });
      cipher.setAAD(Buffer.from(context, 'utf8'));
      const sealed = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
      return `${prefix}${encodeBase64url(nonce)}.${encodeBase64url(sealed)}`;
    },
    open: (sealed, context) => {
      const { keyId: sealedBy, nonce, body } = readSealed(sealed);
      const candidates = sealedBy === null ? keys : keys.filter(({ id }) => id === sealedBy);
      if (candidates.length === 0)
        throw new SealError(`sealed with master key ${sealedBy}, which is not given`);
      for (const { key } of candidates) {
        const plain = openWith(key, context, { nonce, body });
        if (plain !== null) return plain;
      }
      throw new SealError('sealed with another master key, for another context, or changed since');
    },
    mac: (text, context) => {
      const [ownKey = macKeyOf(own, context)] = macKeysOf(context);
      return encodeBase64url(macBytes(text, ownKey));
    },
    isMacOf: (mac, text, context) => {
      const given = decodeBase64url(mac);
      return macKeysOf(context).some((key) => {
        const right = macBytes(text, key);
        return given?.length === right.length && timingSafeEqual(given, right);
      });
    },
  };
}

interface Sealed {
  readonly nonce: Uint8Array;
  readonly body: Uint8Array;
}

/** Null: it does not open. */
function openWith(key: Uint8Array, context: string, { nonce, body }: Sealed): Uint8Array | null {
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(Buffer.from(context, 'utf8'));
  decipher.setAuthTag(body.subarray(body.length - tagBytes));
  const plain = decipher.update(body.subarray(0, body.length - tagBytes));
  try {
    return Uint8Array.from(Buffer.concat([plain, decipher.final()]));
  } catch {
    return null;
  }
}

/** `keyId` null: of a first key, which is not named. */
function readSealed(sealed: string): Sealed & { readonly keyId: string | null } {
  const [version, ...rest] = sealed.split('.');
  const keyId = version === 'v2' ? (rest.shift() ?? '') : null;
  const [nonceText, bodyText] = rest;
  const isKnown = version === 'v1' || (version === 'v2' && /^[0-9a-f]{16}$/.test(keyId ?? ''));
  if (!isKnown || rest.length !== 2 || nonceText === undefined || bodyText === undefined) {
    throw new SealError('not sealed by this version');
  }
  const nonce = decodeBase64url(nonceText);
  const body = decodeBase64url(bodyText);
  if (nonce?.length !== nonceBytes || body === null || body.length < tagBytes) {
    throw new SealError('not sealed by this version');
  }
  return { keyId, nonce, body };
}
