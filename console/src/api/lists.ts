import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Source } from '../ui/data-table.tsx';
import { pollMs } from './live.ts';

const pageSize = 100;

interface CountedPage<Row> extends CursorPage {
  readonly items: readonly Row[];
  readonly total: number;
}

/** A list whose pages have `items` and a `total`, which is of the whole list. */
export function useCountedList<Row>(
  key: readonly unknown[],
  read: (page: { readonly limit: number; readonly cursor?: string }) => Promise<CountedPage<Row>>,
): Source<Row> & { readonly total: number | null } {
  const query = useInfiniteQuery({
    queryKey: [...key],
    queryFn: ({ pageParam }) =>
      read({ limit: pageSize, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : pollMs()()),
  });
  const rows = useMemo(() => query.data?.pages.flatMap(({ items }) => items) ?? [], [query.data]);
  return { ...query, rows, total: query.data?.pages[0]?.total ?? null };
}

interface CursorPage {
  readonly next_cursor: string | null;
}

/** A list that the API pages by `cursor`. A page may be empty and yet not be the last one. */
export function useCursorList<Row, Page extends CursorPage>(
  key: readonly unknown[],
  read: (page: { readonly limit: number; readonly cursor?: string }) => Promise<Page>,
  rowsOf: (page: Page) => readonly Row[],
): Source<Row> {
  const query = useInfiniteQuery({
    queryKey: [...key],
    queryFn: ({ pageParam }) =>
      read({ limit: pageSize, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : pollMs()()),
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rowsOf only names a member of the page
  const rows = useMemo(() => query.data?.pages.flatMap((page) => [...rowsOf(page)]) ?? [], [query.data]);
  return { ...query, rows };
}
