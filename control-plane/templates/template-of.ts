/**
 * Room `control-plane/templates`: gate templates: built-in ones and those of an account. SQL in
 * `template-store.ts`.
 */

import { ApiError } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Template } from '../../shared/model/template.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database } from '../base/database.ts';
import { readItems, readPage } from '../storage/read-page.ts';
import { builtInTemplates } from './built-in-templates.ts';
import {
  countOwnTemplates,
  findOwnTemplate,
  readOwnTemplates,
  type TemplateRow,
  toTemplate,
} from './template-store.ts';

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
export async function listTemplates<Item>(
  sql: Database,
  owner: Owner,
  asked: {
    readonly namePart: string | null;
    readonly page: PagePlace;
    readonly toItem: (template: Template) => Item;
    readonly logger: Logger;
  },
): Promise<Page<Item>> {
  const { namePart, page, toItem, logger } = asked;
  const builtInFound = builtInTemplates.filter(({ name }) => holdsPart(name, namePart));
  const idOf = ({ templateId }: Listed) => templateId;
  const found = await readPage<Listed>(page, {
    count: async () => [{ total: builtInFound.length + (await countOwnTemplates(sql, owner, namePart)) }],
    rows: async (limit) => {
      const passed = page.behind === null ? page.offset : builtInUpTo(builtInFound, page.behind);
      const builtIn = builtInFound.slice(passed, passed + limit);
      const own = await readOwnTemplates(sql, owner, {
        namePart,
        limit: limit - builtIn.length,
        offset: page.behind === null ? Math.max(0, page.offset - builtInFound.length) : 0,
        behind: isId('tmpl', page.behind) ? page.behind : null,
      });
      return [...builtIn, ...own];
    },
    idOf,
  });
  const read = (listed: Listed) => toItem('isBuiltIn' in listed ? listed : toTemplate(listed));
  return readItems(found, { of: 'template', idOf, toItem: read, logger });
}

/** A built-in one, or a row of one's own. */
type Listed = Template | TemplateRow;

/** As `hasPart` of rows. */
const holdsPart = (name: string, part: string | null): boolean =>
  part === null || name.toLowerCase().includes(part.toLowerCase());

/** How many of these built-in ones a page passes over that begins after this template. */
function builtInUpTo(found: readonly Template[], templateId: string): number {
  const place = found.findIndex((each) => each.templateId === templateId);
  return place < 0 ? found.length : place + 1;
}
