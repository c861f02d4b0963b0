import type { Sealer } from '../../shared/crypto/seal.ts';
import { assert } from '../../shared/errors/assert.ts';

/** A JSON object as it is answered. */
export type AnswerBody = Readonly<Record<string, unknown>>;

/**
 * Members shown once and never stored: the agent's key, an API key, a webhook's secret, an invitation link
 * (contract §12).
 */
const shownOnce: ReadonlySet<string> = new Set(['private_key', 'key', 'secret', 'invitation_url']);
/** The first key of a new account, one object deeper than the others. */
const inner = 'api_key';
/** The token of a passport: a bearer credential, but a replay without it would be useless. */
const token = 'jwt';

/**
 * The storable form of the answer. Removes members by name at the top level and in `api_key` only, because
 * the same names mean other things deeper down, such as the `key` of a permission in a catalog.
 */
export function withoutSecrets(body: AnswerBody, seal: (text: string) => string): AnswerBody {
  const kept = Object.entries(body)
    .filter(([name]) => !shownOnce.has(name))
    .map(([name, value]) => {
      if (name === inner && isObject(value)) return [name, withoutSecrets(value, seal)];
      if (name === token && typeof value === 'string') return [name, seal(value)];
      return [name, value];
    });
  return Object.fromEntries(kept);
}

/** The replay of a stored answer: with its token, without the members shown once. */
export function withToken(stored: AnswerBody, open: (sealed: string) => string): AnswerBody {
  const sealed = stored[token];
  return typeof sealed === 'string' ? { ...stored, [token]: open(sealed) } : stored;
}

/** The stored text of an answer with its token sealed anew. */
export function resealedToken(text: string, reseal: (sealed: string) => string): string {
  const stored = parseAnswerBody(text);
  const sealed = stored[token];
  return typeof sealed === 'string' ? JSON.stringify({ ...stored, [token]: reseal(sealed) }) : text;
}

/** Sealing of texts for one place, see `Sealer`. */
export const textSeal = (sealer: Sealer, context: string, nonce: () => Uint8Array) => ({
  seal: (text: string): string => sealer.seal(Buffer.from(text, 'utf8'), context, nonce()),
  open: (sealed: string): string => Buffer.from(sealer.open(sealed, context)).toString('utf8'),
});

export function parseAnswerBody(text: string): AnswerBody {
  const body: unknown = JSON.parse(text);
  assert(isObject(body), 'a stored answer is an object');
  return body;
}

const isObject = (value: unknown): value is AnswerBody =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
