import { canonicalJson } from '../crypto/canonical-json.ts';
import { textHash } from '../crypto/content-hash.ts';
import type { AuditState } from '../model/audit.ts';
import { limits } from '../model/limits.ts';

export interface AuditStates {
  readonly before: AuditState | null;
  readonly after: AuditState | null;
}

/**
 * What an audit entry shows of a change: of a resource that was there before and after only the members that
 * differ, without secrets, at most `limits.auditStateBytesMax` each. Null: nothing differs, so there is no
 * change to write down.
 */
export function auditStates({ before, after }: AuditStates): AuditStates | null {
  if (before === null || after === null) return { before: shown(before), after: shown(after) };
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => textOf(before[name]) !== textOf(after[name]),
  );
  if (names.length === 0) return null;
  return { before: shown(only(before, names)), after: shown(only(after, names)) };
}

const textOf = (value: unknown): string => (value === undefined ? '' : canonicalJson(wellFormed(value)));

const only = (state: AuditState, names: readonly string[]): AuditState =>
  Object.fromEntries(names.filter((name) => state[name] !== undefined).map((name) => [name, state[name]]));

const shown = (state: AuditState | null): AuditState | null =>
  state === null ? null : bounded(redacted(wellFormed(state)));

/**
 * A state that is too large is named by its hash, by which somebody who has it can still show it to be the
 * one.
 */
function bounded(state: AuditState): AuditState {
  const text = canonicalJson(state);
  const bytes = Buffer.byteLength(text);
  return bytes <= limits.auditStateBytesMax ? state : { truncated: true, bytes, hash: textHash(text) };
}

/** RFC 8785 has no form for half of a surrogate pair, and free-form members may hold one. */
const wellFormed = <T>(value: T): T => mapTexts(value, (text) => text.toWellFormed());

/**
 * The second lock: what is written here is rendered without secrets already. It covers what callers put into
 * free-form members, where a secret has no business, and a renderer that forgets one day.
 */
const redacted = (state: AuditState): AuditState =>
  mapTexts(state, (text) => text.replaceAll(secretPattern, mark), secretNames);

const mark = '[redacted]';
const secretNames: ReadonlySet<string> = new Set([
  'authorization',
  'jwt',
  'key',
  'passport_token',
  'password',
  'private_key',
  'secret',
  'token',
]);

/**
 * API keys, agents' private keys, secrets of webhooks, and signed tokens (JWS). Each is tried once for each
 * run of its characters: linear time.
 */
const secretPattern =
  /at_(?:live|test)_[A-Za-z0-9_-]{20,}|ed25519_private:[A-Za-z0-9_-]+|whsec_[A-Za-z0-9+/=_-]+|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g;

/**
 * A copy with every text in it mapped, names of members included; members of these names become `[redacted]`.
 */
function mapTexts<T>(value: T, map: (text: string) => string, hidden?: ReadonlySet<string>): T;
function mapTexts(value: unknown, map: (text: string) => string, hidden?: ReadonlySet<string>): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((each) => mapTexts(each, map, hidden));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      map(name),
      hidden?.has(name) === true && each !== null ? mark : mapTexts(each, map, hidden),
    ]),
  );
}
