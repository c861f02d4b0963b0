import { must } from '../../shared/errors/assert.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';

/**
 * One page of a list. `rows` answers at most `limit` items behind `page.behind`, in descending order of the
 * id that `idOf` answers; `count` is asked for the first page of a walk alone.
 */
export async function readPage<Item>(
  page: PagePlace,
  read: {
    readonly count: () => PromiseLike<readonly { readonly total: number }[]>;
    readonly rows: (limit: number) => PromiseLike<readonly Item[]>;
    readonly idOf: (item: Item) => string;
  },
): Promise<Page<Item>> {
  const total = page.total ?? must((await read.count())[0], 'a count has a row').total;
  // One more than wanted says whether others follow.
  const rows = await read.rows(page.limit + 1);
  const items = rows.slice(0, page.limit);
  const last = rows.length > page.limit ? items.at(-1) : undefined;
  return { items, total, lastId: last === undefined ? null : read.idOf(last) };
}

/**
 * The items of a page of rows. A row that cannot be read is our fault and costs itself alone: it is left out,
 * and the log names it. `total` counts it all the same.
 */
export function readItems<Row, Item>(
  { items, ...place }: Page<Row>,
  read: {
    readonly of: 'gate' | 'issuer' | 'passport' | 'template';
    readonly idOf: (row: Row) => string;
    readonly toItem: (row: Row) => Item;
    readonly logger: Logger;
  },
): Page<Item> {
  const whole: Item[] = [];
  const bad: { readonly id: string; readonly reason: string }[] = [];
  for (const row of items) {
    try {
      whole.push(read.toItem(row));
    } catch (error) {
      bad.push({ id: read.idOf(row), reason: error instanceof Error ? error.message : String(error) });
    }
  }
  if (bad.length > 0) {
    const rows = bad.slice(0, badRowsNamedMax);
    read.logger.error({ of: read.of, count: bad.length, rows }, 'a list leaves out rows that cannot be read');
  }
  return { ...place, items: whole };
}

/** In one line of the log: a page may hold two hundred. */
const badRowsNamedMax = 10;
