import { parseApiKey } from '../crypto/api-key.ts';
import { decodeBase64url } from '../crypto/base64url.ts';
import { isPlainText } from '../model/plain-text.ts';
import { parseWebUrl } from '../wire/api/domain.ts';

/**
 * Why a text is not a valid value: the end of a sentence that begins with the setting's name. Never quotes
 * the text.
 */
export class Wrong {
  readonly sentence: string;
  constructor(sentence: string) {
    this.sentence = sentence;
  }
}

/** Reads the text of a setting. */
export type Read<T> = (text: string) => T | Wrong;

export const text: Read<string> = (given) => given;

export const wholeNumber =
  (range: { readonly min: number; readonly max: number }): Read<number> =>
  (given) => {
    const value = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
    return value >= range.min && value <= range.max
      ? value
      : new Wrong(`must be a whole number from ${range.min} to ${range.max}`);
  };

export const oneOf =
  <const T extends string>(...choices: readonly T[]): Read<T> =>
  (given) =>
    choices.find((choice) => choice === given) ?? new Wrong(`must be one of ${choices.join(', ')}`);

export const yesOrNo: Read<boolean> = (given) =>
  given === '1' || given === '0' ? given === '1' : new Wrong('must be 0 or 1');

/** Scheme, host and port only, because `/v1` and ids are appended. */
export const origin: Read<string> = (given) => {
  const url = parseWebUrl(given);
  return url !== null && url.pathname === '/' && url.search === '' && url.hash === ''
    ? url.origin
    : new Wrong('must be an origin such as https://trust.example.com, without a path');
};

/** An absolute http or https URL without user, query and fragment. */
export const httpUrl: Read<string> = (given) => {
  return parseWebUrl(given) !== null && !/[?#]/.test(given)
    ? given
    : new Wrong('must be a URL such as https://login.example.com/realms/staff');
};

const shownNameCharsMax = 60;

/** A short text for people. */
export const shownName: Read<string> = (given) =>
  isPlainText(given) && given.length <= shownNameCharsMax
    ? given
    : new Wrong(`must be at most ${shownNameCharsMax} characters, none of them a control character`);

/**
 * A key of exactly the generated length must carry its checksum, or every call would refuse it (contract §2).
 */
export const apiKey: Read<string> = (given) =>
  parseApiKey(given) === null
    ? new Wrong(
        'must be at_live_ or at_test_ and then 32 to 128 characters of A-Z a-z 0-9 _ - ' +
          '(36 characters only if they end in the checksum that the service writes)',
      )
    : given;

/** A live key. */
export const liveApiKey: Read<string> = (given) =>
  parseApiKey(given)?.mode === 'test'
    ? new Wrong('must be a live key, which begins with at_live_: a sidecar cannot connect with a test key')
    : apiKey(given);

const masterKeyBytes = 32;

export const masterKey: Read<Uint8Array> = (given) => {
  const bytes = decodeBase64url(given);
  return bytes?.length === masterKeyBytes
    ? bytes
    : new Wrong('must be 32 bytes as base64url without padding (43 characters)');
};

/** The one before, the one after, and two that were forgotten: each is tried where a text names none. */
const masterKeyFallbacksMax = 4;

/** Master keys, separated by commas. */
export const masterKeys: Read<readonly Uint8Array[]> = (given) => {
  const keys = given.split(',').map((each) => decodeBase64url(each.trim()));
  const found = keys.flatMap((each) => (each?.length === masterKeyBytes ? [each] : []));
  return found.length === keys.length && keys.length <= masterKeyFallbacksMax
    ? found
    : new Wrong(
        `must be at most ${masterKeyFallbacksMax} keys of 32 bytes as base64url without padding (43 characters), separated by commas`,
      );
};

/** A program and its arguments, as a JSON array of texts. */
export const commandLine: Read<readonly [string, ...string[]]> = (given) => {
  const wrong = new Wrong('must be a JSON array of texts, the program first: ["/usr/bin/vault","kv","get"]');
  let parsed: unknown;
  try {
    parsed = JSON.parse(given);
  } catch {
    return wrong;
  }
  if (!Array.isArray(parsed)) return wrong;
  const [program, ...rest] = parsed.filter((each): each is string => typeof each === 'string');
  return program && rest.length === parsed.length - 1 && !given.includes('\\u0000')
    ? [program, ...rest]
    : wrong;
};

const trustedHeader = /^(?:x-forwarded-[a-z0-9-]+|x-original-[a-z0-9-]+|x-gate-permission|x-gate-amount)$/;

/** Header names in lower case, separated by commas (contract §15). */
export const headerNames: Read<readonly string[]> = (given) => {
  const names = given.split(',').map((name) => name.trim().toLowerCase());
  return names.every((name) => trustedHeader.test(name))
    ? names
    : new Wrong(
        'may name X-Forwarded-*, X-Original-*, X-Gate-Permission and X-Gate-Amount, separated by commas',
      );
};
