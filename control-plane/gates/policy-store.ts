import type { Static } from 'typebox';
import { textHash } from '../../shared/crypto/content-hash.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import { type CatalogVersion, policyText } from '../../shared/wire/api/policy-hash.ts';
import {
  type GatePolicyVersion,
  type PolicyAnswer,
  policyMessage,
} from '../../shared/wire/evidence/policy.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { readPage } from '../storage/read-page.ts';

/**
 * Keeps the policy of this version of the gate, signed when it is first used, and resolves to its hash. The
 * caller holds the gate's lock and has written its catalog. `published`: the newest catalog where the caller
 * knows it; null: none. Idempotent.
 */
export async function keepPolicy(
  tx: Transaction,
  { clock, signingKeys }: Pick<SigningDeps, 'clock' | 'signingKeys'>,
  gate: Pick<Gate, 'gateId' | 'policyVersion' | 'trustLevel' | 'constraints' | 'routes'>,
  published?: CatalogVersion | null,
): Promise<string> {
  const { gateId, policyVersion } = gate;
  const catalog = published === undefined ? await newestCatalog(tx, gateId) : published;
  const body = policyText({ ...gate, catalog });
  const hash = textHash(body);
  const nowMs = clock.now();
  const key = signingKeys.current('attestation');
  await tx`
    WITH kept AS (
      INSERT INTO policies (policy_hash, body, signature, signing_key_id, first_used_at_ms)
      VALUES (${hash}, ${body}, ${key.sign(policyMessage(hash))}, ${key.kid}, ${nowMs}::bigint)
      ON CONFLICT (policy_hash) DO NOTHING)
    INSERT INTO gate_policies (gate_id, policy_version, policy_hash, since_ms)
    VALUES (${gateId}, ${policyVersion}, ${hash}, ${nowMs}) ON CONFLICT (gate_id, policy_version) DO NOTHING`;
  return hash;
}

/**
 * Keeps the policy that the gate would have, so that the records which name it can be read. Resolves to its
 * hash.
 */
export async function keepShadowPolicy(
  tx: Transaction,
  { clock, signingKeys }: Pick<SigningDeps, 'clock' | 'signingKeys'>,
  policy: Pick<Gate, 'gateId' | 'trustLevel' | 'constraints' | 'routes'>,
): Promise<string> {
  const body = policyText({ ...policy, catalog: await newestCatalog(tx, policy.gateId) });
  const hash = textHash(body);
  const key = signingKeys.current('attestation');
  await tx`
    INSERT INTO policies (policy_hash, body, signature, signing_key_id, first_used_at_ms)
    VALUES (${hash}, ${body}, ${key.sign(policyMessage(hash))}, ${key.kid}, ${clock.now()}::bigint)
    ON CONFLICT (policy_hash) DO NOTHING`;
  return hash;
}

/** Null: none was published. */
export async function newestCatalog(
  tx: Database | Transaction,
  gateId: GateId,
): Promise<CatalogVersion | null> {
  const [row] = await tx<CatalogVersion[]>`
    SELECT version, content_hash AS "contentHash" FROM catalogs WHERE gate_id = ${gateId}
    ORDER BY version DESC LIMIT 1`;
  return row ?? null;
}

/** Some gates whose policy is not kept yet. */
export const findUnkeptGates = (
  sql: Database,
  limit: number,
): Promise<readonly Pick<Gate, 'gateId' | 'accountId' | 'mode'>[]> =>
  sql<Pick<Gate, 'gateId' | 'accountId' | 'mode'>[]>`
    SELECT g.gate_id AS "gateId", g.account_id AS "accountId", g.mode FROM gates g
    WHERE g.deleted_at_ms IS NULL AND NOT EXISTS (
      SELECT FROM gate_policies p WHERE p.gate_id = g.gate_id AND p.policy_version = g.policy_version)
    LIMIT ${limit}`;

/** A page of the policies that the gate has had, newest first. */
export const listGatePolicies = (
  sql: Database,
  gateId: GateId,
  page: PagePlace,
): Promise<Page<GatePolicyVersion>> =>
  readPage(page, {
    count: () =>
      sql<{ total: number }[]>`SELECT count(*) AS total FROM gate_policies WHERE gate_id = ${gateId}`,
    rows: (limit) => sql<GatePolicyVersion[]>`
      SELECT policy_version AS "policyVersion", policy_hash AS "policyHash", trust_level AS "trustLevel",
        since_ms AS "sinceMs"
      FROM gate_policies JOIN policies USING (policy_hash)
      WHERE gate_id = ${gateId} ${page.behind === null ? sql`` : sql`AND policy_version < ${Number(page.behind)}`}
      ORDER BY policy_version DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ policyVersion }) => String(policyVersion),
  });

/** Null: none of the owner's gates has had it, deleted ones included. */
export async function findPolicy(
  sql: Database,
  { accountId, mode }: Owner,
  hash: string,
): Promise<Static<typeof PolicyAnswer> | null> {
  const [row] = await sql<
    { body: string; signature: string; signing_key_id: string; firstUsedAtMs: UnixMillis }[]
  >`
    SELECT body, signature, signing_key_id, first_used_at_ms AS "firstUsedAtMs" FROM policies
    WHERE policy_hash = ${hash} AND (EXISTS (
      SELECT FROM gate_policies JOIN gates USING (gate_id)
      WHERE gate_policies.policy_hash = ${hash} AND account_id = ${accountId} AND mode = ${mode}) OR EXISTS (
      SELECT FROM gate_shadows JOIN gates USING (gate_id)
      WHERE gate_shadows.policy_hash = ${hash} AND account_id = ${accountId} AND mode = ${mode}))`;
  if (row === undefined) return null;
  const { body, signature, signing_key_id, firstUsedAtMs } = row;
  return {
    body: JSON.parse(body),
    policy_hash: hash,
    signature,
    signing_key_id,
    first_used_at: renderTime(firstUsedAtMs),
  };
}
