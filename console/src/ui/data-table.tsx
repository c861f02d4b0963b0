import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { memo, type ReactNode, useEffect, useRef } from 'react';
import { Problem, Waiting } from './page.tsx';

export interface Column<Row> {
  readonly head: string;
  cell(row: Row): ReactNode;
  /** A track of a CSS grid. */
  readonly width: string;
  readonly isNumber?: boolean;
  /** Left out where the window is narrow. */
  readonly isWideOnly?: boolean;
}

/** What a list is read from: pages that are loaded as the reader scrolls. */
export interface Source<Row> {
  readonly rows: readonly Row[];
  readonly isPending: boolean;
  readonly error: unknown;
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  fetchNextPage(): unknown;
  refetch(): unknown;
}

const rowPx = 52;

const columnClass = <Row,>(column: Column<Row>, kind: string): string =>
  [kind, column.isNumber ? 'number' : '', column.isWideOnly ? 'wide-only' : ''].filter(Boolean).join(' ');

interface TableRowOf<Row> {
  readonly index: number;
  /** Pixels below the top of the list. */
  readonly top: number;
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
}

// biome-ignore-start lint/a11y/useSemanticElements: rows of a real table cannot be placed by themselves
// biome-ignore-start lint/a11y/useFocusableInteractive: rows are read, the links in them are used
/** Drawn once: while the reader scrolls, only the rows that come into sight are drawn. */
const TableRow = memo(function TableRow<Row>({ index, top, row, columns }: TableRowOf<Row>): ReactNode {
  return (
    <div role="row" className="tr" aria-rowindex={index + 2} style={{ transform: `translateY(${top}px)` }}>
      {columns.map((column) => (
        <div role="cell" key={column.head} className={columnClass(column, 'td')}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}) as <Row>(of: TableRowOf<Row>) => ReactNode;

/** A list of any length: only the rows in sight are in the page, and the next ones are loaded in time. */
export function DataTable<Row>({
  label,
  columns,
  source,
  empty,
}: {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly source: Source<Row>;
  readonly empty: ReactNode;
}): ReactNode {
  const { rows, hasNextPage, isFetchingNextPage, fetchNextPage } = source;
  const body = useRef<HTMLDivElement>(null);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowPx,
    overscan: 12,
    scrollMargin: body.current?.offsetTop ?? 0,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const isNearEnd = rows.length > 0 && last >= rows.length - 20;
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage) fetchNextPage();
  }, [isNearEnd, hasNextPage, isFetchingNextPage, fetchNextPage]);

  if (source.isPending) return <Waiting what={label.toLowerCase()} />;
  if (source.error !== null && rows.length === 0) {
    return <Problem error={source.error} onRetry={() => source.refetch()} />;
  }
  if (rows.length === 0) return empty;
  const wide = columns.map(({ width }) => width).join(' ');
  const narrow = columns.flatMap(({ width, isWideOnly }) => (isWideOnly ? [] : [width])).join(' ');
  return (
    <>
      <div
        role="table"
        aria-label={label}
        aria-rowcount={hasNextPage ? -1 : rows.length + 1}
        className="table"
        style={{ '--wide': wide, '--narrow': narrow } as React.CSSProperties}
      >
        <div role="rowgroup">
          <div role="row" className="tr head" aria-rowindex={1}>
            {columns.map((column) => (
              <div role="columnheader" key={column.head} className={columnClass(column, 'th')}>
                {column.head}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="body" ref={body} style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            const top = start - virtual.options.scrollMargin;
            return <TableRow key={index} index={index} top={top} row={row} columns={columns} />;
          })}
        </div>
      </div>
      {source.error === null ? null : <Problem error={source.error} onRetry={() => fetchNextPage()} />}
      {isFetchingNextPage ? <Waiting what="more" /> : null}
    </>
  );
}
// biome-ignore-end lint/a11y/useFocusableInteractive: see above
// biome-ignore-end lint/a11y/useSemanticElements: see above
