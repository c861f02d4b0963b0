import { invalidRequest } from '../../shared/errors/api-error.ts';
import { trimBlanks } from '../../shared/wire/request-headers.ts';

/** The tag in its quotes (RFC 9110 §8.8.3); always a strong one. */
export const entityTag = (opaque: string): string => `"${opaque}"`;

/** Whether a request's precondition holds for the current tag. */
export type TagCondition = (currentTag: string) => boolean;

/** A quoted tag, which may contain commas. */
const oneTag = /\s*(W\/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)/y;

interface GivenTag {
  readonly tag: string;
  readonly isWeak: boolean;
}

/** Null: not a list of tags. */
function parseTags(text: string): readonly GivenTag[] | null {
  const tags: GivenTag[] = [];
  const pattern = new RegExp(oneTag);
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (match === null) return null;
    tags.push({ tag: match[2] ?? '', isWeak: match[1] !== undefined });
  }
  return tags.length === 0 || trimBlanks(text).endsWith(',') ? null : tags;
}

/**
 * `If-Match` (RFC 9110 §13.1.1): `*`, or tags that must include the current one; a weak tag matches nothing.
 * Without the header every tag passes. Throws `invalid_request` for anything else: a precondition that is not
 * understood must not be ignored.
 */
export function readIfMatch(header: string | undefined): TagCondition {
  if (header === undefined || trimBlanks(header) === '*') return () => true;
  const tags = parseTags(header);
  if (tags === null)
    throw invalidRequest('If-Match', 'If-Match must be * or a list of tags in double quotes.');
  return (current) => tags.some(({ tag, isWeak }) => !isWeak && tag === current);
}

/**
 * `If-None-Match` (RFC 9110 §13.1.2): whether the sender has the current version. An unreadable header
 * matches nothing.
 */
export function isKnownTo(header: string | undefined, currentTag: string): boolean {
  if (header === undefined) return false;
  if (trimBlanks(header) === '*') return true;
  return (parseTags(header) ?? []).some(({ tag }) => tag === currentTag);
}

/**
 * `If-None-Match: *` on a request that creates: only where nothing of that name exists. Throws
 * `invalid_request` for tags, which have no meaning there.
 */
export function mayOnlyBeNew(header: string | undefined): boolean {
  if (header === undefined) return false;
  if (trimBlanks(header) === '*') return true;
  throw invalidRequest('If-None-Match', 'If-None-Match must be * on a request that creates.');
}
