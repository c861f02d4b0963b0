import { invalidRequest } from '../../shared/errors/api-error.ts';
import { trimBlanks } from '../../shared/wire/api/request-headers.ts';

/** The tag in its quotes (RFC 9110 §8.8.3); always a strong one. */
export const entityTag = (opaque: string): string => `"${opaque}"`;

/** Whether a request's precondition holds for the current tag. */
export type TagCondition = (currentTag: string) => boolean;

/** A quoted tag, which may contain commas. */
const oneTag = /\s*(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)/y;

/** What Apache adds to the tag of an answer that it has compressed. */
const ofCompressed = /-(?:gzip|deflate|br|zstd)"$/;

/**
 * The tags as our own answers had them, whatever has compressed those on their way: nginx makes a strong tag
 * weak, Apache gives it an end. None of ours is weak or has such an end. Null: not a list of tags.
 */
function parseTags(text: string): readonly string[] | null {
  const tags: string[] = [];
  const pattern = new RegExp(oneTag);
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (match === null) return null;
    tags.push((match[1] ?? '').replace(ofCompressed, '"'));
  }
  return tags.length === 0 || trimBlanks(text).endsWith(',') ? null : tags;
}

/**
 * `If-Match` (RFC 9110 §13.1.1): `*`, or tags that must include the current one. Unlike there a weak tag
 * counts as its strong one, because whoever reads through a proxy that compresses has no other. Without the
 * header every tag passes. Throws `invalid_request` for anything else: a precondition that is not understood
 * must not be ignored.
 */
export function readIfMatch(header: string | undefined): TagCondition {
  if (header === undefined || trimBlanks(header) === '*') return () => true;
  const tags = parseTags(header);
  if (tags === null)
    throw invalidRequest('If-Match', 'If-Match must be * or a list of tags in double quotes.');
  return (current) => tags.includes(current);
}

/**
 * `If-None-Match` (RFC 9110 §13.1.2): whether the sender has the current version. An unreadable header
 * matches nothing.
 */
export function isKnownTo(header: string | undefined, currentTag: string): boolean {
  if (header === undefined) return false;
  if (trimBlanks(header) === '*') return true;
  return (parseTags(header) ?? []).includes(currentTag);
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
