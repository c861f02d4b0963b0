import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import type { ApiKey } from '../../model/api-key.ts';
import { limits } from '../../model/limits.ts';
import { type Mode, modes } from '../../model/mode.ts';
import { parseScope, type Scope, scopes } from '../../model/scopes.ts';
import { parseTime, renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import type { ApiKeyBody } from '../sync/sync-schema.ts';
import { closed, Name, nullable, Timestamp } from './fields.ts';

/** `POST /api-keys` */
export const ApiKeyCreation = closed({
  name: Name,
  scopes: Type.Array(Type.String(), { minItems: 1, maxItems: limits.scopesPerKeyMax }),
  expires_at: Type.Optional(nullable(Type.String())),
  mode: Type.Optional(Type.Enum(modes)),
});

/**
 * `POST /api-keys/:id/roll`, and the same for a webhook's secret: how long the old one works beside the new
 * one, in seconds. Default 0.
 */
export const ApiKeyRoll = closed({
  overlap_s: Type.Optional(Type.Integer({ minimum: 0, maximum: limits.keyOverlapMsMax / 1_000 })),
});

export const ApiKeyAnswer = Type.Object({
  key_id: Type.String(),
  name: Type.String(),
  scopes: Type.Array(Type.Enum(scopes)),
  mode: Type.Enum(modes),
  prefix: Type.String(),
  last4: Type.String(),
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  last_used_at: nullable(Timestamp),
});

/** With `key`, which is shown only once: a replay of the answer (contract §12) lacks it. */
export const NewApiKeyAnswer = Type.Evaluate(
  Type.Intersect([ApiKeyAnswer, Type.Object({ key: Type.Optional(Type.String()) })]),
);

export const ApiKeyDeletion = Type.Object({
  key_id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

export interface NewApiKey {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: UnixMillis | null;
  /** Null: the mode of the creating key. */
  readonly mode: Mode | null;
}

export function parseApiKeyCreation(body: Static<typeof ApiKeyCreation>, nowMs: UnixMillis): NewApiKey {
  return {
    name: body.name,
    scopes: parseScopes(body.scopes),
    expiresAtMs: parseExpiry(body.expires_at ?? null, nowMs),
    mode: body.mode ?? null,
  };
}

/** Aliases resolved, duplicates dropped. */
function parseScopes(texts: readonly string[]): readonly Scope[] {
  const read = texts.map((text, index) => {
    const scope = parseScope(text);
    if (scope === null) throw invalidRequest(`scopes.${index}`, 'This is not a scope of this service.');
    return scope;
  });
  return [...new Set(read)];
}

function parseExpiry(text: string | null, nowMs: UnixMillis): UnixMillis | null {
  if (text === null) return null;
  const expiresAtMs = parseTime(text);
  if (expiresAtMs === null) throw invalidRequest('expires_at', 'expires_at must be an ISO 8601 date-time.');
  if (expiresAtMs <= nowMs) throw invalidRequest('expires_at', 'expires_at must lie in the future.');
  return expiresAtMs;
}

export const renderApiKey = (key: ApiKey): Static<typeof ApiKeyAnswer> => ({
  key_id: key.keyId,
  name: key.name,
  scopes: [...key.scopes],
  mode: key.mode,
  prefix: key.prefix,
  last4: key.last4,
  created_at: renderTime(key.createdAtMs),
  expires_at: renderOptionalTime(key.expiresAtMs),
  last_used_at: renderOptionalTime(key.lastUsedAtMs),
});

/**
 * A key as the sidecars of its account know it: enough to recognise a caller, not enough to impersonate one.
 */
export const renderApiKeyForSidecars = (key: ApiKey): ApiKeyBody => ({
  key_id: key.keyId,
  key_hash: key.keyHash,
  mode: key.mode,
  scopes: key.scopes,
  expires_at_ms: key.expiresAtMs,
});
