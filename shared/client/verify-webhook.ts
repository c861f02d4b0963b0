import { isJsonObject } from '../crypto/json-object.ts';
import { readWebhookSecret, webhookSignatureVerifies } from '../crypto/webhook-signature.ts';
import { systemClock } from '../runtime/clock.ts';

/** What can be wrong with a webhook, with the words for it. */
export const webhookFaults = {
  headers_missing: 'webhook-id, webhook-timestamp or webhook-signature is missing or has the wrong form',
  too_old: 'the timestamp of this webhook is too old: it was delayed, or replayed by somebody else',
  too_new: 'the timestamp of this webhook is in the future: compare the clocks',
  signature_invalid: 'no signature of this webhook was made with the secret, or the body was changed',
  malformed: 'the body is not an event',
} as const;

export type WebhookFault = keyof typeof webhookFaults;

export type WebhookVerdict =
  | {
      readonly kind: 'valid';
      /** The same whenever this event is sent: remember it to act on each event once. */
      readonly id: string;
      readonly event: string;
      readonly timestamp: string;
      readonly data: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: 'invalid'; readonly fault: WebhookFault };

type HeaderValue = string | readonly string[] | null | undefined;

/** `Headers`, a `Map`, pairs, or an object as node:http, API Gateway and others have it. */
export type WebhookHeaders =
  | Iterable<readonly [name: string, value: HeaderValue]>
  | Readonly<Record<string, HeaderValue>>;

/** Standard Webhooks: five minutes both ways. */
const toleranceMsDefault = 5 * 60 * 1_000;

/**
 * Verifies that this service sent exactly this body, and not long ago. `body` is what arrived, byte for byte:
 * parsed and rendered again it does not verify. `headers` may have their names in any letters, and their
 * values in arrays. `secrets`: those of the endpoint, both of them while one replaces the other; throws
 * TypeError for text that is no `whsec_…` secret, because then nothing could ever verify.
 *
 * Never throws otherwise, whatever arrived. Does NOT remember ids: an event may arrive more than once, and
 * within the tolerance anybody who saw it may send it again.
 */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: readonly string[],
  options: { readonly toleranceMs?: number; readonly nowMs?: number } = {},
): WebhookVerdict {
  const keys = secrets.map(keyOf);
  const [id = '', ...otherIds] = valuesOf(headers, 'webhook-id');
  const [timestamp = '', ...otherTimes] = valuesOf(headers, 'webhook-timestamp');
  const signatures = valuesOf(headers, 'webhook-signature').join(' ').replaceAll(', ', ' ');
  // Of two, this one would be verified and the other one might be used.
  if (otherIds.length + otherTimes.length > 0) return invalid('headers_missing');
  if (id === '' || signatures === '' || !/^[0-9]{1,12}$/.test(timestamp)) return invalid('headers_missing');
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8');
  const message = { id, timestampS: Number(timestamp), body: text };
  // The signature comes first: only then does it mean something that the time is wrong.
  if (!keys.some((key) => webhookSignatureVerifies(key, message, signatures))) {
    return invalid('signature_invalid');
  }
  const ageMs = (options.nowMs ?? systemClock.now()) - message.timestampS * 1_000;
  const toleranceMs = options.toleranceMs ?? toleranceMsDefault;
  if (ageMs > toleranceMs) return invalid('too_old');
  if (ageMs < -toleranceMs) return invalid('too_new');
  return readEvent(id, text);
}

/** All that come under this name, in any letters. */
function valuesOf(headers: WebhookHeaders, wanted: string): readonly string[] {
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  return pairs
    .filter(([name]) => String(name).toLowerCase() === wanted)
    .flatMap(([, value]): readonly HeaderValue[] => [value].flat())
    .filter((value) => typeof value === 'string');
}

function keyOf(secret: string): Uint8Array {
  const key = readWebhookSecret(secret);
  if (key === null)
    throw new TypeError('A webhook secret is whsec_ and base64; it was shown when the endpoint was created.');
  return key;
}

function readEvent(id: string, text: string): WebhookVerdict {
  const value = parseJson(text);
  if (!isJsonObject(value)) return invalid('malformed');
  const { event, timestamp, data } = value;
  if (typeof event !== 'string' || typeof timestamp !== 'string' || !isJsonObject(data)) {
    return invalid('malformed');
  }
  return { kind: 'valid', id, event, timestamp, data };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const invalid = (fault: WebhookFault): WebhookVerdict => ({ kind: 'invalid', fault });
