import { afterAll, beforeAll, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { startTestProvider, type TestProvider } from '../support/peers/test-provider.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { goodCalls } from '../support/service/good-calls.ts';
import {
  brokenRules,
  expectSignedCatalogs,
  expectSoundDatabase,
  type rules,
} from '../support/service/sound-database.ts';

/** The controls of the rules: each finds the damage that it is there for. */
/** The one name without https at which there are passkeys. */
const origin = 'http://localhost:8080';
let provider: TestProvider;
let api: Api;
beforeAll(async () => {
  provider = await startTestProvider({ origin });
  api = await startOwnApi({ origin, provider: provider.settings });
  const calls = goodCalls(api);
  for (const call of Object.values(calls)) await api.call(await call());
  for (const id of ['issuePassport', 'publishCatalog']) {
    const call = await must(calls[id], 'it has a good call')();
    expect((await api.call({ ...call, headers: { 'idempotency-key': id } })).status).toBe(201);
  }
});
afterAll(async () => {
  await api?.close();
  await provider?.close();
});

it('finds no fault in rows written by the API', async () => {
  await expectSoundDatabase(api);
  await expectSignedCatalogs(api);
});

const damage: Readonly<Record<keyof typeof rules, string>> = {
  'revisions of a feed run without holes up to its head': `UPDATE feeds SET revision = revision + 1`,
  'no lease has given back more than it had': `WITH holder AS (INSERT INTO lease_holders VALUES ('x', 'side_x', 'acct_x', 1, '[]', 0))
      INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units, used)
        VALUES ('x', 'gate_rate:x', 'day', 0, 1, 2, -1)`,
  'every account has a feed': `INSERT INTO accounts VALUES ('acct_x', 'X', 'free', 'active', NULL, NULL, false, 0)`,
  'the last change of a gate is what the gate is': `UPDATE gates SET version = version + 1`,
  'the last change of a gate has its standing approvals in force': `UPDATE standing_approvals SET ended_at_ms = created_at_ms WHERE ended_at_ms IS NULL`,
  'the last change of an API key is what the key is': `UPDATE api_keys SET revoked_at_ms = 1`,
  'the last change of a passport is its standing': `UPDATE passports SET status = 'suspended' WHERE status = 'active'`,
  'the last change of an issuer is its standing': `UPDATE issuers SET status = 'suspended'`,
  'the last change of a wallet says whether it is frozen': `INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, path, limits, share, alert_at, status, created_at_ms, changed_at_ms)
      SELECT 'wal_x', account_id, mode, 'x', 'x', '{wal_x}', '{}', 'pot', 1, 'frozen', 0, 0 FROM gates LIMIT 1`,
  'sidecars are told of every passport in a wallet that its token does not name': `WITH made AS (
      INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, path, limits, share, alert_at, status, created_at_ms, changed_at_ms)
      SELECT 'wal_x', account_id, mode, 'x', 'x', '{wal_x}', '{}', 'pot', 1, 'active', 0, 0 FROM gates LIMIT 1 RETURNING wallet_id)
      INSERT INTO passport_wallets (passport_id, wallet_id, is_in_token, changed_at_ms)
      SELECT passport_id, wallet_id, false, 0 FROM passports, made WHERE status = 'active' ON CONFLICT DO NOTHING`,
  'a wallet knows its path and what its children set aside': `INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, path, limits, share, alert_at, status, created_at_ms, changed_at_ms)
      SELECT 'wal_x', account_id, mode, 'x', 'x', '{wal_x,wal_y}', '{}', 'pot', 1, 'active', 0, 0 FROM gates LIMIT 1`,
  'the last change of an account is its standing': `UPDATE accounts SET status = 'suspended'`,
  'a passport is of the account and mode of its issuer': `UPDATE issuers SET mode = 'test'`,
  'a policy is what its hash says, and the newest one of a gate is what was told': `UPDATE policies SET body = replace(body, '"trust_level"', ' "trust_level"')`,
  'versions of a catalog, and entries of a version, are counted without holes': `INSERT INTO catalogs SELECT gate_id, 3, 0, '', '', '' FROM catalogs`,
  'a gate has the prices and approvals of its newest catalog': `UPDATE gates SET catalog_prices = NULL`,
  'what is discovered is the newest catalog of every live gate of an active account': `DELETE FROM discovery_entries`,
  'what is discovered is counted': `UPDATE discovery_counts SET entries = entries + 1`,
  'what a stored answer says was created is there': `UPDATE idempotent_answers SET body = replace(body, 'pass_', 'pass_0') WHERE idempotency_key = 'issuePassport'`,
  'each resolution of an approval is on record, once': `UPDATE records SET resolution = NULL, refers_to = NULL WHERE resolution = 'denied'`,
  'what used an approval is on record': `UPDATE approvals SET status = 'used', due_at_ms = NULL, attestation_id = 'att_x' WHERE status = 'approved'`,
  'what waits to be sent has an event, and what was attempted has its attempts': `DELETE FROM webhook_events`,
  'a PERMIT counts what its last record says, and an open hold ends': `UPDATE permit_outcomes SET counts_micro_usd = counts_micro_usd + 1 WHERE record_id IS NOT NULL`,
  'each purpose has one key that is not retired': `UPDATE signing_keys SET retired_at_ms = 1`,
  'the last change of a signing key is what the key is': `UPDATE signing_keys SET compromised = true`,
};

it.each(Object.entries(damage))('finds that no longer %s after %s', async (rule, statement) => {
  const undone = new Error('undo');
  const work = api.deps.sql.begin(async (tx) => {
    const { count } = await tx.unsafe(statement);
    expect(count).toBeGreaterThan(0);
    expect(Object.keys(await brokenRules(tx))).toContain(rule);
    throw undone;
  });
  await expect(work).rejects.toBe(undone);
});
