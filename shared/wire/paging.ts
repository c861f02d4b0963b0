import { type TSchema, Type } from 'typebox';
import { limits } from '../model/limits.ts';

/** Query parameters of every list that is paged by offset (contract §12); above the maximum is 400. */
export const pagingQuery = {
  limit: Type.Integer({ minimum: 1, maximum: limits.pageItemsMax, default: limits.pageItemsDefault }),
  offset: Type.Integer({ minimum: 0, maximum: limits.pageOffsetMax, default: 0 }),
};

export const PagingQuery = Type.Object(pagingQuery);

/** Which part of a list is wanted. */
export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
}

/** That part, newest first, and how many there are in all. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly total: number;
}

export const PageAnswer = <Item extends TSchema>(item: Item) =>
  Type.Object({
    items: Type.Array(item),
    total: Type.Integer(),
    limit: Type.Integer(),
    offset: Type.Integer(),
  });

export const renderPage = <Item, Rendered>(
  page: Page<Item>,
  { limit, offset }: PageRequest,
  renderItem: (item: Item) => Rendered,
) => ({ items: page.items.map(renderItem), total: page.total, limit, offset });
