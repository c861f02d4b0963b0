import { type Static, type TSchema, Type } from 'typebox';
import { decodeBase64url, encodeBase64url } from '../../crypto/base64url.ts';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import { sha256Hex } from '../../crypto/content-hash.ts';
import { isJsonObject } from '../../crypto/json-object.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';
import type { Owner } from '../../model/owner.ts';
import { bodyReader } from './body.ts';
import { FreeForm } from './fields.ts';

/** What is searched names only its type; everything else is as in an evaluation. */
const Wanted = Type.Object({ type: Type.String(), properties: Type.Optional(FreeForm) });
const Named = Type.Object({ type: Type.String(), id: Type.String(), properties: Type.Optional(FreeForm) });
const Action = Type.Object({ name: Type.String(), properties: Type.Optional(FreeForm) });
const rest = {
  context: Type.Optional(FreeForm),
  page: Type.Optional(
    Type.Object({
      token: Type.Optional(Type.String({ maxLength: limits.listCursorCharsMax })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.pageItemsMax })),
    }),
  ),
};

/** The three searches (OpenID AuthZEN Authorization API 1.0 §8; contract §16). */
export const searchBodies = {
  subject: Type.Object({ subject: Wanted, action: Action, resource: Named, ...rest }),
  resource: Type.Object({ subject: Named, action: Action, resource: Wanted, ...rest }),
  action: Type.Object({ subject: Named, resource: Named, ...rest }),
} as const;
export type SearchKind = keyof typeof searchBodies;
export type Search<Kind extends SearchKind> = Static<(typeof searchBodies)[Kind]>;

export const SearchAnswer = <Item extends TSchema>(item: Item) =>
  Type.Object({
    page: Type.Object({ next_token: Type.String(), count: Type.Integer() }),
    results: Type.Array(item),
  });

export const searchReaders: { readonly [Kind in SearchKind]: (body: unknown) => Search<Kind> } = {
  subject: bodyReader(searchBodies.subject),
  resource: bodyReader(searchBodies.resource),
  action: bodyReader(searchBodies.action),
};

/** A page of a search. */
export interface SearchPlace {
  readonly limit: number;
  /** Results follow what this names. Empty: from the start. */
  readonly after: string;
  /** The search without its page; a token belongs to one such search. */
  readonly query: string;
}

/**
 * Reads the page of a search. A token brings its limit along; with another limit, or of another search or
 * owner, it is refused.
 */
export function placeSearch(
  kind: SearchKind,
  { page = {}, ...asked }: Search<SearchKind>,
  { accountId, mode }: Owner,
): SearchPlace {
  const query = canonicalJson([kind, accountId, mode, withoutIgnored(kind, asked)]);
  const limit = page.limit ?? limits.pageItemsMax;
  const { token = '' } = page;
  if (token === '') return { limit, after: '', query };
  const read = readToken(token);
  const isOfLimit = page.limit === undefined || read?.limit === limit;
  if (read === null || !isOfLimit || renderToken({ ...read, query }) !== token) {
    throw invalidRequest('page.token', 'Must be next_token of an answer to the same search.');
  }
  return { ...read, query };
}

/** The id of what is searched is ignored (§8.4.1, §8.5.1). */
function withoutIgnored(kind: SearchKind, asked: object): object {
  if (kind === 'action') return asked;
  const { id: _, ...wanted } = (asked as Record<string, Readonly<Record<string, unknown>>>)[kind] ?? {};
  return { ...asked, [kind]: wanted };
}

/** `after` null: nothing follows. */
export const renderSearch = <Item>(place: SearchPlace, results: Item[], after: string | null) => ({
  page: { next_token: after === null ? '' : renderToken({ ...place, after }), count: results.length },
  results,
});

/** As a list's cursor (paging.ts): it is neither secret nor a permission. */
function renderToken({ limit, after, query }: SearchPlace): string {
  const check = sha256Hex(`agent-trust.search-token.v1:${JSON.stringify([after, limit, query])}`).slice(
    0,
    16,
  );
  return encodeBase64url(Buffer.from(JSON.stringify([after, limit, check])));
}

/** What may stand in a token: an id, or the place in a list. */
const namePattern = /^[a-z0-9_]{1,64}$/;

function readToken(token: string): Pick<SearchPlace, 'limit' | 'after'> | null {
  const bytes = decodeBase64url(token);
  if (bytes === null) return null;
  try {
    const [after, limit] = JSON.parse(Buffer.from(bytes).toString('utf8'));
    if (typeof after !== 'string' || !namePattern.test(after)) return null;
    const isLimit = Number.isSafeInteger(limit) && limit >= 1 && limit <= limits.pageItemsMax;
    return isLimit ? { after, limit } : null;
  } catch {
    return null;
  }
}

/** Whether an entity's type is one of ours for a subject. */
export const isSubjectType = (type: string): boolean => type === 'agent' || type === 'user';

/** Whether an unread evaluation is about a resource that is none of ours. */
export const hasOtherWords = (body: unknown): boolean =>
  isJsonObject(body) && isJsonObject(body['resource']) && body['resource']['type'] !== 'gate';
