import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { type Id, type IdPrefix, isId } from '../../shared/model/ids.ts';

/** `/:id` in a path. Any text is accepted: an invalid id is an unknown one. */
export const IdParams = Type.Object({ id: Type.String() });

/** The id of a path. An impossible id answers 404 without a query. */
export function pathId<P extends IdPrefix>(prefix: P, text: string, notFound: ErrorCode): Id<P> {
  if (!isId(prefix, text)) throw new ApiError(notFound);
  return text;
}
