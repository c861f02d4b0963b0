import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import { idDigestBytes } from '../../shared/model/id-digest.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { parseFederatedIssuer } from '../../shared/wire/api/federation.ts';
import type { FederationInFeed } from '../../shared/wire/sync/sync-schema.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { KnownEnd } from '../history/history-store.ts';
import { findFederations } from '../issuers/federation-store.ts';
import { isFederationBehind } from '../issuers/take-back-federation.ts';
import type { SidecarState } from './sidecar-state.ts';

/** What the database gives that was taken away by this state, which an account's sidecar knew. */
export async function findKnownEnds(
  tx: Transaction,
  accountId: AccountId,
  state: SidecarState,
): Promise<KnownEnd[]> {
  // As text, because the driver writes no arrays of bytes.
  const hexOf = (digest: string) =>
    Buffer.from(must(decodeBase64url(digest), 'a digest was read')).toString('hex');
  const digestOf = (column: 'passport_id' | 'issuer_id' | 'account_id' | 'name') =>
    tx`encode(substring(sha256(convert_to(${tx(column)}, 'UTF8')) FOR ${idDigestBytes}::int), 'hex')`;
  const digests = [...state.passports.keys()].map(hexOf);
  const standings = [...state.passports.values()].map(({ standing }) => standing);
  const days = [...state.passports.values()].map(({ expiredByDay }) => expiredByDay);
  const passports = await tx<KnownEnd[]>`
    SELECT 'passport' AS kind, passport_id AS id, account_id AS "accountId", mode, known.standing, NULL AS detail, NULL AS "expiredByDay"
    FROM unnest(${digests}::text[], ${standings}::text[]) AS known (digest, standing)
    JOIN passports ON ${digestOf('passport_id')} = known.digest
    WHERE status = 'active' OR (status = 'suspended' AND known.standing = 'revoked')`;
  // A sidecar knows owners among the passports. Names are here of those with a passport or a suspension.
  const owners = await tx<KnownEnd[]>`
    SELECT 'owner' AS kind, name AS id, account_id AS "accountId", mode, 'suspended' AS standing, NULL AS detail, NULL AS "expiredByDay"
    FROM (
      SELECT account_id, mode, ${ownerNameOf(tx)} AS name FROM passports WHERE owner IS NOT NULL
      UNION SELECT account_id, mode, ${ownerNameOf(tx)} FROM owner_standings
      EXCEPT SELECT account_id, mode, ${ownerNameOf(tx)} FROM owner_standings WHERE status = 'suspended'
    ) AS named WHERE ${digestOf('name')} = ANY(${digests}::text[])`;
  // Those of none: they were made, or first seen, after the backup. Any account's sidecars know of them.
  const unnamed = await tx<KnownEnd[]>`
    SELECT 'unnamed' AS kind, translate(encode(decode(known.digest, 'hex'), 'base64'), '+/=', '-_') AS id,
      ${accountId} AS "accountId", NULL AS mode, known.standing, NULL AS detail, known.day AS "expiredByDay"
    FROM unnest(${digests}::text[], ${standings}::text[], ${days}::bigint[]) AS known (digest, standing, day)
    LEFT JOIN (
      SELECT ${digestOf('passport_id')} AS digest FROM passports
      UNION SELECT ${digestOf('name')} FROM (
        SELECT ${ownerNameOf(tx)} AS name FROM passports WHERE owner IS NOT NULL
        UNION SELECT ${ownerNameOf(tx)} FROM owner_standings
      ) AS owners
    ) AS named ON named.digest = known.digest
    WHERE named.digest IS NULL`;
  const issuers = await tx<KnownEnd[]>`
    SELECT 'issuer' AS kind, issuer_id AS id, account_id AS "accountId", mode, 'suspended' AS standing, NULL AS detail, NULL AS "expiredByDay"
    FROM issuers WHERE status <> 'suspended'
      AND ${digestOf('issuer_id')} = ANY(${[...state.issuers].map(hexOf)}::text[])`;
  const accounts = await tx<KnownEnd[]>`
    SELECT 'account' AS kind, account_id AS id, account_id AS "accountId", NULL AS mode, 'suspended' AS standing, NULL AS detail, NULL AS "expiredByDay"
    FROM accounts WHERE status <> 'suspended'
      AND ${digestOf('account_id')} = ANY(${[...state.accounts].map(hexOf)}::text[])`;
  // What was made after the state is in no state: it is of the history that went on.
  const gates = await tx<KnownEnd[]>`
    SELECT CASE WHEN known.id IS NULL THEN 'gate' ELSE 'gate_policy' END AS kind, gate_id AS id,
      account_id AS "accountId", mode, CASE WHEN known.id IS NULL THEN 'deleted' ELSE 'changed' END AS standing, NULL AS detail, NULL AS "expiredByDay"
    FROM gates LEFT JOIN unnest(${[...state.gates.keys()]}::text[], ${[...state.gates.values()]}::int[])
      AS known (id, policy_version) ON known.id = gate_id
    WHERE account_id = ${accountId} AND deleted_at_ms IS NULL
      AND CASE WHEN known.id IS NULL THEN created_at_ms < ${state.takenAtMs}
        ELSE known.policy_version > gates.policy_version END`;
  const apiKeys = await tx<KnownEnd[]>`
    SELECT 'api_key' AS kind, key_id AS id, account_id AS "accountId", mode, 'deleted' AS standing, NULL AS detail, NULL AS "expiredByDay"
    FROM api_keys
    WHERE account_id = ${accountId} AND revoked_at_ms IS NULL AND created_at_ms < ${state.takenAtMs}
      AND (expires_at_ms IS NULL OR expires_at_ms > ${state.takenAtMs}) AND key_id <> ALL(${[...state.apiKeys]}::text[])`;
  const federations = await findBehind(tx, [...state.federations.values()]);
  const own = federations.filter((end) => end.accountId === accountId);
  return [...passports, ...owners, ...unnamed, ...issuers, ...own, ...accounts, ...gates, ...apiKeys];
}

