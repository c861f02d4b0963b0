import { type Command, InvalidArgumentError } from 'commander';
import { limits } from '../../shared/model/limits.ts';
import type { ApiOptions, Work } from './host.ts';
import type { Column } from './print.ts';

/** Options of a command that lists. */
export interface ListOptions extends ApiOptions {
  readonly limit: number;
  readonly all?: boolean;
  readonly cursor?: string;
}

interface Page {
  readonly next_cursor: string | null;
}
export interface PageQuery {
  readonly limit: number;
  readonly cursor?: string;
}

const itemsDefault = limits.pageItemsDefault;

export const lists = (command: Command): Command =>
  command
    .option('--limit <number>', 'at most so many', atLeastOne, itemsDefault)
    .option('--all', 'all of them')
    .option('--cursor <text>', 'where the list before ended: standard error names it');

function atLeastOne(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It is a whole number of at least 1.');
}

/** Of a command that changes or ends something for good. */
export const asksFirst = (command: Command): Command =>
  command.option('--yes', 'without asking; needed where no terminal is there to ask at');

/**
 * Prints a list, page by page. What is left out is named on standard error, with the cursor where it goes on.
 */
export async function printList<Item extends object, Found extends Page>(
  { print }: Pick<Work, 'print'>,
  options: ListOptions,
  list: {
    readonly fetch: (query: PageQuery) => PromiseLike<Found>;
    readonly itemsOf: (page: Found) => readonly Item[];
    readonly columns: readonly Column<Item>[];
  },
): Promise<void> {
  const wanted = options.all === true ? Number.POSITIVE_INFINITY : options.limit;
  let cursor = options.cursor ?? null;
  for (let count = 0; ; ) {
    const limit = Math.min(wanted - count, limits.pageItemsMax);
    const page = await list.fetch({ limit, ...(cursor === null ? {} : { cursor }) });
    const items = list.itemsOf(page);
    print.rows(list.columns, items, count === 0);
    count += items.length;
    cursor = page.next_cursor;
    if (cursor === null) return;
    if (count >= wanted) return print.say(`There are more: --all, or --cursor ${cursor}`);
  }
}
