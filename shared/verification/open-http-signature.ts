import {
  type Dictionary,
  type InnerList,
  type Item,
  parseDictionary,
  serializeInnerList,
  serializeItem,
} from 'structured-headers';
import { proofLimits } from '../model/proof.ts';
import { isUnixMillis, secondMs, type UnixMillis } from '../model/time.ts';
import { isNonce, type ProofTerms, type ProvenPassport, type SeenRequest } from './proof-parts.ts';

const tags: ReadonlySet<unknown> = new Set(['web-bot-auth', 'agent-trust']);
const algorithms = { EdDSA: 'ed25519', ES256: 'ecdsa-p256-sha256' } as const;
/** Where a passport is shown (contract §15). */
const passportHeaders = ['authorization', 'x-agent-passport'] as const;

const plainName = /^@?[a-z0-9-]+$/;
/** One signature, written as it is serialised: such a text need not be serialised again. */
const usualInput =
  /^[a-z][a-z0-9_-]*=\("[a-z0-9@-]+"(?: "[a-z0-9@-]+")*\)(?:;[a-z]+=(?:[1-9]\d{0,14}|"[\w:;,./?&=+ -]*"))+$/;

/**
 * A signature of this request by RFC 9421, in the profile of Web Bot Auth, made for this passport. Null:
 * there is not exactly one by the key of the passport, or it covers too little, or something else.
 *
 * Other signatures of the message, as proxies add them, are passed over.
 */
export function openHttpSignature(seen: SeenRequest, passport: ProvenPassport): ProofTerms | null {
  const inputText = seen.headers.get('signature-input');
  const inputs = dictionaryIn(inputText);
  const signatures = dictionaryIn(seen.headers.get('signature'));
  if (inputs === null || signatures === null) return null;
  const [own, ...others] = [...inputs].filter(([, member]) => isOwn(member, passport.key.thumbprint));
  if (own === undefined || others.length > 0) return null;
  const [label, input] = own as [string, InnerList];
  const signature = bytesIn(signatures.get(label));
  const terms = termsIn(input[1], passport);
  if (signature?.length !== 64 || terms === null) return null;
  if (!coversEnough(input, seen, passport)) return null;
  const isAlone = inputs.size === 1 && usualInput.test(inputText ?? '');
  const written = isAlone ? (inputText ?? '').slice(label.length + 1) : serializeInnerList(input);
  const signedText = signatureBase(input, seen, passport, written);
  return signedText === null ? null : { ...terms, signedText, signature };
}

function dictionaryIn(text: string | undefined): Dictionary | null {
  if (text === undefined) return null;
  try {
    return parseDictionary(text);
  } catch {
    // Its errors have no class of their own for what is not a dictionary.
    return null;
  }
}

const isInnerList = (member: Item | InnerList): member is InnerList => Array.isArray(member[0]);

function isOwn(member: Item | InnerList, thumbprint: string): boolean {
  if (!isInnerList(member)) return false;
  const [, parameters] = member;
  return tags.has(parameters.get('tag')) && parameters.get('keyid') === thumbprint;
}

function bytesIn(member: Item | InnerList | undefined): Uint8Array | null {
  const value = member === undefined ? null : member[0];
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
}

function termsIn(
  parameters: InnerList[1],
  { key }: ProvenPassport,
): Pick<ProofTerms, 'startsAtMs' | 'endsAtMs' | 'nonce'> | null {
  const startsAtMs = timeIn(parameters.get('created'));
  const endsAtMs = timeIn(parameters.get('expires'));
  const nonce = parameters.get('nonce');
  const algorithm = parameters.get('alg') ?? algorithms[key.algorithm];
  if (startsAtMs === null || endsAtMs === null || !isNonce(nonce)) return null;
  const lengthMs = endsAtMs - startsAtMs;
  if (lengthMs <= 0 || lengthMs > proofLimits.windowMsMax) return null;
  return algorithm === algorithms[key.algorithm] ? { startsAtMs, endsAtMs, nonce } : null;
}

/** RFC 9421 §2.3: an integer of seconds. */
function timeIn(value: unknown): UnixMillis | null {
  const timeMs = typeof value === 'number' && Number.isInteger(value) ? value * secondMs : Number.NaN;
  return isUnixMillis(timeMs) ? timeMs : null;
}

