import { expect } from 'vitest';
import { verifyCatalog } from '../../../clients/node/src/verify.ts';
import type { Database, Transaction } from '../../../control-plane/base/database.ts';
import { renderJwks } from '../../../shared/crypto/keyset.ts';
import { untilAnswer } from '../base/until.ts';
import { outOfBalance } from '../database/postgres.ts';
import type { Api } from './api.ts';
import { expectSoundStore } from './test-sidecar.ts';

/** As the global feed names it. */
const digestOf = (column: string) =>
  `translate(encode(substring(sha256(convert_to(${column}, 'UTF8')) FOR 16), 'base64'), '+/=', '-_')`;

/**
 * What must hold of the whole database between any two requests, whatever they were: nothing is half written.
 * Each rule is a query that finds the rows that break it.
 */
export const rules = {
  'revisions of a feed run without holes up to its head': `
    SELECT f.feed_id FROM feeds f LEFT JOIN changes c USING (feed_id) GROUP BY f.feed_id, f.revision
    HAVING count(c.revision) <> f.revision OR coalesce(max(c.revision), 0) <> f.revision`,
  'no lease has given back more than it had': `
    SELECT lease_id FROM quota_leases l WHERE l.units < 0
      OR l.used + least(l.units, coalesce((SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)) < 0`,
  'every account has a feed': `
    SELECT account_id FROM accounts WHERE account_id NOT IN (SELECT feed_id FROM feeds)`,
  'the last change of a gate is what the gate is': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'gate_id') body->>'gate_id' AS gate_id, feed_id, kind, body FROM changes
      WHERE kind IN ('gate.put', 'gate.delete') AND NOT body ? 'federation' ORDER BY body->>'gate_id', revision DESC
    )
    SELECT gate_id FROM gates g FULL JOIN told t USING (gate_id)
    WHERE t.feed_id IS DISTINCT FROM g.account_id
      OR t.kind IS DISTINCT FROM CASE WHEN g.deleted_at_ms IS NULL THEN 'gate.put' ELSE 'gate.delete' END
      OR (t.kind = 'gate.put' AND (
        (t.body->>'version')::bigint <> g.version OR t.body->>'trust_level' <> g.trust_level OR t.body->>'mode' <> g.mode
        OR jsonb_strip_nulls(t.body->'constraints' || coalesce(t.body->'constraints_patch', '{}')
            || coalesce(t.body->'conditions_patch', '{}'))
          <> g.constraints #- '{approvals,approvers}' #- '{approvals,passkey}' #- '{holds}'
        OR coalesce((t.body->>'hold_expires_in_ms')::bigint, 3600000) <> coalesce((g.constraints->'holds'->>'expires_in_s')::bigint, 3600) * 1000
        OR nullif(t.body->'catalog', 'null') IS DISTINCT FROM g.catalog_prices
        OR coalesce(t.body->'catalog_approvals', '[]') <> to_jsonb(g.catalog_approvals)))`,
  'the last change of a gate has its standing approvals in force': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'gate_id') body->>'gate_id' AS gate_id, kind, body FROM changes
      WHERE kind IN ('gate.put', 'gate.delete') AND NOT body ? 'federation' ORDER BY body->>'gate_id', revision DESC
    ), named AS (
      SELECT gate_id AS at_gate, standing->>'standing_approval_id' AS name
      FROM told, jsonb_array_elements(coalesce(body->'standing_approvals', '[]')) AS standing
    )
    SELECT name, standing_approval_id FROM named FULL JOIN standing_approvals s ON (at_gate, name) = (gate_id, standing_approval_id)
    WHERE CASE WHEN name IS NOT NULL THEN gate_id IS NULL OR coalesce(ended_at_ms < expires_at_ms, false)
      ELSE ended_at_ms IS NULL AND expires_at_ms > (SELECT max(created_at_ms) FROM changes) END`,
  'the last change of an API key is what the key is': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'key_id') body->>'key_id' AS key_id, feed_id, kind, body FROM changes
      WHERE kind IN ('api_key.put', 'api_key.delete') ORDER BY body->>'key_id', revision DESC
    )
    SELECT key_id FROM api_keys k FULL JOIN told t USING (key_id)
    WHERE t.feed_id IS DISTINCT FROM k.account_id
      OR t.kind IS DISTINCT FROM CASE WHEN k.revoked_at_ms IS NULL THEN 'api_key.put' ELSE 'api_key.delete' END
      OR (t.kind = 'api_key.put' AND (
        t.body->>'key_hash' <> k.key_hash OR (t.body->>'expires_at_ms')::bigint IS DISTINCT FROM k.expires_at_ms))`,
  'the last change of a passport is its standing': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'passport') body->>'passport' AS digest,
        CASE WHEN body->>'in_wallet' = 'true' THEN 'active' ELSE body->>'standing' END AS standing FROM changes
      WHERE kind = 'passport.standing' ORDER BY body->>'passport', revision DESC
    ), named AS (
      SELECT passport_id, status FROM passports
      UNION ALL SELECT concat_ws(':', 'owner', account_id, mode, owner), status FROM owner_standings
    ), standings AS (
      SELECT ${digestOf('passport_id')} AS digest, passport_id, status FROM named
      UNION ALL SELECT translate(encode(digest, 'base64'), '+/=', '-_'), 'unnamed', standing FROM unnamed_ends
    )
    SELECT passport_id FROM standings p FULL JOIN told t USING (digest)
    WHERE p.passport_id IS NULL OR (p.status <> 'expired' AND coalesce(t.standing, 'active') <> p.status)`,
  'the last change of an issuer is its standing': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'issuer') body->>'issuer' AS digest, body->>'standing' AS standing FROM changes
      WHERE kind = 'issuer.standing' AND body->>'of' IS NULL ORDER BY body->>'issuer', revision DESC
    )
    SELECT issuer_id FROM issuers i FULL JOIN told t ON t.digest = ${digestOf('issuer_id')} WHERE coalesce(t.standing, 'active') IS DISTINCT FROM i.status`,
  'the last change of a wallet says whether it is frozen': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'issuer') body->>'issuer' AS key, body->>'standing' AS standing FROM changes
      WHERE kind = 'issuer.standing' AND body->>'of' = 'wallet' ORDER BY body->>'issuer', revision DESC
    )
    SELECT wallet_id FROM wallets w FULL JOIN told t ON t.key = w.wallet_key
    WHERE w.wallet_id IS NULL
      OR (coalesce(t.standing, 'active') = 'suspended') <> (w.status = 'frozen' AND w.deleted_at_ms IS NULL)`,
  'sidecars are told of every passport in a wallet that its token does not name': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'passport') body->>'passport' AS digest, body->>'in_wallet' = 'true' AS in_wallet FROM changes
      WHERE kind = 'passport.standing' ORDER BY body->>'passport', revision DESC
    )
    SELECT passport_id FROM passports p LEFT JOIN passport_wallets w USING (passport_id)
    LEFT JOIN told t ON t.digest = ${digestOf('passport_id')}
    WHERE p.status = 'active' AND coalesce(t.in_wallet, false) <> coalesce(w.wallet_id IS NOT NULL AND NOT w.is_in_token, false)`,
  'a wallet knows its path and what its children set aside': `
    SELECT w.wallet_id FROM wallets w LEFT JOIN wallets p ON p.wallet_id = w.parent_id
    WHERE w.path <> ARRAY[w.wallet_id] || coalesce(p.path, '{}')
      OR (w.deleted_at_ms IS NULL AND coalesce((w.set_aside->>'daily_usd')::bigint, 0) <> coalesce(
        (SELECT sum((c.limits->>'daily_usd')::bigint) FROM wallets c
          WHERE c.parent_id = w.wallet_id AND c.share = 'reserved' AND c.deleted_at_ms IS NULL), 0))`,
  'the last change of an account is its standing': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'account') body->>'account' AS digest, body->>'standing' AS standing FROM changes
      WHERE kind = 'account.standing' ORDER BY body->>'account', revision DESC
    )
    SELECT account_id FROM accounts a FULL JOIN told t ON t.digest = ${digestOf('account_id')} WHERE coalesce(t.standing, 'active') IS DISTINCT FROM a.status`,
  'a passport is of the account and mode of its issuer': `
    SELECT passport_id FROM passports p JOIN issuers i USING (issuer_id) WHERE (p.account_id, p.mode) <> (i.account_id, i.mode)`,
  'a policy is what its hash says, and the newest one of a gate is what was told': `
    SELECT policy_hash FROM policies WHERE policy_hash <> 'sha256:' || encode(sha256(convert_to(body, 'UTF8')), 'hex')
    UNION ALL
    SELECT g.gate_id FROM gates g JOIN gate_policies USING (gate_id, policy_version) JOIN policies p USING (policy_hash)
    LEFT JOIN (
      SELECT DISTINCT ON (body->>'gate_id') body->>'gate_id' AS gate_id, body->>'policy_hash' AS told_hash FROM changes
      WHERE kind = 'gate.put' ORDER BY body->>'gate_id', revision DESC
    ) AS told ON told.gate_id = g.gate_id
    WHERE p.body::jsonb->'constraints' <> g.constraints OR p.trust_level <> g.trust_level
      OR policy_hash IS DISTINCT FROM told_hash`,
  'versions of a catalog, and entries of a version, are counted without holes': `
    SELECT gate_id, 0 AS version FROM catalogs GROUP BY gate_id HAVING max(version) <> count(*)
    UNION ALL
    SELECT gate_id, version FROM catalog_entries GROUP BY gate_id, version HAVING max(position) + 1 <> count(*)`,
  'a gate has the prices and approvals of its newest catalog': `
    SELECT g.gate_id FROM gates g LEFT JOIN (SELECT gate_id, max(version) AS version FROM catalogs GROUP BY gate_id) c USING (gate_id)
    WHERE (g.catalog_prices IS NULL) <> (c.version IS NULL)
      OR ARRAY(SELECT jsonb_object_keys(g.catalog_prices) ORDER BY 1) <>
        ARRAY(SELECT entry->>'key' FROM catalog_entries e WHERE (e.gate_id, e.version) = (c.gate_id, c.version) ORDER BY 1)
      OR ARRAY(SELECT unnest(g.catalog_approvals) ORDER BY 1) <> ARRAY(
        SELECT entry->>'key' FROM catalog_entries e
        WHERE (e.gate_id, e.version) = (c.gate_id, c.version) AND (entry->>'requires_approval')::boolean ORDER BY 1)`,
  'what is discovered is the newest catalog of every live gate of an active account': `
    WITH offered AS (
      SELECT e.gate_id, e.entry->>'key' AS permission_key, e.version, g.trust_level
      FROM gates g JOIN accounts USING (account_id) JOIN catalog_entries e USING (gate_id)
      WHERE g.deleted_at_ms IS NULL AND g.mode = 'live' AND accounts.status = 'active'
        AND e.version = (SELECT max(version) FROM catalogs c WHERE c.gate_id = g.gate_id)
    )
    SELECT * FROM offered FULL JOIN discovery_entries d USING (gate_id, permission_key, version, trust_level)
    WHERE d.position IS NULL OR NOT EXISTS (
      SELECT FROM offered o WHERE (o.gate_id, o.permission_key) = (d.gate_id, d.permission_key))`,
  'what is discovered is counted': `
    WITH terms AS (
      SELECT unnest(ARRAY[permission_key, area, category]) AS term, coalesce(currency, '') AS currency,
        coalesce(pricing_model, '') AS pricing_model, trust_level FROM discovery_entries
    ), recount AS (
      SELECT term, currency, pricing_model, trust_level, count(*) AS entries FROM terms WHERE term IS NOT NULL GROUP BY 1, 2, 3, 4
    )
    SELECT * FROM recount FULL JOIN (SELECT * FROM discovery_counts WHERE entries > 0) AS kept
      USING (term, currency, pricing_model, trust_level)
    WHERE recount.entries IS DISTINCT FROM kept.entries`,
  'what a stored answer says was created is there': `
    SELECT a.idempotency_key FROM idempotent_answers a, LATERAL (SELECT a.body::jsonb AS body) b
    WHERE a.status = 201 AND NOT EXISTS (
      SELECT FROM passports WHERE passport_id = b.body->>'passport_id'
      UNION ALL SELECT FROM catalogs WHERE gate_id = b.body->>'gate_id' AND version = (b.body->>'version')::bigint
      UNION ALL SELECT FROM gates WHERE gate_id = b.body->>'gate_id' AND b.body->>'version' IS NULL
      UNION ALL SELECT FROM templates WHERE template_id = b.body->>'template_id'
      UNION ALL SELECT FROM issuers WHERE issuer_id = b.body->>'issuer_id' AND b.body->>'passport_id' IS NULL
      UNION ALL SELECT FROM api_keys WHERE key_id = b.body->>'key_id'
      UNION ALL SELECT FROM accounts WHERE account_id = b.body->>'account_id'
      UNION ALL SELECT FROM wallets WHERE wallet_id = b.body->>'wallet_id' AND b.body->>'passport_id' IS NULL
      UNION ALL SELECT FROM standing_approvals WHERE standing_approval_id = b.body->>'standing_approval_id'
      -- A deleted webhook or channel leaves no row, and a deleted user neither.
      UNION ALL SELECT WHERE b.body->>'webhook_id' IS NOT NULL OR b.body->>'channel_id' IS NOT NULL OR b.body->'user'->>'user_id' IS NOT NULL)`,
  'what waits to be sent has an event, and what was attempted has its attempts': `
    SELECT d.delivery_id FROM webhook_deliveries d LEFT JOIN webhook_events v USING (event_id)
    WHERE v.event_id IS NULL OR d.attempts <> (SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.delivery_id)`,
  'each resolution of an approval is on record, once': `
    WITH expected AS (
      SELECT passport_id, gate_id, request_hash, resolution, approval_id AS refers_to, count(*) AS times
      FROM approvals a, LATERAL (VALUES
        ('approved', a.resolved_at_ms IS NOT NULL AND a.status <> 'denied'),
        ('denied', a.status = 'denied'),
        ('expired', a.status = 'expired' AND a.due_at_ms IS NULL)) AS r (resolution, has_happened)
      WHERE has_happened GROUP BY 1, 2, 3, 4, 5
    ), said AS (
      SELECT *, lead(resolution) OVER (PARTITION BY refers_to ORDER BY sequence) AS and_then FROM attestations
      -- Those of PERMITs are outcomes of what was bought.
      WHERE resolution IS NOT NULL AND starts_with(coalesce(refers_to, ''), 'att_') IS FALSE
    ), recorded AS (
      SELECT passport_id, gate_id, request_hash, resolution, refers_to, count(*) AS times FROM said
      -- An answer that was undone is followed by its void.
      WHERE resolution <> 'voided' AND and_then IS DISTINCT FROM 'voided' GROUP BY 1, 2, 3, 4, 5
    )
    SELECT * FROM expected FULL JOIN recorded USING (passport_id, gate_id, request_hash, resolution, refers_to)
    WHERE expected.times IS DISTINCT FROM recorded.times`,
  'what used an approval is on record': `
    SELECT approval_id FROM approvals WHERE status = 'used' AND attestation_id NOT IN (
      SELECT attestation_id FROM attestations WHERE decision = 'PERMIT')`,
  'a PERMIT counts what its last record says, and an open hold ends': `
    WITH last AS (
      SELECT DISTINCT ON (refers_to) refers_to, attestation_id, amount_micro_usd FROM attestations
      WHERE resolution <> 'voided' AND starts_with(refers_to, 'att_') ORDER BY refers_to, sequence DESC
    )
    SELECT p.attestation_id FROM permit_outcomes p LEFT JOIN last ON last.refers_to = p.attestation_id
    WHERE last.attestation_id IS DISTINCT FROM p.record_id
      OR NOT p.is_void AND last.attestation_id IS NOT NULL AND last.amount_micro_usd IS DISTINCT FROM p.counts_micro_usd
      OR p.is_void AND p.counts_micro_usd > 0
      OR (p.hold_status = 'open') IS DISTINCT FROM (p.due_at_ms IS NOT NULL) AND p.hold_status IS NOT NULL`,
  'each purpose has one key that is not retired': `
    SELECT purpose FROM signing_keys GROUP BY purpose HAVING count(*) FILTER (WHERE retired_at_ms IS NULL) <> 1`,
  'the last change of a signing key is what the key is': `
    WITH told AS (
      SELECT DISTINCT ON (body->>'kid') body->>'kid' AS kid, body FROM changes
      WHERE kind = 'signing_key.put' ORDER BY body->>'kid', revision DESC
    )
    SELECT kid FROM told t LEFT JOIN signing_keys k USING (kid)
    WHERE k.kid IS NULL OR (t.body->>'compromised')::boolean <> k.compromised
      OR (t.body->>'retiredAtMs')::bigint IS DISTINCT FROM k.retired_at_ms`,
} as const;

