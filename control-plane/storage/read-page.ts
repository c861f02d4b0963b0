import { must } from '../../shared/errors/assert.ts';
import type { Page, PagePlace } from '../../shared/wire/paging.ts';

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
