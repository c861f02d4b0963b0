import { createHmac } from 'node:crypto';
import { assert } from '../errors/assert.ts';

/**
 * Signatures of Standard Webhooks, version `v1`: HMAC-SHA256 with a shared secret over the id, the time and
 * the exact bytes of the body. https://github.com/standard-webhooks/standard-webhooks, "Signature scheme".
 */
const secretPrefix = 'whsec_';

/** The standard asks for 24 to 64 bytes; HMAC-SHA256 gains nothing from more than these. */
export const webhookSecretBytes = 32;

/**
 * `whsec_` + plain base64: not base64url as elsewhere, because the standard's libraries decode plain base64.
 */
export function makeWebhookSecret(randomBytes: Uint8Array): string {
  assert(randomBytes.length === webhookSecretBytes, 'a webhook secret is made of 32 random bytes');
  return secretPrefix + Buffer.from(randomBytes).toString('base64');
}

/** The bytes of a secret; null for any other text. */
export function readWebhookSecret(text: string): Uint8Array | null {
  if (!text.startsWith(secretPrefix)) return null;
  const body = text.slice(secretPrefix.length);
  const bytes = Buffer.from(body, 'base64');
  return bytes.length >= 24 && bytes.length <= 64 && bytes.toString('base64') === body ? bytes : null;
}

interface SignedMessage {
  readonly id: string;
  /** Unix seconds. */
  readonly timestampS: number;
  readonly body: string;
}

/** `v1,<base64>`: one element of the `webhook-signature` header. */
export const signWebhook = (secret: Uint8Array, { id, timestampS, body }: SignedMessage): string =>
  `v1,${createHmac('sha256', secret).update(`${id}.${timestampS}.${body}`, 'utf8').digest('base64')}`;
