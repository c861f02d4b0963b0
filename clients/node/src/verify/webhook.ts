import { encode, fromBase64, isObject, type Json } from './canonical.ts';

export const webhookFaults = {
  headers_missing: 'webhook-id, webhook-timestamp or webhook-signature is missing or has the wrong form',
  signature_invalid: 'no signature was made with this secret over this id, time and body',
  too_old: 'the webhook was sent too long ago',
  too_new: 'the webhook was sent in the future: compare the clocks',
  malformed: 'the body is not an event',
} as const;

export type WebhookVerdict =
  | {
      readonly valid: true;
      /** The same whenever this event is sent: remember it to act on each event once. */
      readonly id: string;
      readonly event: string;
      readonly timestamp: string;
      readonly data: Json;
    }
  | { readonly valid: false; readonly fault: keyof typeof webhookFaults };

export interface WebhookOptions {
  /** How far the time of the webhook may be from now, both ways. Default 5 minutes (Standard Webhooks). */
  readonly toleranceMs?: number;
  /** Unix milliseconds. Default: the clock of this machine. */
  readonly nowMs?: number;
}

type HeaderValue = string | readonly string[] | null | undefined;

/** `Headers`, a `Map`, pairs, or an object as node:http, API Gateway and others have it. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Iterable<readonly [name: string, value: HeaderValue]>
  | Readonly<Record<string, HeaderValue>>;

/**
 * Whether the service sent exactly this body, and not long ago (docs/webhooks.md). `body` is what arrived,
 * byte for byte: in the standard format or as a CloudEvent, with the same verdict. `headers` may have their
 * names in any letters, and their values in arrays.
 * `secrets`: that of the endpoint, or the old and the new one while it is rolled. Throws TypeError for text
 * that is no `whsec_…` secret, and nothing else. Does NOT remember ids: an event may come more than once.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  { toleranceMs = 5 * 60 * 1_000, nowMs = Date.now() }: WebhookOptions = {},
): Promise<WebhookVerdict> {
  const keys = [secrets].flat().map(keyOf);
  const [id = '', ...otherIds] = valuesOf(headers, 'webhook-id');
  const [timestamp = '', ...otherTimes] = valuesOf(headers, 'webhook-timestamp');
  const signatures = valuesOf(headers, 'webhook-signature').join(' ');
  // Of two, this one would be verified and the other one might be used.
  if (otherIds.length + otherTimes.length > 0) return invalid('headers_missing');
  if (id === '' || signatures === '' || !/^\d{1,12}$/.test(timestamp)) return invalid('headers_missing');
  const head = encode(`${id}.${timestamp}.`);
  const bytes = typeof body === 'string' ? encode(body) : body;
  const message = new Uint8Array(head.length + bytes.length);
  message.set(head);
  message.set(bytes, head.length);
  const isSigned = await Promise.all(keys.map((key) => isSignedWith(key, message, signatures)));
  // The signature comes first: only then does the time mean anything.
  if (!isSigned.includes(true)) return invalid('signature_invalid');
  const ageMs = nowMs - Number(timestamp) * 1_000;
  if (ageMs > toleranceMs) return invalid('too_old');
  if (ageMs < -toleranceMs) return invalid('too_new');
  return eventOf(id, bytes);
}

/** All that come under this name, in any letters. */
function valuesOf(headers: WebhookHeaders, wanted: string): readonly string[] {
  const given = headers as Partial<Iterable<readonly [string, HeaderValue]>> & {
    get?: (name: string) => string | null;
  };
  const isIterable = typeof given[Symbol.iterator] === 'function';
  const found: readonly unknown[] =
    !isIterable && typeof given.get === 'function'
      ? [given.get(wanted)]
      : [...(isIterable ? (headers as Iterable<readonly [string, HeaderValue]>) : Object.entries(headers))]
          .filter(([name]) => String(name).toLowerCase() === wanted)
          .flatMap(([, value]) => value);
  return found.filter((value) => typeof value === 'string');
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const key = secret.startsWith('whsec_') ? fromBase64(secret.slice(6)) : null;
  if (key === null || key.length === 0) throw new TypeError('a webhook secret is whsec_ and base64');
  return key;
}

/** Several signatures are in the header with a space between, several headers with a comma before it. */
async function isSignedWith(
  key: Uint8Array<ArrayBuffer>,
  message: Uint8Array<ArrayBuffer>,
  signatures: string,
): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const hmac = await crypto.subtle.importKey('raw', key, algorithm, false, ['verify']);
  for (const signature of signatures.split(/,? +/).slice(0, signaturesMax)) {
    const bytes = signature.startsWith('v1,') ? fromBase64(signature.slice(3)) : null;
    if (bytes !== null && (await crypto.subtle.verify('HMAC', hmac, bytes, message))) return true;
  }
  return false;
}

/** One for the secret, and one for each of at most four earlier ones; others may add their own. */
const signaturesMax = 16;

function eventOf(id: string, body: Uint8Array): WebhookVerdict {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    if (!isObject(value)) return invalid('malformed');
    const { event, timestamp, data } = value['specversion'] === '1.0' ? standardOf(value) : value;
    const isEvent = typeof event === 'string' && typeof timestamp === 'string' && isObject(data);
    return isEvent ? { valid: true, id, event, timestamp, data } : invalid('malformed');
  } catch {
    // No UTF-8, or no JSON.
    return invalid('malformed');
  }
}

/** Of a CloudEvent, which endpoints of the format `cloudevents` get. */
const standardOf = ({ type, time, data }: Json): Json => {
  const isOurs = typeof type === 'string' && type.startsWith(typePrefix);
  return { event: isOurs ? type.slice(typePrefix.length) : null, timestamp: time, data };
};

const typePrefix = 'agent-trust.';

const invalid = (fault: keyof typeof webhookFaults): WebhookVerdict => ({ valid: false, fault });
