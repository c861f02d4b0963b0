import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { migratedTables } from '../support/base/migrated-tables.ts';

/**
 * Why no table grows for ever by what agents, sidecars and browsers do. A new table joins one of these lists,
 * and the page docs/operate/capacity.md.
 */

/** Files that remove a bounded number of old rows at a time. */
const trims: Readonly<Record<string, string>> = {
  backtests: 'backtests/backtest-store.ts',
  ...{ approvals: 'approvals/approval-store.ts', changes: 'sync/feed-store.ts' },
  ...{ channel_messages: 'channels/deliver-messages.ts', decision_counts: 'statistics/read-statistics.ts' },
  ...{
    former_leases: 'book/post.ts',
    former_places: 'passports/leave-place.ts',
    idempotent_answers: 'creation/idempotent-answers.ts',
  },
  ...{ lease_holders: 'book/holder-store.ts', login_attempts: 'people/attempt-store.ts' },
  ...{ oauth_artifacts: 'oauth/artifact-store.ts', oauth_clients: 'oauth/registered-clients.ts' },
  ...{ permit_outcomes: 'outcomes/outcome-store.ts', quota_leases: 'book/holder-store.ts' },
  ...{ quota_spend: 'book/spend-sums.ts', quota_windows: 'book/ledger.ts' },
  ...{ replicas: 'master-key/replica-store.ts', reported_outcomes: 'outcomes/reported-store.ts' },
  ...{ security_events: 'federation/event-store.ts', sessions: 'sessions/session-store.ts' },
  ...{ settlements: 'decisions/claim-settlements.ts', sidecar_epochs: 'attestations/ingest-batch.ts' },
  ...{ sidecars: 'sync/sidecar-store.ts', used_login_challenges: 'sessions/login-challenge.ts' },
  ...{ used_proofs: 'decisions/used-proof-store.ts' },
  ...{ webhook_attempts: 'webhooks/trim-deliveries.ts', webhook_deliveries: 'webhooks/trim-deliveries.ts' },
  webhook_events: 'webhooks/trim-deliveries.ts',
};

/** Rows go with the row that they belong to. */
const goWith: Readonly<Record<string, string>> = {
  approval_answers: 'approvals; those with signed answers are evidence, and stay',
  discovery_entries: 'gates, when one is deleted',
  gate_shadows: 'gates: the newest one of each',
  feed_items: 'gates and api_keys, when one ends',
  invitations: 'users',
  lease_posts: 'quota_leases',
  log_witnesses: 'the policy of LOG_WITNESSES, when it names one no more',
  logged_heads: 'chains: one row of each',
  mcp_pins: 'gates: at most 1,000 of a server',
  mcp_upstreams: 'gates: at most 16 of one',
  oidc_identities: 'users',
  passkeys: 'users',
  // Also after `facts_days`, with attestations/facts-store.ts.
  attestation_facts: 'records: with the partition of their month',
  shown_passports: 'passports: one row for each account that trusts its issuer, at most 100',
  suspensions: 'passports and owner_standings: one for each cause that stands',
  unnamed_ends: 'what a recovery found, until its passport or owner is seen',
};

/** Kept on purpose: what happened, signed or counted, and which of it is where. */
const evidence = [
  ...['account_archives', 'archived_chains', 'archives', 'audit_chains', 'audit_entries', 'catalog_entries'],
  ...['catalogs', 'chains', 'gate_policies', 'generations', 'known_ends', 'known_heads', 'known_places'],
  ...['known_trees', 'log_entries', 'log_tiles', 'log_trees', 'policies', 'record_names'],
  // Leave by archives.
  'records',
  // One for each passport and wallet that a record names together.
  'wallet_chains',
];

/**
 * A row for each resource that somebody made through the API, by a call that is in the audit: these grow no
 * faster than it. Records and audit entries name them after their end.
 */
const resources = [
  'accounts',
  'api_keys',
  'channels',
  // No faster than catalog_entries.
  ...['discovery_counts', 'authzen_vocabularies', 'federations', 'feeds', 'gate_use', 'gates', 'issuers'],
  ...['log_keys', 'owner_standings', 'passport_use', 'passport_wallets'],
  // Of other issuers: one for each subject that they vouch for.
  ...['passports', 'retentions', 'revoked_sidecar_keys', 'signing_keys', 'standing_approvals', 'templates'],
  ...['fact_retentions', 'users', 'wallets', 'webhooks'],
];

/** A few rows of the program itself. */
const fixed = ['expansions', 'installation', 'migrations', 'record_form'];

const page = readFileSync(new URL('../../docs/operate/capacity.md', import.meta.url), 'utf8');
const sourceOf = (file: string) =>
  readFileSync(new URL(`../../control-plane/${file}`, import.meta.url), 'utf8');

describe('what keeps each table from growing for ever', () => {
  it('is known, and for one reason', () => {
    const listed = [...Object.keys(trims), ...Object.keys(goWith), ...evidence, ...resources, ...fixed];
    expect(listed.toSorted()).toEqual(migratedTables());
  });

  it.each(Object.entries(trims))('%s: rows are removed in bounded steps by %s', (table, file) => {
    const statements = sourceOf(file)
      .split('`')
      .filter((text) => new RegExp(`(?:\\bDELETE FROM |{ from: ')${table}\\b`).test(text));
    expect(statements.join('\n'), `${file} removes rows of ${table}`).not.toBe('');
  });

  it.each(migratedTables())('%s: the page for operators says it', (table) => {
    const [, growing = ''] = page.split('## What else grows');
    const row = growing.split('\n').find((line) => line.startsWith('|') && line.includes(`\`${table}\``));
    expect(must(row, `docs/operate/capacity.md has a row with ${table}`).split('|')).toHaveLength(5);
  });
});
