import { must } from '../../shared/errors/assert.ts';
import type { AccountId, WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { ofKey } from '../creation/unique-name.ts';
import { noteDue } from '../storage/due-work.ts';
import { hasPart } from '../storage/has-part.ts';
import { readPage } from '../storage/read-page.ts';

const columns = (sql: Database | Transaction) => sql`
  webhook_id AS "webhookId", account_id AS "accountId", mode, url, events, format, description, labels, status,
  disabled_reason AS "disabledReason", failing_since_ms AS "failingSinceMs", created_at_ms AS "createdAtMs",
  updated_at_ms AS "updatedAtMs"`;

const ownedBy = (sql: Database | Transaction, { accountId, mode }: Owner) =>
  sql`account_id = ${accountId} AND mode = ${mode}`;

export async function insertWebhook(tx: Transaction, webhook: Webhook, sealedSecret: string): Promise<void> {
  await tx`
    INSERT INTO webhooks (webhook_id, account_id, mode, url, events, format, description, labels, status, disabled_reason,
      sealed_secret, fetched_at_ms, created_at_ms, updated_at_ms)
    VALUES (${webhook.webhookId}, ${webhook.accountId}, ${webhook.mode}, ${webhook.url}, ${[...webhook.events]},
      ${webhook.format}, ${webhook.description}, ${JSON.stringify(webhook.labels)}::text::jsonb, ${webhook.status}, ${webhook.disabledReason}, ${sealedSecret}, ${webhook.createdAtMs},
      ${webhook.createdAtMs}, ${webhook.updatedAtMs})`;
}

/** How many there are; until the transaction ends no other adds one. */
export async function countWebhooksLocked(tx: Transaction, owner: Owner): Promise<number> {
  await tx`SELECT FROM accounts WHERE account_id = ${owner.accountId} FOR NO KEY UPDATE`;
  const [row] = await tx<
    { total: number }[]
  >`SELECT count(*) AS total FROM webhooks WHERE ${ownedBy(tx, owner)}`;
  return must(row, 'a count has a row').total;
}

export async function hasWebhookWithUrl(
  tx: Transaction,
  owner: Owner,
  url: string,
  key: string | null,
): Promise<boolean> {
  const rows =
    await tx`SELECT FROM webhooks WHERE ${ownedBy(tx, owner)} AND url = ${url} ${ofKey(tx, tx`labels`, key)} LIMIT 1`;
  return rows.length > 0;
}

export async function findWebhook(
  sql: Database | Transaction,
  owner: Owner,
  webhookId: WebhookId,
): Promise<Webhook | null> {
  const rows = await sql<Webhook[]>`
    SELECT ${columns(sql)} FROM webhooks WHERE webhook_id = ${webhookId} AND ${ownedBy(sql, owner)}`;
  return rows[0] ?? null;
}

export async function lockWebhook(
  tx: Transaction,
  owner: Owner,
  webhookId: WebhookId,
): Promise<Webhook | null> {
  const rows = await tx<Webhook[]>`
    SELECT ${columns(tx)} FROM webhooks WHERE webhook_id = ${webhookId} AND ${ownedBy(tx, owner)} FOR UPDATE`;
  return rows[0] ?? null;
}

export async function listWebhooks(
  sql: Database,
  owner: Owner,
  { namePart, page }: { readonly namePart: string | null; readonly page: PagePlace },
): Promise<Page<Webhook>> {
  const where = sql`${ownedBy(sql, owner)} ${hasPart(sql, sql`concat_ws(chr(10), url, description)`, namePart)}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM webhooks WHERE ${where}`,
    rows: (limit) => sql<Webhook[]>`
      SELECT ${columns(sql)} FROM webhooks WHERE ${where} ${page.behind === null ? sql`` : sql`AND webhook_id < ${page.behind}`}
      ORDER BY webhook_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ webhookId }) => webhookId,
  });
}

export async function updateWebhookRow(tx: Transaction, webhook: Webhook): Promise<void> {
  await tx`
    UPDATE webhooks SET url = ${webhook.url}, events = ${[...webhook.events]}, format = ${webhook.format}, description = ${webhook.description},
      labels = ${JSON.stringify(webhook.labels)}::text::jsonb, status = ${webhook.status}, disabled_reason = ${webhook.disabledReason},
      fetched_at_ms = greatest(fetched_at_ms, ${webhook.updatedAtMs}), updated_at_ms = ${webhook.updatedAtMs}
    WHERE webhook_id = ${webhook.webhookId}`;
}

/**
 * What the endpoint asked for, how long it has failed, and what attempts under way will have come to: all
 * that counts no more.
 */
export async function beginAnew(tx: Transaction, webhookId: WebhookId): Promise<void> {
  await tx`UPDATE webhooks SET ${anew(tx)} WHERE webhook_id = ${webhookId}`;
}

/** The same for all endpoints of an account to which anything is sent. */
export async function beginAllAnew(tx: Transaction, accountId: AccountId): Promise<void> {
  // In the order in which outcomes are noted: two transactions that lock the same rows must not wait for each
  // other.
  await tx`
    UPDATE webhooks SET ${anew(tx)} WHERE webhook_id = ANY (ARRAY(
      SELECT webhook_id FROM webhooks WHERE account_id = ${accountId} AND url IS NOT NULL ORDER BY webhook_id FOR UPDATE))`;
}

function anew(tx: Transaction) {
  noteDue(tx, 'deliveries');
  return tx`era = era + 1, failing_since_ms = NULL, paused_until_ms = NULL`;
}

/** Sealed with MASTER_KEY, like the secret that replaced it. */
export interface PreviousSecret {
  readonly sealed: string;
  /** It signs before this moment. */
  readonly endsAtMs: UnixMillis;
}

/**
 * What deliveries are signed with: the newest, and those before it until their time is over, the one that was
 * replaced first at the front.
 */
export interface WebhookSecrets {
  readonly sealedSecret: string;
  readonly previousSecrets: readonly PreviousSecret[];
}

export async function readSecrets(tx: Transaction, webhookId: WebhookId): Promise<WebhookSecrets> {
  const [row] = await tx<WebhookSecrets[]>`
    SELECT sealed_secret AS "sealedSecret", previous_secrets AS "previousSecrets" FROM webhooks WHERE webhook_id = ${webhookId}`;
  return must(row, 'the webhook is locked');
}

export async function writeSecrets(
  tx: Transaction,
  webhookId: WebhookId,
  { sealedSecret, previousSecrets, nowMs }: WebhookSecrets & { readonly nowMs: UnixMillis },
): Promise<void> {
  await tx`
    UPDATE webhooks SET sealed_secret = ${sealedSecret}, previous_secrets = ${JSON.stringify(previousSecrets)}::text::jsonb,
      updated_at_ms = ${nowMs}
    WHERE webhook_id = ${webhookId}`;
}

/**
 * None of its deliveries goes out any more: those that wait are removed soon, the others when they are old.
 */
export async function deleteWebhookRow(tx: Transaction, webhookId: WebhookId): Promise<void> {
  await tx`DELETE FROM webhooks WHERE webhook_id = ${webhookId}`;
}

/**
 * Records a fetch from an endpoint without a URL, at most once a minute. Enables an endpoint that was
 * disabled as unread: a machine that slept would otherwise go on fetching without getting events.
 */
export async function touchFetched(sql: Database, webhookId: WebhookId, nowMs: UnixMillis): Promise<void> {
  await sql`
    UPDATE webhooks SET fetched_at_ms = ${nowMs},
      status = CASE WHEN disabled_reason = 'unread' THEN 'enabled' ELSE status END,
      disabled_reason = CASE WHEN disabled_reason <> 'unread' THEN disabled_reason END,
      updated_at_ms = CASE WHEN disabled_reason = 'unread' THEN ${nowMs} ELSE updated_at_ms END
    WHERE webhook_id = ${webhookId} AND url IS NULL AND fetched_at_ms <= ${nowMs - fetchedWriteIntervalMs}`;
}

const fetchedWriteIntervalMs = 60_000;

/** Disables endpoints without a URL and without a fetch since then. */
export async function disableUnread(
  sql: Database,
  { beforeMs, nowMs }: { readonly beforeMs: number; readonly nowMs: UnixMillis },
): Promise<void> {
  await sql`
    UPDATE webhooks SET status = 'disabled', disabled_reason = 'unread', updated_at_ms = ${nowMs}
    WHERE url IS NULL AND status = 'enabled' AND fetched_at_ms < ${beforeMs}`;
}
