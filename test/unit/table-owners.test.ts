import { describe, expect, it } from 'vitest';
import { migratedTables } from '../support/base/migrated-tables.ts';
import { type Source, sourcesBelow } from '../support/base/sources.ts';

/**
 * Each table of the database belongs to one room of the control plane, whose files alone name it in their
 * SQL. What others do with it stands below by name, so that whoever changes a table finds all who depend on
 * it.
 */
const tablesOf: Readonly<Record<string, readonly string[]>> = {
  accounts: ['accounts'],
  'api-keys': ['api_keys'],
  approvals: ['approval_answers', 'approvals', 'standing_approvals'],
  wallets: ['wallet_chains', 'wallets'],
  book: ['former_leases', 'lease_holders', 'lease_posts', 'quota_leases', 'quota_spend', 'quota_windows'],
  attestations: [
    ...['account_archives', 'archived_chains', 'archives', 'attestation_facts', 'chains', 'fact_retentions'],
    ...['gate_use', 'passport_use'],
    ...['record_form', 'record_names', 'records', 'retentions', 'sidecar_epochs'],
  ],
  ...{ audit: ['audit_chains', 'audit_entries'], authzen: ['authzen_vocabularies'] },
  backtests: ['backtests'],
  ...{ catalogs: ['catalogs', 'catalog_entries'], channels: ['channel_messages', 'channels'] },
  ...{ creation: ['idempotent_answers'], decisions: ['settlements', 'used_proofs'] },
  ...{
    discovery: ['discovery_counts', 'discovery_entries'],
    gates: ['gate_policies', 'gate_shadows', 'gates', 'policies'],
  },
  history: ['generations', 'known_ends', 'known_heads', 'known_places', 'known_trees'],
  federation: ['security_events'],
  issuers: ['federations', 'issuers', 'shown_passports'],
  log: ['log_entries', 'log_tiles', 'log_trees', 'log_witnesses', 'logged_heads'],
  'master-key': ['installation', 'replicas'],
  'mcp-pins': ['mcp_pins', 'mcp_upstreams'],
  oauth: ['oauth_artifacts', 'oauth_clients'],
  oidc: ['oidc_identities'],
  outcomes: ['permit_outcomes', 'reported_outcomes'],
  passkeys: ['passkeys'],
  passports: [
    ...['former_places', 'owner_standings', 'passport_wallets', 'passports', 'suspensions', 'unnamed_ends'],
  ],
  people: ['invitations', 'login_attempts', 'users'],
  sessions: ['sessions', 'used_login_challenges'],
  signing: ['log_keys', 'signing_keys'],
  'signing-keys': ['revoked_sidecar_keys'],
  statistics: ['decision_counts'],
  storage: ['expansions', 'migrations'],
  sync: ['changes', 'feed_items', 'feeds', 'sidecars'],
  templates: ['templates'],
  webhooks: ['webhook_attempts', 'webhook_deliveries', 'webhook_events', 'webhooks'],
};

/**
 * Files that read tables of other rooms: mostly joins, which one statement answers from one moment. No file
 * writes one.
 */
