import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import type { Actor, AuditEntry } from '../../model/audit.ts';
import { isId } from '../../model/ids.ts';
import { modes } from '../../model/mode.ts';
import { renderTime } from '../../model/time.ts';
import { closed, FreeForm, nullable, Timestamp } from '../api/fields.ts';
import { parseExactTime } from './attestation.ts';

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

/** Who made a change. `type` is `api_key` or `access_token` today; accept others. */
export const ActorAnswer = closed({
  client_id: nullable(Type.String()),
  id: Type.String(),
  type: Type.String({ pattern: '^[a-z][a-z_]{0,31}$' }),
});

export const renderActor = ({ clientId, id, type }: Actor): Static<typeof ActorAnswer> => ({
  client_id: clientId,
  id,
  type,
});

const parseActor = ({ client_id, id, type }: Static<typeof ActorAnswer>): Actor => ({
  type,
  id,
  clientId: client_id,
});

export const renderOptionalActor = (actor: Actor | null): Static<typeof ActorAnswer> | null =>
  actor === null ? null : renderActor(actor);

const actorShape = Compile(ActorAnswer);

/** Reads what `renderOptionalActor` writes for an actor. Null for anything else. */
export const readActor = (value: unknown): Actor | null =>
  actorShape.Check(value) ? parseActor(value) : null;

/** An entry as answers and exports carry it. Every member is present, null if it has no value. */
export const AuditEntryAnswer = closed({
  account_id: Type.String(),
  actor: ActorAnswer,
  after: nullable(FreeForm),
  audit_id: Type.String(),
  before: nullable(FreeForm),
  created_at: Timestamp,
  hash: Hash,
  mode: Type.Enum(modes),
  operation: Type.String({ pattern: '^[A-Za-z]{1,64}$' }),
  previous_hash: nullable(Hash),
  request_id: Type.String(),
  sequence: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** base64url of 64 bytes. */
  signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
  signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  target: Type.String(),
});
export type AuditEntryAnswer = Static<typeof AuditEntryAnswer>;

/** `GET /audit`. `next_cursor` is the cursor of the next page; null on the last page. */
export const AuditPageAnswer = Type.Object({
  entries: Type.Array(AuditEntryAnswer),
  next_cursor: nullable(Type.String()),
});

/** An entry with its place in its chain: the hashed part. */
export type PlacedAuditFacts = Omit<AuditEntry, 'hash' | 'signature'>;

/** The signed part: the public form without `hash` and `signature`. */
export const auditBody = (entry: PlacedAuditFacts): Omit<AuditEntryAnswer, 'hash' | 'signature'> => ({
  account_id: entry.accountId,
  actor: renderActor(entry.actor),
  after: entry.after,
  audit_id: entry.auditId,
  before: entry.before,
  created_at: renderTime(entry.createdAtMs),
  mode: entry.mode,
  operation: entry.operation,
  previous_hash: entry.previousHash,
  request_id: entry.requestId,
  sequence: entry.sequence,
  signing_key_id: entry.signingKeyId,
  target: entry.target,
});

export const renderAuditEntry = (entry: AuditEntry): AuditEntryAnswer => ({
  ...auditBody(entry),
  hash: entry.hash,
  signature: entry.signature,
});

const shape = Compile(AuditEntryAnswer);

/**
 * Reads exactly what `renderAuditEntry` writes. Null for anything else, including a missing or additional
 * member and another spelling of a time. Verifies neither hash nor signature. `before` and `after` may hold
 * anything that has an RFC 8785 form.
 */
export function parseAuditEntry(value: unknown): AuditEntry | null {
  if (!shape.Check(value) || !isCanonical(value)) return null;
  const createdAtMs = parseExactTime(value.created_at);
  const { audit_id, account_id, request_id } = value;
  if (!isId('aud', audit_id) || !isId('acct', account_id) || !isId('req', request_id)) return null;
  if (createdAtMs === null) return null;
  return {
    auditId: audit_id,
    accountId: account_id,
    mode: value.mode,
    actor: parseActor(value.actor),
    operation: value.operation,
    target: value.target,
    before: value.before,
    after: value.after,
    requestId: request_id,
    createdAtMs,
    sequence: value.sequence,
    previousHash: value.previous_hash,
    signingKeyId: value.signing_key_id,
    hash: value.hash,
    signature: value.signature,
  };
}

/** RFC 8785 has no form for half of a surrogate pair. */
function isCanonical(value: unknown): boolean {
  try {
    canonicalJson(value);
    return true;
  } catch {
    return false;
  }
}
