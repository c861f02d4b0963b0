import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { OAuthDeps } from './deps.ts';
import { oauthLimits } from './limits.ts';

/** A client's registration (RFC 7591), unverified. */
export interface RegisteredClient {
  readonly clientId: string;
  readonly clientName: string | null;
  readonly redirectUris: readonly string[];
  readonly createdAtMs: UnixMillis;
}

type StoreDeps = Pick<OAuthDeps, 'sql' | 'clock'>;

const idPattern = /^client_[A-Za-z0-9_-]{22}$/;

const isRegisteredId = (clientId: string): boolean => idPattern.test(clientId);

/**
 * Registers a client for `oauthLimits.registrationKeptMs`, or for the life of its grants if a person consents
 * before. Also removes some expired clients, and the oldest unused ones beyond
 * `oauthLimits.unusedClientsMax`: the table stays bounded, and a client in use is never evicted.
 */
export async function registerClient(
  { sql, clock, random }: StoreDeps & Pick<OAuthDeps, 'random'>,
  wanted: Pick<RegisteredClient, 'clientName' | 'redirectUris'>,
): Promise<RegisteredClient> {
  const nowMs = clock.now();
  const clientId = `client_${encodeBase64url(random.bytes(16))}`;
  await sql`
    WITH expired AS (
      DELETE FROM oauth_clients WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM oauth_clients WHERE expires_at_ms <= ${nowMs}
        ORDER BY expires_at_ms LIMIT ${oauthLimits.artifactsPerTrimMax} FOR UPDATE SKIP LOCKED))
    ), surplus AS (
      DELETE FROM oauth_clients WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM oauth_clients WHERE used_at_ms IS NULL
        ORDER BY created_at_ms DESC OFFSET ${oauthLimits.unusedClientsMax - 1} FOR UPDATE SKIP LOCKED))
    )
    INSERT INTO oauth_clients (client_id, client_name, redirect_uris, created_at_ms, expires_at_ms)
    VALUES (${clientId}, ${wanted.clientName}, ${[...wanted.redirectUris]}, ${nowMs}, ${nowMs + oauthLimits.registrationKeptMs})`;
  return { ...wanted, clientId, createdAtMs: nowMs };
}

/** Null: there is none, or its time is over. */
export async function findRegisteredClient(
  { sql, clock }: StoreDeps,
  clientId: string,
): Promise<RegisteredClient | null> {
  if (!isRegisteredId(clientId)) return null;
  const [row] = await sql<RegisteredClient[]>`
    SELECT client_id AS "clientId", client_name AS "clientName", redirect_uris AS "redirectUris", created_at_ms AS "createdAtMs"
    FROM oauth_clients WHERE client_id = ${clientId} AND expires_at_ms > ${clock.now()}`;
  return row ?? null;
}

/** A person has consented: the client is kept as long as the new grant. */
export async function keepRegisteredClient({ sql, clock }: StoreDeps, clientId: string): Promise<void> {
  if (!isRegisteredId(clientId)) return;
  const nowMs = clock.now();
  await sql`
    UPDATE oauth_clients SET used_at_ms = ${nowMs}, expires_at_ms = ${nowMs + oauthLimits.grantMs}
    WHERE client_id = ${clientId}`;
}
