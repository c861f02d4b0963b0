import { type TSchema, Type } from 'typebox';
import { decodeBase64url, encodeBase64url } from '../../crypto/base64url.ts';
import { sha256Hex } from '../../crypto/content-hash.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';
import type { Owner } from '../../model/owner.ts';
import { Name, nullable } from './fields.ts';

/** Query parameters of every list (contract §12); above the maximum is 400. */
export const pagingQuery = {
  limit: Type.Integer({ minimum: 1, maximum: limits.pageItemsMax, default: limits.pageItemsDefault }),
  offset: Type.Integer({ minimum: 0, maximum: limits.pageOffsetMax, default: 0 }),
  /** `next_cursor` of an answer to the same query: the page begins after it. Excludes `offset`. */
  cursor: Type.Optional(Type.String({ maxLength: limits.listCursorCharsMax })),
};

export const PagingQuery = Type.Object(pagingQuery);

/** A part of a name or of an id that people choose, by which a list is filtered (contract §12). */
export const TextPart = Type.Optional(Name);

/** Of a list of things with names. */
export const NamedListQuery = Type.Object({ name: TextPart, ...pagingQuery });

/** The requested part of a list. */
export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
  readonly cursor?: string | undefined;
}

export interface NamedPageRequest extends PageRequest {
  readonly name?: string | undefined;
}

/** The same with its cursor parsed. Lists are in descending order of an id that never changes. */
export interface PagePlace {
  readonly limit: number;
  readonly offset: number;
  /** Items with lower ids follow. Null: from the start. */
  readonly behind: string | null;
  /** The count of the walk's first page, which later pages reuse. Null: to be counted. */
  readonly total: number | null;
  /** The list and its filters. A cursor belongs to one such query. */
  readonly query: string;
}

/** A page, newest first, and the count of all items. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  /** The id of the last item; null on the last page. */
  readonly lastId: string | null;
}

export const PageAnswer = <Item extends TSchema>(item: Item) =>
  Type.Object({
    items: Type.Array(item),
    total: Type.Integer(),
    limit: Type.Integer(),
    offset: Type.Integer(),
    next_cursor: nullable(Type.String()),
  });

/**
 * Reads the cursor of a query. `list` and `filters` identify the query, together with the owner. Throws
 * `invalid_request` for a cursor of another list, owner or filter.
 */
export function placePage(
  { limit, offset, cursor }: PageRequest,
  { accountId, mode }: Owner,
  list: string,
  filters: readonly (string | null)[] = [],
): PagePlace {
  const query = JSON.stringify([list, accountId, mode, ...filters]);
  if (cursor === undefined) return { limit, offset, behind: null, total: null, query };
  if (offset > 0) throw invalidRequest('offset', 'A cursor says where the page begins: leave offset out.');
  const read = readCursor(cursor);
  if (read === null || renderCursor(read, query) !== cursor) {
    throw invalidRequest('cursor', 'Must be next_cursor of an answer to the same query.');
  }
  return { limit, offset, query, ...read };
}

/**
 * What the parts in a query add to its filters. Without any they are what they were before lists knew parts:
 * a walk goes on where a replica of another version answers.
 */
export const partsAsked = (query: {
  readonly name?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly agent_name?: string | undefined;
}): readonly string[] =>
  (['name', 'agent_id', 'agent_name'] as const).flatMap((each) =>
    query[each] === undefined ? [] : [`${each}=${query[each]}`],
  );

export const renderPage = <Item, Rendered>(
  { items, total, lastId }: Page<Item>,
  { limit, offset, query }: PagePlace,
  renderItem: (item: Item) => Rendered,
) => ({
  items: items.map(renderItem),
  total,
  limit,
  offset,
  next_cursor: lastId === null ? null : renderCursor({ behind: lastId, total }, query),
});

interface Walked {
  readonly behind: string;
  readonly total: number;
}

/**
 * Opaque: base64url of JSON, with a checksum that ties it to its query. It is neither secret nor a
 * permission: it names an item already answered, and every page is filtered by what its caller may see.
 */
const renderCursor = ({ behind, total }: Walked, query: string): string => {
  const check = sha256Hex(`agent-trust.list-cursor.v1:${JSON.stringify([behind, total, query])}`).slice(
    0,
    16,
  );
  return encodeBase64url(Buffer.from(JSON.stringify([behind, total, check])));
};

/** A caller can compute the checksum and forge a cursor, so only well-formed ids reach the database. */
const idPattern = /^[a-z0-9_-]{1,64}$/;

function readCursor(cursor: string): Walked | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  try {
    const [behind, total] = JSON.parse(Buffer.from(bytes).toString('utf8'));
    const isPlace = typeof behind === 'string' && idPattern.test(behind) && Number.isSafeInteger(total);
    return isPlace && total >= 0 ? { behind, total } : null;
  } catch {
    return null;
  }
}