/** Issuers of others of which the database has an earlier state than these. */
async function findBehind(
  sql: Database | Transaction,
  told: readonly FederationInFeed[],
): Promise<KnownEnd[]> {
  const stored = await findFederations(
    sql,
    told.map(({ issuer_id }) => issuer_id),
  );
  return told.flatMap((detail): KnownEnd[] => {
    const here = stored.get(detail.issuer_id);
    if (here === undefined || !isFederationBehind(here, parseFederatedIssuer(detail))) return [];
    const { issuerId: id, accountId, mode } = here;
    return [{ kind: 'federation', id, accountId, mode, standing: 'changed', detail, expiredByDay: null }];
  });
}

/** `ownerName` in SQL. */
const ownerNameOf = (sql: Database | Transaction) => sql`concat_ws(':', 'owner', account_id, mode, owner)`;

/** Which of these still stand in the database as if nothing had been. */
export async function stillOpen(sql: Database, ends: readonly KnownEnd[]): Promise<KnownEnd[]> {
  const ids = (kind: KnownEnd['kind']) => ends.filter((end) => end.kind === kind).map(({ id }) => id);
  const rows = await sql<{ kind: KnownEnd['kind']; id: string; status: string }[]>`
    SELECT 'passport' AS kind, passport_id AS id, status FROM passports
      WHERE passport_id = ANY(${ids('passport')}::text[]) AND status IN ('active', 'suspended')
    UNION ALL SELECT 'owner', id, coalesce(status, 'active')
      FROM unnest(${ids('owner')}::text[]) AS named (id) LEFT JOIN owner_standings ON ${ownerNameOf(sql)} = named.id
    UNION ALL SELECT 'unnamed', named.id, coalesce(standing, 'active') FROM unnest(${ids('unnamed')}::text[]) AS named (id)
      LEFT JOIN unnamed_ends ON digest = decode(translate(named.id, '-_', '+/') || '==', 'base64')
    UNION ALL SELECT 'issuer', issuer_id, status FROM issuers
      WHERE issuer_id = ANY(${ids('issuer')}::text[]) AND status <> 'suspended'
    UNION ALL SELECT 'account', account_id, status FROM accounts
      WHERE account_id = ANY(${ids('account')}::text[]) AND status <> 'suspended'
    UNION ALL SELECT 'gate', gate_id, 'live' FROM gates
      WHERE gate_id = ANY(${ids('gate')}::text[]) AND deleted_at_ms IS NULL
    UNION ALL SELECT 'gate_policy', gate_id, 'live' FROM gates
      WHERE gate_id = ANY(${ids('gate_policy')}::text[]) AND deleted_at_ms IS NULL
    UNION ALL SELECT 'api_key', key_id, 'live' FROM api_keys
      WHERE key_id = ANY(${ids('api_key')}::text[]) AND revoked_at_ms IS NULL`;
  const behind = await findBehind(
    sql,
    ends.flatMap(({ detail }) => detail ?? []),
  );
  const isOpen = new Set(behind.map(({ id }) => id));
  return ends.filter((end) =>
    end.kind === 'federation'
      ? isOpen.has(end.id)
      : rows.some(({ kind, id, status }) => kind === end.kind && id === end.id && status !== end.standing),
  );
}