/** The rules that do not hold, each with some rows that break it. */
export async function brokenRules(
  sql: Database | Transaction,
  of: Readonly<Record<string, string>> = rules,
): Promise<Readonly<Record<string, unknown>>> {
  const broken: Record<string, unknown> = {};
  for (const [rule, query] of Object.entries(of)) {
    const rows = await sql.unsafe(query);
    if (rows.length > 0) broken[rule] = rows.slice(0, 5);
  }
  return broken;
}

/** The same, and windows that are out of balance, a sentence each. */
export async function brokenSentences(
  sql: Database | Transaction,
  of: Readonly<Record<string, string>> = rules,
): Promise<string[]> {
  const broken = Object.entries(await brokenRules(sql, of)).map(
    ([rule, rows]) => `broken in the database: ${rule}: ${JSON.stringify(rows)}`,
  );
  return [...broken, ...(await outOfBalance(sql))];
}

/** Windows of wallets whose sums are not what their PERMITs count, by where these took it. */
export const brokenSums = (sql: Database | Transaction) =>
  sql.unsafe(`
    WITH permits AS (
      SELECT r.money_from, r.approval_id, coalesce(p.counts_micro_usd - p.overrun_micro_usd, r.amount_micro_usd) AS own,
        CASE WHEN p.hold_status = 'open' THEN p.hold_micro_usd ELSE 0 END AS held
      FROM records r JOIN attestations a ON a.attestation_id = id_of_uuid('att', r.attestation_id)
      LEFT JOIN permit_outcomes p ON p.attestation_id = a.attestation_id
      WHERE a.decision = 'PERMIT' AND a.resolution IS NULL AND NOT a.test AND a.amount_micro_usd > 0
    ), named AS (
      SELECT own, held, source FROM permits, jsonb_array_elements(coalesce(money_from, '[]')) AS source
    ), leases AS (
      SELECT lease_id, counter, window_name, starts_at_ms FROM quota_leases
      UNION ALL SELECT lease_id, counter, window_name, starts_at_ms FROM former_leases
    ), drawn AS (
      SELECT own, held, counter, window_name, starts_at_ms FROM named
      JOIN leases ON jsonb_typeof(source) = 'number' AND lease_id = source::text::bigint
      UNION ALL SELECT own, held, source->>0, source->>1, (source->>2)::bigint FROM named
        WHERE jsonb_typeof(source) = 'array'
      UNION ALL SELECT own, held, h->>'counter', h->>'window', (h->>'startsAtMs')::bigint
        FROM permits JOIN approvals USING (approval_id), jsonb_array_elements(approvals.holds) AS h
      UNION ALL SELECT overrun_micro_usd, 0, h->>'counter', h->>'window', (h->>'startsAtMs')::bigint
        FROM permit_outcomes, jsonb_array_elements(overrun_from) AS h
    ), summed AS (
      SELECT 'wallet_spend:' || split_part(counter, ':', 2) AS counter, window_name, starts_at_ms, sum(own) AS spent,
        sum(held) AS held
      FROM drawn WHERE counter LIKE 'wallet!_spend:%' ESCAPE '!' GROUP BY 1, 2, 3
    ), kept AS (SELECT * FROM quota_spend WHERE counter LIKE 'wallet!_spend:%' ESCAPE '!')
    SELECT counter, window_name, starts_at_ms, s.spent AS counted, k.spent, s.held AS taken, k.held
    FROM summed s FULL JOIN kept k USING (counter, window_name, starts_at_ms)
    WHERE coalesce(s.held, 0) <> coalesce(k.held, 0) OR coalesce(s.spent, 0) <> coalesce(k.spent, 0)`);

/** Fails with what `brokenRules` finds; then looks at every chain and counter of the attestations. */
export async function expectSoundDatabase(api: Api): Promise<void> {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
}

/** Every version of every catalog was signed as it stands. */
export async function expectSignedCatalogs(api: Api): Promise<void> {
  const jwks = renderJwks(api.deps.signingKeys.all());
  const published = await api.deps.sql<{ gateId: string; version: number }[]>`
    SELECT gate_id AS "gateId", c.version FROM catalogs c JOIN gates USING (gate_id) WHERE deleted_at_ms IS NULL`;
  for (const { gateId, version } of published) {
    const { body } = await untilAnswer(
      () => api.call({ url: `/v1/gates/${gateId}/catalog?version=${version}`, key: null }),
      // A busy machine may shed a read.
      ({ status }) => status === 200,
      { what: `version ${version} of the catalog of ${gateId}` },
    );
    const verdict = await verifyCatalog(body, jwks, { gateId, version });
    if (!verdict.valid) expect(verdict.fault).toBe('key_compromised');
  }
}
