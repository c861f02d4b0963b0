import { must } from '../../shared/errors/assert.ts';
import type { Catalog } from '../../shared/model/catalog.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { renderCatalogEntry } from '../../shared/wire/api/catalog.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readStoredEntry } from '../storage/stored-catalog-entry.ts';

/** The next version. The caller holds the gate's lock, so versions are unique and without gaps. */
export async function nextCatalogVersion(tx: Transaction, gateId: GateId): Promise<number> {
  const [row] = await tx<{ version: number }[]>`
    SELECT coalesce(max(version), 0) + 1 AS version FROM catalogs WHERE gate_id = ${gateId}`;
  return must(row, 'an aggregate has a row').version;
}

export async function insertCatalog(tx: Transaction, catalog: Catalog): Promise<void> {
  const { gateId, version } = catalog;
  await tx`
    INSERT INTO catalogs (gate_id, version, more, published_at_ms, content_hash, signature, signing_key_id)
    VALUES (${gateId}, ${version}, ${JSON.stringify(catalog.more)}::text::jsonb, ${catalog.publishedAtMs},
      ${catalog.contentHash}, ${catalog.signature}, ${catalog.signingKeyId})`;
  await tx`
    INSERT INTO catalog_entries (gate_id, version, position, entry)
    SELECT ${gateId}, ${version}::bigint, position - 1, entry
    FROM jsonb_array_elements(${JSON.stringify(catalog.permissions.map(renderCatalogEntry))}::text::jsonb)
      WITH ORDINALITY AS list (entry, position)`;
}

interface CatalogRow extends Omit<Catalog, 'gateId' | 'permissions'> {
  readonly entries: readonly unknown[];
}

/** A version, or the newest (`version` null). Null: unknown version or gate, or deleted gate. */
export async function findCatalog(
  sql: Database,
  { gateId, version }: { readonly gateId: GateId; readonly version: number | null },
): Promise<Catalog | null> {
  const [row] = await sql<CatalogRow[]>`
    SELECT c.version, c.more, c.published_at_ms AS "publishedAtMs", c.content_hash AS "contentHash", c.signature,
      c.signing_key_id AS "signingKeyId", (
        SELECT coalesce(jsonb_agg(e.entry ORDER BY e.position), '[]') FROM catalog_entries e
        WHERE e.gate_id = c.gate_id AND e.version = c.version
      ) AS entries
    FROM catalogs c JOIN gates g USING (gate_id)
    WHERE gate_id = ${gateId} AND g.deleted_at_ms IS NULL
      ${version === null ? sql`` : sql`AND c.version = ${version}`}
    ORDER BY c.version DESC LIMIT 1`;
  if (row === undefined) return null;
  const { entries, ...rest } = row;
  return { ...rest, gateId, permissions: entries.map(readStoredEntry) };
}

/** Tells a missing gate from a missing catalog. */
export async function gateExists(sql: Database, gateId: GateId): Promise<boolean> {
  const rows = await sql`SELECT FROM gates WHERE gate_id = ${gateId} AND deleted_at_ms IS NULL`;
  return rows.length > 0;
}
