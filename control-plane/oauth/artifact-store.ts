import type { AdapterPayload } from 'oidc-provider';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes } from '../../shared/crypto/seal.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { toSeconds } from '../../shared/model/time.ts';
import { textSeal } from '../http/answer-secrets.ts';
import type { OAuthDeps, TokenSubject } from './deps.ts';
import { oauthLimits } from './limits.ts';

type StoreDeps = Pick<OAuthDeps, 'sql' | 'clock' | 'random' | 'sealer'>;

/** One artifact by its value: a token, a code, the id in a cookie. */
export interface ArtifactName {
  readonly model: string;
  readonly id: string;
}

interface ArtifactRow {
  readonly model: string;
  readonly idHash: string;
  readonly sealedPayload: string;
  readonly consumedAtMs: UnixMillis | null;
}

/**
 * Inserts or replaces an artifact. Also removes some expired ones (faster than they come, and cheap for each
 * request), and the oldest of its kind and parent beyond `oauthLimits.artifactsPerParentMax`.
 */
export async function putArtifact(
  deps: StoreDeps,
  { model, id }: ArtifactName,
  { payload, endsAtMs }: { readonly payload: AdapterPayload; readonly endsAtMs: UnixMillis },
): Promise<void> {
  const { sql, clock } = deps;
  const idHash = sha256Hex(id);
  const sealed = sealOf(deps, { model, idHash }).seal(JSON.stringify(payload));
  const { grantId, accountId, clientId, uid, userCode } = payload;
  const alias = uid ?? userCode;
  // The tokens of a client for many people do not make room for each other.
  const parentHash = hashOrNull(grantId ?? accountId ?? subjectOf(payload)?.passportId ?? clientId);
  await sql`
    WITH expired AS (
      DELETE FROM oauth_artifacts WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM oauth_artifacts WHERE expires_at_ms <= ${clock.now()}
        ORDER BY expires_at_ms LIMIT ${oauthLimits.artifactsPerTrimMax} FOR UPDATE SKIP LOCKED))
    ), surplus AS (
      DELETE FROM oauth_artifacts WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM oauth_artifacts
        WHERE parent_hash = ${parentHash} AND model = ${model} AND id_hash <> ${idHash}
        ORDER BY expires_at_ms DESC OFFSET ${oauthLimits.artifactsPerParentMax - 1} FOR UPDATE SKIP LOCKED))
    )
    INSERT INTO oauth_artifacts (model, id_hash, sealed_payload, parent_hash, alias_hash, expires_at_ms)
    VALUES (${model}, ${idHash}, ${sealed}, ${parentHash}, ${hashOrNull(alias)}, ${endsAtMs})
    ON CONFLICT (id_hash, model) DO UPDATE SET
      sealed_payload = excluded.sealed_payload, parent_hash = excluded.parent_hash,
      alias_hash = excluded.alias_hash, expires_at_ms = excluded.expires_at_ms`;
}

/** Null: there is none, or its time is over. */
export async function findArtifact(
  deps: StoreDeps,
  { model, id }: ArtifactName,
): Promise<AdapterPayload | null> {
  const rows = await deps.sql<ArtifactRow[]>`
    SELECT ${columns(deps)} FROM oauth_artifacts
    WHERE id_hash = ${sha256Hex(id)} AND model = ${model} AND expires_at_ms > ${deps.clock.now()}`;
  return open(deps, rows);
}

/**
 * An access token, found only with its origin: a person's token needs its grant, a key's own token nothing
 * more. So a token written during the revocation of its grant is useless too.
 */
export async function findAccessToken(deps: StoreDeps, id: string): Promise<AdapterPayload | null> {
  const { sql } = deps;
  const nowMs = deps.clock.now();
  const rows = await sql<ArtifactRow[]>`
    SELECT ${columns(deps)} FROM oauth_artifacts AS token
    WHERE id_hash = ${sha256Hex(id)} AND expires_at_ms > ${nowMs} AND (model = 'ClientCredentials' OR model = 'AccessToken' AND EXISTS (
      SELECT FROM oauth_artifacts
      WHERE id_hash = token.parent_hash AND model = 'Grant' AND expires_at_ms > ${nowMs}))`;
  return open(deps, rows);
}

