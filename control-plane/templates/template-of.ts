import { ApiError } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Template } from '../../shared/model/template.ts';
import type { Page, PageRequest } from '../../shared/wire/paging.ts';
import type { Database } from '../base/database.ts';
import { builtInTemplates } from './built-in-templates.ts';
import { findOwnTemplate, listOwnTemplates } from './template-store.ts';

/** By its slug, or as one of the account's own. Null: there is none. */
export async function findTemplate(
  sql: Database,
  owner: Owner,
  templateId: string,
): Promise<Template | null> {
  if (isId('tmpl', templateId)) return findOwnTemplate(sql, owner, templateId);
  return builtInTemplates.find((each) => each.templateId === templateId) ?? null;
}

/** The template that a new gate names; null where it names none. Throws `template_not_found`. */
export async function templateOf(
  sql: Database,
  owner: Owner,
  templateId: string | undefined,
): Promise<Template | null> {
  if (templateId === undefined) return null;
  const template = await findTemplate(sql, owner, templateId);
  if (template === null) throw new ApiError('template_not_found', { param: 'template_id' });
  return template;
}

/** The built-in ones, then the account's own, newest first. */
export async function listTemplates(
  sql: Database,
  owner: Owner,
  { limit, offset }: PageRequest,
): Promise<Page<Template>> {
  const builtIn = builtInTemplates.slice(offset, offset + limit);
  const own = await listOwnTemplates(sql, owner, {
    limit: limit - builtIn.length,
    offset: Math.max(0, offset - builtInTemplates.length),
  });
  return { items: [...builtIn, ...own.items], total: builtInTemplates.length + own.total };
}
