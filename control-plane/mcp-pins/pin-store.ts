import { must } from '../../shared/errors/assert.ts';
import type { PiiControls } from '../../shared/model/constraints.ts';
import type { GateId, McpPinId } from '../../shared/model/ids.ts';
import type { McpPin, McpPinStatus } from '../../shared/model/mcp-pin.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readPage } from '../storage/read-page.ts';
import { mcpPinsLimits } from './limits.ts';

/** A pin with what new tools are compared with. */
export interface StoredPin extends McpPin {
  readonly look: string;
  readonly bodyHash: string | null;
}

/** A server behind a gate. */
export interface Upstream {
  readonly gateId: GateId;
  readonly upstream: string;
  readonly isEstablished: boolean;
  readonly revision: number;
  readonly firstSeenAtMs: UnixMillis;
}

const columns = (sql: Database | Transaction) => sql`
  pin_id AS "pinId", account_id AS "accountId", mode, gate_id AS "gateId", upstream, tool, status, definition, hash,
  new_definition AS "newDefinition", new_hash AS "newHash", change, resembles, first_seen_at_ms AS "firstSeenAtMs",
  changed_at_ms AS "changedAtMs", resolved_at_ms AS "resolvedAtMs", resolved_by AS "resolvedBy"`;

const upstreamColumns = (sql: Database | Transaction) => sql`
  gate_id AS "gateId", upstream, is_established AS "isEstablished", revision, first_seen_at_ms AS "firstSeenAtMs"`;

/** What guards need of a gate: its `pii_controls` as stored. Null: unknown, deleted, or of another owner. */
export async function findGuardedGate(
  sql: Database,
  owner: Owner,
  gateId: GateId,
): Promise<{ readonly piiControls: Partial<PiiControls> | null } | null> {
  const [row] = await sql<{ piiControls: Partial<PiiControls> | null }[]>`
    SELECT constraints->'pii_controls' AS "piiControls" FROM gates
    WHERE gate_id = ${gateId} AND account_id = ${owner.accountId} AND mode = ${owner.mode} AND deleted_at_ms IS NULL`;
  return row ?? null;
}

/** False: it was deleted. It is not deleted until the transaction ends. */
export async function keepGate(tx: Transaction, gateId: GateId): Promise<boolean> {
  const rows = await tx`SELECT FROM gates WHERE gate_id = ${gateId} AND deleted_at_ms IS NULL FOR SHARE`;
  return rows.length > 0;
}

export async function findUpstream(
  sql: Database,
  gateId: GateId,
  upstream: string,
): Promise<Upstream | null> {
  const [row] = await sql<Upstream[]>`
    SELECT ${upstreamColumns(sql)} FROM mcp_upstreams WHERE gate_id = ${gateId} AND upstream = ${upstream}`;
  return row ?? null;
}

/**
 * Locks the upstream until the transaction ends, and makes it where it is new. Null: the gate has as many as
 * it may.
 */
export async function lockUpstream(
  tx: Transaction,
  wanted: Pick<Upstream, 'gateId' | 'upstream'>,
  { nowMs, upstreamsMax }: { readonly nowMs: UnixMillis; readonly upstreamsMax: number },
): Promise<Upstream | null> {
  const lock = () => tx<Upstream[]>`
    SELECT ${upstreamColumns(tx)} FROM mcp_upstreams
    WHERE gate_id = ${wanted.gateId} AND upstream = ${wanted.upstream} FOR UPDATE`;
  const [known] = await lock();
  if (known !== undefined) return known;
  // Two at once may pass the bound by one each: it is there against thousands.
  await tx`
    INSERT INTO mcp_upstreams (gate_id, upstream, is_established, revision, first_seen_at_ms)
    SELECT ${wanted.gateId}, ${wanted.upstream}, false, 0, ${nowMs}
    WHERE (SELECT count(*) FROM mcp_upstreams WHERE gate_id = ${wanted.gateId}) < ${upstreamsMax}
    ON CONFLICT DO NOTHING`;
  const [made] = await lock();
  return made ?? null;
}

export async function writeUpstream(tx: Transaction, upstream: Upstream): Promise<void> {
  await tx`
    UPDATE mcp_upstreams SET is_established = ${upstream.isEstablished}, revision = ${upstream.revision}
    WHERE gate_id = ${upstream.gateId} AND upstream = ${upstream.upstream}`;
}