/** By its second name, see `oauth_artifacts.alias_hash`. */
export async function findArtifactByAlias(
  deps: StoreDeps,
  { model, id: alias }: ArtifactName,
): Promise<AdapterPayload | null> {
  const rows = await deps.sql<ArtifactRow[]>`
    SELECT ${columns(deps)} FROM oauth_artifacts
    WHERE alias_hash = ${sha256Hex(alias)} AND model = ${model} AND expires_at_ms > ${deps.clock.now()}`;
  return open(deps, rows);
}

/** Inserts an artifact that says nothing but its name. Of concurrent callers exactly one gets true. */
export async function claimArtifact(
  deps: StoreDeps,
  { model, id }: ArtifactName,
  endsAtMs: UnixMillis,
): Promise<boolean> {
  const idHash = sha256Hex(id);
  const sealed = sealOf(deps, { model, idHash }).seal('{}');
  const claimed = await deps.sql`
    INSERT INTO oauth_artifacts (model, id_hash, sealed_payload, expires_at_ms)
    VALUES (${model}, ${idHash}, ${sealed}, ${endsAtMs}) ON CONFLICT (id_hash, model) DO NOTHING`;
  return claimed.count === 1;
}

/** Marks it as used. Of concurrent callers exactly one gets true. */
export async function consumeArtifact(
  { sql, clock }: StoreDeps,
  { model, id }: ArtifactName,
): Promise<boolean> {
  const used = await sql`
    UPDATE oauth_artifacts SET consumed_at_ms = ${clock.now()}
    WHERE id_hash = ${sha256Hex(id)} AND model = ${model} AND consumed_at_ms IS NULL`;
  return used.count === 1;
}

/** Counts a try. False: the maximum is reached, or the artifact is gone. */
export async function countAttempt(
  { sql, clock }: StoreDeps,
  { model, id, attemptsMax }: ArtifactName & { readonly attemptsMax: number },
): Promise<boolean> {
  const counted = await sql`
    UPDATE oauth_artifacts SET attempts = attempts + 1
    WHERE id_hash = ${sha256Hex(id)} AND model = ${model} AND attempts < ${attemptsMax}
      AND expires_at_ms > ${clock.now()}`;
  return counted.count === 1;
}

export async function removeArtifact({ sql }: StoreDeps, { model, id }: ArtifactName): Promise<void> {
  await sql`DELETE FROM oauth_artifacts WHERE id_hash = ${sha256Hex(id)} AND model = ${model}`;
}

/** Removes all artifacts of this model under the grant. */
export async function removeArtifactsOfGrant(
  { sql }: StoreDeps,
  { model, id: grantId }: ArtifactName,
): Promise<void> {
  await sql`DELETE FROM oauth_artifacts WHERE parent_hash = ${sha256Hex(grantId)} AND model = ${model}`;
}

const columns = ({ sql }: StoreDeps) =>
  sql`model, id_hash AS "idHash", sealed_payload AS "sealedPayload", consumed_at_ms AS "consumedAtMs"`;

function open(deps: StoreDeps, [row]: readonly ArtifactRow[]): AdapterPayload | null {
  if (row === undefined) return null;
  const payload: AdapterPayload = JSON.parse(sealOf(deps, row).open(row.sealedPayload));
  return row.consumedAtMs === null ? payload : { ...payload, consumed: toSeconds(row.consumedAtMs) };
}

export const artifactSealContext = ({ model, idHash }: Pick<ArtifactRow, 'model' | 'idHash'>): string =>
  `oauth_artifacts/${model}/${idHash}`;

const sealOf = ({ sealer, random }: StoreDeps, row: Pick<ArtifactRow, 'model' | 'idHash'>) =>
  textSeal(sealer, artifactSealContext(row), () => random.bytes(nonceBytes));

/** The subject of an identity assertion, for whom a token is. */
export const subjectOf = ({ extra }: AdapterPayload): TokenSubject | null =>
  (extra as { readonly subject?: TokenSubject } | undefined)?.subject ?? null;

const hashOrNull = (value: string | undefined): string | null =>
  value === undefined ? null : sha256Hex(value);
