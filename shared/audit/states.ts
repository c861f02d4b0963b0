import { canonicalJson } from '../crypto/canonical-json.ts';
import { textHash } from '../crypto/content-hash.ts';
import type { AuditState } from '../model/audit.ts';
import { limits } from '../model/limits.ts';

export interface AuditStates {
  readonly before: AuditState | null;
  readonly after: AuditState | null;
}

/**
 * The states of a change in its audit entry, without secrets and at most `limits.auditStateBytesMax` each. If
 * the resource existed before and after, only the members that differ. Null: nothing differs, so there is no
 * entry.
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

/** An oversized state is replaced by its hash, so that a copy can still be proven to be that state. */
function bounded(state: AuditState): AuditState {
  const text = canonicalJson(state);
  const bytes = Buffer.byteLength(text);
  return bytes <= limits.auditStateBytesMax ? state : { truncated: true, bytes, hash: textHash(text) };
}

/** RFC 8785 has no form for half of a surrogate pair, and free-form members may hold one. */
const wellFormed = <T>(value: T): T => mapTexts(value, (text) => text.toWellFormed());

/**
 * The second line of defence: states are rendered without secrets already. It covers secrets that callers put
 * into free-form members, and mistakes of a renderer.
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
 * API keys, agents' private keys, secrets of webhooks, and signed tokens (JWS). Linear time: each run of
 * characters is tried once.
 */
const secretPattern =
  /at_(?:live|test)_[A-Za-z0-9_-]{20,}|ed25519_private:[A-Za-z0-9_-]+|whsec_[A-Za-z0-9+/=_-]+|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g;

/** A copy with all texts mapped, including member names; `hidden` members become `[redacted]`. */
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