const foreignReads: Readonly<Record<string, readonly string[]>> = {
  'accounts/ensure-first-account.ts': ['api_keys'],
  'api-keys/api-key-store.ts': ['accounts'],
  'approvals/answer-rule.ts': ['catalogs', 'gates'],
  'approvals/answerer-names.ts': ['api_keys', 'users'],
  'approvals/approval-store.ts': ['passports'],
  'approvals/attest-resolutions.ts': ['gate_policies', 'policies'],
  'approvals/find-requesters.ts': ['audit_entries', 'passports', 'users'],
  'approvals/hold-again.ts': ['gates', 'passports'],
  'approvals/standing-approval-store.ts': ['passports'],
  'approvals/waits-for.ts': ['gates', 'passkeys', 'users'],
  'attestations/chain-store.ts': ['accounts', 'gates', 'generations', 'known_places', 'passports'],
  'attestations/judge-records.ts': [
    ...['gate_policies', 'gates', 'passport_wallets', 'passports', 'policies', 'quota_leases'],
  ],
  'attestations/read-attachments.ts': [
    ...['approval_answers', 'approvals', 'audit_entries', 'catalog_entries', 'catalogs', 'gate_policies'],
    ...['passports', 'policies', 'standing_approvals'],
  ],
  'attestations/list-attestations.ts': ['gates', 'passports', 'permit_outcomes'],
  'attestations/stored-records.ts': ['gates', 'passports'],
  'backtests/past-facts.ts': ['audit_entries', 'catalog_entries', 'issuers', 'passports', 'policies'],
  'book/balance.ts': ['approvals', 'permit_outcomes', 'settlements'],
  'book/alert-on-spend.ts': ['wallets'],
  'book/count-money.ts': ['gates', 'passports'],
  'book/find-sources.ts': ['approvals'],
  'book/holder-store.ts': ['sidecar_epochs'],
  'book/post.ts': ['approvals'],
  'book/unused-units.ts': ['sidecars'],
  'catalogs/catalog-store.ts': ['gates'],
  'channels/channel-store.ts': ['accounts', 'gates'],
  'channels/message-queue.ts': [
    ...['api_keys', 'approval_answers', 'approvals', 'gates', 'passports', 'users'],
  ],
  'decisions/passport-standing-store.ts': [
    ...['accounts', 'issuers', 'passport_wallets', 'passports', 'signing_keys', 'wallets'],
  ],
  'decisions/read-parties.ts': ['gate_policies', 'gates'],
  'discovery/find-offers.ts': ['catalog_entries', 'catalogs', 'gates'],
  'discovery/index-account.ts': ['gates'],
  'discovery/index-gates.ts': ['accounts', 'catalog_entries', 'catalogs', 'gates'],
  'gates/gate-store.ts': ['gate_use'],
  'gates/policy-store.ts': ['catalogs'],
  'history/history-store.ts': ['chains', 'changes', 'feeds', 'records'],
  'issuers/federation-store.ts': ['gates'],
  'issuers/hold-wallet.ts': ['wallets'],
  'issuers/issuer-store.ts': ['passports'],
  'log/changed-heads.ts': ['audit_chains', 'chains', 'policies'],
  'log/compare-export.ts': ['chains'],
  'mcp-pins/pin-store.ts': ['gates'],
  'outcomes/change-permits.ts': ['gates', 'settlements'],
  'quota/charge-more.ts': ['gates', 'passports', 'standing_approvals'],
  'quota/former-places.ts': ['former_places', 'wallets'],
  'quota/find-lanes.ts': ['passport_wallets', 'passports', 'wallets'],
  'quota/find-limits.ts': ['gates', 'passports', 'standing_approvals'],
  'quota/judge-takes.ts': ['lease_holders', 'passports', 'quota_leases', 'standing_approvals', 'wallets'],
  'quota/wallet-paths.ts': ['passport_wallets', 'passports', 'wallets'],
  'oidc/identity-store.ts': ['accounts', 'invitations', 'users'],
  'operations/database-figures.ts': ['approvals', 'feeds', 'sidecars', 'webhook_deliveries', 'webhooks'],
  'operations/routes.ts': ['sidecars'],
  'outbox/queues.ts': ['accounts'],
  'people/invitation-store.ts': ['accounts'],
  'people/one-people.ts': ['audit_entries'],
  'people/user-store.ts': ['accounts'],
  'passkeys/passkey-store.ts': ['oidc_identities', 'users'],
  'passports/federated-passport-store.ts': ['issuers', 'wallets'],
  'passports/named-passport-store.ts': ['issuers', 'signing_keys'],
  'passports/passport-store.ts': ['issuers', 'passport_use', 'signing_keys'],
  'passports/subject-standing-store.ts': ['issuers'],
  'people/invite-first-owner.ts': ['accounts'],
  'recovery/recovery-store.ts': [
    ...['accounts', 'api_keys', 'gates', 'issuers', 'owner_standings', 'passports', 'unnamed_ends'],
  ],
  'sessions/session-store.ts': ['accounts', 'users'],
  'storage/user-of-approval.ts': ['passports'],
  'sync/sidecar-store.ts': ['gates', 'record_names', 'records', 'sidecar_epochs'],
  'sync/take-snapshot.ts': [
    ...['accounts', 'api_keys', 'federations', 'gate_policies', 'gate_shadows', 'gates', 'issuers'],
    ...['owner_standings', 'passport_wallets', 'passports', 'standing_approvals', 'unnamed_ends', 'wallets'],
  ],
  'wallets/read-statement.ts': ['chains', 'record_names', 'records'],
  'wallets/read-wallet.ts': ['approvals', 'lease_posts', 'quota_leases', 'quota_windows'],
  'wallets/wallet-store.ts': ['accounts', 'issuers', 'passport_wallets', 'passports'],
  'webhooks/emit-decisions.ts': ['passports'],
  'webhooks/emit-regression.ts': ['accounts'],
  'webhooks/webhook-store.ts': ['accounts'],
};
const exceptions = Object.entries(foreignReads).flatMap(([file, tables]) =>
  tables.map((table) => `control-plane/${file} reads ${table}`),
);

const sources = sourcesBelow('control-plane');
const owners = new Map(
  Object.entries(tablesOf).flatMap(([room, tables]) => tables.map((table) => [table, room] as const)),
);

/**
 * "<file> reads <table>" or "<file> writes <table>" for each table of another room that the SQL of a file
 * names; each once, sorted.
 */
function foreignUses(files: readonly Pick<Source, 'path' | 'text'>[]): string[] {
  const uses = files.flatMap(({ path, text }) =>
    [
      ...text.matchAll(
        /\b(DELETE FROM|INSERT INTO|COPY|UPDATE|FROM|JOIN|USING)\s+([a-z_]+)(?:(?: [a-z]+)?, ([a-z_]+)\b)?/g,
      ),
    ].flatMap(([, keyword = '', ...tables]) =>
      tables
        .filter(
          (table) => table !== undefined && owners.has(table) && owners.get(table) !== path.split('/')[1],
        )
        .map((table) => `${path} ${/^(?:FROM|JOIN|USING)$/.test(keyword) ? 'reads' : 'writes'} ${table}`),
    ),
  );
  return [...new Set(uses)].sort();
}

describe('tables and their rooms', () => {
  it('gives each table that the migrations leave to one room', () => {
    const tables = migratedTables();
    expect(tables.length).toBeGreaterThan(20);
    expect(Object.values(tablesOf).flat().sort()).toEqual(tables);
  });

  it('finds only listed SQL on a table of another room, and no outdated entry in the list', () => {
    expect(foreignUses(sources)).toEqual(exceptions.toSorted());
  });
});
