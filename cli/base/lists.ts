import type { Command } from 'commander';
import { limits } from '../../shared/model/limits.ts';
import type { ApiOptions, Work } from './host.ts';
import { numberLike } from './options.ts';
import type { Columns } from './print.ts';

/** Options of a command that lists. */
export interface ListOptions extends ApiOptions {
  readonly limit: number;
  readonly all?: boolean;
  readonly cursor?: string;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}
export interface PageQuery {
  readonly limit: number;
  readonly cursor?: string;
}

const atLeastOne = numberLike(/^[1-9]\d{0,8}$/, 'It is a whole number of at least 1.');

export const lists = (command: Command): Command =>
  command
    .option('--limit <number>', 'at most so many', atLeastOne, limits.pageItemsDefault)
    .option('--all', 'all of them')
    .option('--cursor <text>', 'where the list before ended: standard error names it');

/**
 * Prints a list, page by page. What is left out is named on standard error, with the cursor where it goes on.
 */
export async function printList<Item extends object>(
  { print, options }: Pick<Work, 'print'> & { readonly options: ListOptions },
  fetchPage: (query: PageQuery) => PromiseLike<Page<Item>>,
  columns: Columns<Item>,
): Promise<void> {
  const wanted = options.all === true ? Number.POSITIVE_INFINITY : options.limit;
  let cursor = options.cursor ?? null;
  for (let count = 0; ; ) {
    const limit = Math.min(wanted - count, limits.pageItemsMax);
    const { items, next_cursor } = await fetchPage({ limit, ...(cursor === null ? {} : { cursor }) });
    print.rows(columns, items, count === 0);
    count += items.length;
    cursor = next_cursor;
    if (cursor === null) return;
    if (count >= wanted) return print.say(`There are more: --all, or --cursor ${cursor}`);
  }
}
