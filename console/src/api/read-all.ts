import { ask } from './client.ts';

interface CursorPage<Row> {
  readonly items: readonly Row[];
  readonly next_cursor: string | null;
}

/** An account has a few hundred sidecars, and a person fewer sessions. */
const pagesMax = 10;

/** A short list as a whole, page by page. */
export async function readAll<Row>(path: string): Promise<{ readonly items: readonly Row[] }> {
  const items: Row[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < pagesMax; pages++) {
    const page: CursorPage<Row> = await ask({ method: 'GET', path, query: { limit: 200, cursor } });
    items.push(...page.items);
    if (page.next_cursor === null) break;
    cursor = page.next_cursor;
  }
  return { items };
}