/**
 * RFC 9421 §2.5. Null: a component is named twice, is not in the message, or is not served here. Exported for
 * the test vectors, which are in no profile.
 */
export function signatureBase(
  input: InnerList,
  seen: SeenRequest,
  passport: Pick<ProvenPassport, 'token'>,
  written: string = serializeInnerList(input),
): string | null {
  const [components] = input;
  if (components.length > proofLimits.componentsMax) return null;
  const lines = new Map<string, string>();
  for (const component of components) {
    const [name, parameters] = component;
    if (typeof name !== 'string') return null;
    const value =
      parameters.size === 0 ? componentValue(name, seen, passport) : memberOf(name, parameters, seen.headers);
    const identifier = parameters.size === 0 && plainName.test(name) ? `"${name}"` : serializeItem(component);
    if (value === null || lines.has(identifier)) return null;
    lines.set(identifier, value);
  }
  let text = '';
  for (const [identifier, value] of lines) text += `${identifier}: ${value}\n`;
  return `${text}"@signature-params": ${written}`;
}

function coversEnough([components]: InnerList, seen: SeenRequest, passport: ProvenPassport): boolean {
  const covered = new Set(components.flatMap(([name, parameters]) => (parameters.size === 0 ? [name] : [])));
  if (!covered.has('@method') || !covered.has('@authority')) return false;
  if (!covered.has('@target-uri') && !covered.has('@path')) return false;
  const showsPassport = passportHeaders.some(
    (name) => covered.has(name) && showsToken(name, seen.headers.get(name), passport),
  );
  if (!showsPassport) return false;
  if (seen.contentDigest === null) return true;
  return (
    covered.has('content-digest') && isSameDigest(seen.headers.get('content-digest'), seen.contentDigest)
  );
}

/** RFC 9421 §2.1 and §2.2. Null: it is not there. */
function componentValue(
  name: string,
  seen: SeenRequest,
  passport: Pick<ProvenPassport, 'token'>,
): string | null {
  const { method, url, target } = seen;
  const queryAt = target.includes('?') ? target.indexOf('?') : target.length;
  switch (name) {
    case '@method':
      return method;
    case '@target-uri':
      return `${url.protocol}//${url.host}${target}`;
    case '@authority':
      return url.host;
    case '@scheme':
      return url.protocol.slice(0, -1);
    case '@request-target':
      return target;
    case '@path':
      return target.slice(0, queryAt);
    case '@query':
      return target.slice(queryAt) || '?';
    default:
      return fieldValue(name, seen, passport);
  }
}

/** A header that carries the passport need not be sent along: what it says is known. */
function fieldValue(
  name: string,
  { headers }: SeenRequest,
  { token }: Pick<ProvenPassport, 'token'>,
): string | null {
  const given = headers.get(name);
  if (given !== undefined) return given;
  if (name === 'authorization') return `Passport ${token}`;
  return name === 'x-agent-passport' ? token : null;
}

/** One that was left out is made of the token (`fieldValue`). */
function showsToken(
  name: (typeof passportHeaders)[number],
  value: string | undefined,
  { token }: ProvenPassport,
): boolean {
  if (value === undefined) return true;
  return name === 'authorization' ? /^passport +(\S+)$/i.exec(value)?.[1] === token : value === token;
}

/**
 * A member of a dictionary (RFC 9421 §2.1.2), as `"signature-agent";key="sig1"`. No other parameter is
 * served.
 */
function memberOf(name: string, parameters: Item[1], headers: SeenRequest['headers']): string | null {
  const key = parameters.get('key');
  if (name.startsWith('@') || parameters.size > 1 || typeof key !== 'string') return null;
  const member = dictionaryIn(headers.get(name))?.get(key);
  if (member === undefined) return null;
  return isInnerList(member) ? serializeInnerList(member) : serializeItem(member);
}

/** Both have a digest of an algorithm that is still safe (RFC 9530 §5), and none that differs. */
function isSameDigest(signed: string | undefined, seen: string): boolean {
  const [one, other] = [dictionaryIn(signed), dictionaryIn(seen)];
  if (one === null || other === null) return false;
  let isFound = false;
  for (const algorithm of ['sha-256', 'sha-512']) {
    const [left, right] = [bytesIn(one.get(algorithm)), bytesIn(other.get(algorithm))];
    if (left === null || right === null) continue;
    if (!Buffer.from(left).equals(right)) return false;
    isFound = true;
  }
  return isFound;
}