/** All pins of an upstream, by tool. */
export const readPins = (
  sql: Database | Transaction,
  { gateId, upstream }: Pick<Upstream, 'gateId' | 'upstream'>,
): PromiseLike<readonly StoredPin[]> => sql<StoredPin[]>`
  SELECT ${columns(sql)}, look, body_hash AS "bodyHash" FROM mcp_pins
  WHERE gate_id = ${gateId} AND upstream = ${upstream} ORDER BY tool`;

/** What the tools of a gate are in force, as far as somebody has to look at them. */
export const readPinnedTools = (
  sql: Database,
  gateId: GateId,
): PromiseLike<readonly { readonly tool: string; readonly definition: string }[]> => sql<
  { tool: string; definition: string }[]
>`
  SELECT tool, definition FROM mcp_pins WHERE gate_id = ${gateId} AND definition IS NOT NULL
  ORDER BY tool LIMIT ${mcpPinsLimits.toolsReadMax}`;

/** The upstream must be locked. */
export async function writePin(tx: Transaction, pin: StoredPin): Promise<void> {
  await tx`
    INSERT INTO mcp_pins (pin_id, account_id, mode, gate_id, upstream, tool, look, status, definition, hash, body_hash,
      new_definition, new_hash, change, resembles, first_seen_at_ms, changed_at_ms, resolved_at_ms, resolved_by)
    VALUES (${pin.pinId}, ${pin.accountId}, ${pin.mode}, ${pin.gateId}, ${pin.upstream}, ${pin.tool}, ${pin.look},
      ${pin.status}, ${pin.definition}, ${pin.hash}, ${pin.bodyHash}, ${pin.newDefinition}, ${pin.newHash},
      ${pin.change}, ${pin.resembles}, ${pin.firstSeenAtMs}, ${pin.changedAtMs}, ${pin.resolvedAtMs},
      ${pin.resolvedBy})
    ON CONFLICT (gate_id, upstream, tool) DO UPDATE SET status = excluded.status, definition = excluded.definition,
      hash = excluded.hash, body_hash = excluded.body_hash, new_definition = excluded.new_definition,
      new_hash = excluded.new_hash, change = excluded.change, resembles = excluded.resembles,
      changed_at_ms = excluded.changed_at_ms, resolved_at_ms = excluded.resolved_at_ms,
      resolved_by = excluded.resolved_by`;
}

/** Of the owner's gates. */
export async function findPin(
  sql: Database | Transaction,
  owner: Owner,
  pinId: McpPinId,
): Promise<StoredPin | null> {
  const [row] = await sql<StoredPin[]>`
    SELECT ${columns(sql)}, look, body_hash AS "bodyHash" FROM mcp_pins
    WHERE pin_id = ${pinId} AND account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row ?? null;
}

/** Newest first. */
export async function listPins(
  sql: Database,
  owner: Owner,
  asked: { readonly gateId: string | null; readonly status: McpPinStatus | null; readonly page: PagePlace },
): Promise<Page<McpPin>> {
  const { gateId, status, page } = asked;
  const where = sql`
    account_id = ${owner.accountId} AND mode = ${owner.mode}
    ${gateId === null ? sql`` : sql`AND gate_id = ${gateId}`}
    ${status === null ? sql`` : sql`AND status = ${status}`}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM mcp_pins WHERE ${where}`,
    rows: (limit) => sql<McpPin[]>`
      SELECT ${columns(sql)} FROM mcp_pins
      WHERE ${where} ${page.behind === null ? sql`` : sql`AND pin_id < ${page.behind}`}
      ORDER BY pin_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ pinId }) => pinId,
  });
}

/** A deleted gate has no guard any more. */
export async function deletePins(tx: Transaction, gateId: GateId): Promise<void> {
  await tx`SELECT FROM mcp_upstreams WHERE gate_id = ${gateId} ORDER BY upstream COLLATE "C" FOR UPDATE`;
  await tx`DELETE FROM mcp_pins WHERE gate_id = ${gateId}`;
  await tx`DELETE FROM mcp_upstreams WHERE gate_id = ${gateId}`;
}

export const lockedUpstream = async (
  tx: Transaction,
  { gateId, upstream }: Pick<Upstream, 'gateId' | 'upstream'>,
): Promise<Upstream> => {
  const [row] = await tx<Upstream[]>`
    SELECT ${upstreamColumns(tx)} FROM mcp_upstreams
    WHERE gate_id = ${gateId} AND upstream = ${upstream} FOR UPDATE`;
  return must(row, 'a pin belongs to an upstream');
};
