import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { DiscoveryQuery } from '../../shared/wire/api/discovery.ts';

/** The last offer of a page; the next page begins after it. */
export interface OfferPlace {
  /** The sort value: price, uptime or response time. Null is last. */
  readonly figure: number | null;
  readonly gateId: string;
  readonly permissionKey: string;
}

/**
 * An opaque place in the results of one query: base64url of JSON with a checksum that ties it to the query,
 * so that a cut, changed or misused cursor is refused instead of answering a wrong page. Not secret: it names
 * an offer already answered.
 */
export const renderOfferCursor = (place: OfferPlace, query: DiscoveryQuery): string =>
  encodeBase64url(Buffer.from(JSON.stringify([...membersOf(place), checkOf(place, query)])));

/**
 * The place in the query's cursor; null without one. Throws `invalid_request` for a cursor of another query.
 */
export function placeOfQuery(query: DiscoveryQuery): OfferPlace | null {
  const { cursor, offset } = query;
  if (cursor === undefined) return null;
  if (offset > 0) throw invalidRequest('offset', 'A cursor says where the page begins: leave offset out.');
  const place = readPlace(cursor);
  if (place === null || renderOfferCursor(place, query) !== cursor) {
    throw invalidRequest('cursor', 'Must be next_cursor of an answer to the same query.');
  }
  return place;
}

/** Characters in neither ids nor permissions, such as U+0000, which PostgreSQL refuses. */
const hasForeignCharacter = /[^a-z0-9_.:-]/;

function readPlace(cursor: string): OfferPlace | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  try {
    const [figure, gateId, permissionKey] = JSON.parse(Buffer.from(bytes).toString('utf8'));
    const isPlace =
      (figure === null || Number.isSafeInteger(figure)) &&
      typeof gateId === 'string' &&
      typeof permissionKey === 'string' &&
      !hasForeignCharacter.test(gateId + permissionKey);
    return isPlace ? { figure, gateId, permissionKey } : null;
  } catch {
    return null;
  }
}

const membersOf = ({ figure, gateId, permissionKey }: OfferPlace) => [figure, gateId, permissionKey];

/** Pages of one walk may differ in length, so limit and offset are excluded. */
function checkOf(place: OfferPlace, { limit: _, offset: __, cursor: ___, ...asked }: DiscoveryQuery): string {
  const query = Object.entries(asked).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return sha256Hex(`agent-trust.discovery-cursor.v1:${JSON.stringify([membersOf(place), query])}`).slice(
    0,
    16,
  );
}
