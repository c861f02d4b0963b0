import { InvariantError, must } from '../../shared/errors/assert.ts';
import type { TemplateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Template } from '../../shared/model/template.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { hasPart } from '../storage/has-part.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';

export type TemplateRow = Omit<Template, 'constraints' | 'isBuiltIn'> & { readonly constraints: unknown };

const columns = (sql: Database) => sql`
  template_id AS "templateId", name, description, trust_level AS "trustLevel", constraints,
  created_at_ms AS "createdAtMs"`;

/**
 * Rows were validated before they were written, so an unreadable one is an internal error that names the
 * template.
 */
export function toTemplate(row: TemplateRow): Template {
  try {
    return { ...row, constraints: readStoredConstraints(row.constraints, 'template'), isBuiltIn: false };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InvariantError(`the row of template ${row.templateId} can be read: ${why}`, { cause });
  }
}

export async function insertTemplate(tx: Transaction, owner: Owner, template: Template): Promise<void> {
  await tx`
    INSERT INTO templates (template_id, account_id, mode, name, description, trust_level, constraints, created_at_ms)
    VALUES (${template.templateId}, ${owner.accountId}, ${owner.mode}, ${template.name}, ${template.description},
      ${template.trustLevel}, ${JSON.stringify(renderConstraints(template.constraints))}::text::jsonb,
      ${template.createdAtMs})`;
}

export async function hasTemplateNamed(tx: Transaction, owner: Owner, name: string): Promise<boolean> {
  const rows = await tx`
    SELECT FROM templates
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND name = ${name} LIMIT 1`;
  return rows.length > 0;
}

export async function findOwnTemplate(
  sql: Database,
  owner: Owner,
  templateId: TemplateId,
): Promise<Template | null> {
  const [row] = await sql<TemplateRow[]>`
    SELECT ${columns(sql)} FROM templates
    WHERE template_id = ${templateId} AND account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row === undefined ? null : toTemplate(row);
}

export async function countOwnTemplates(
  sql: Database,
  owner: Owner,
  namePart: string | null,
): Promise<number> {
  const [counted] = await sql<{ total: number }[]>`
    SELECT count(*) AS total FROM templates
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} ${hasPart(sql, sql`name`, namePart)}`;
  return must(counted, 'a count has a row').total;
}

/** Newest first, after an id; for `toTemplate`. */
export async function readOwnTemplates(
  sql: Database,
  owner: Owner,
  {
    namePart,
    limit,
    offset,
    behind,
  }: Pick<PagePlace, 'limit' | 'offset' | 'behind'> & { readonly namePart: string | null },
): Promise<readonly TemplateRow[]> {
  return sql<TemplateRow[]>`
    SELECT ${columns(sql)} FROM templates
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} ${hasPart(sql, sql`name`, namePart)}
      ${behind === null ? sql`` : sql`AND template_id < ${behind}`}
    ORDER BY template_id DESC LIMIT ${limit} OFFSET ${offset}`;
}
