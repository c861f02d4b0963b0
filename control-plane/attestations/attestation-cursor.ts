import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { type AttestationId, isId } from '../../shared/model/ids.ts';

/**
 * An opaque position in a list of attestations, after one of them: base64url of `<attestation id>.<check>`.
 * The check binds it to its query, so that a cursor that was cut, changed or used with another query is
 * refused instead of returning the wrong page. It is neither secret nor a permission: it names a record that
 * the caller has seen, and every page is filtered by the caller's rights.
 */
export const renderCursor = (last: AttestationId, query: string): string =>
  encodeBase64url(Buffer.from(`${last}.${check(last, query)}`));

/**
 * The attestation id in a cursor of the same query; null for anything else. Does not check that the
 * attestation exists.
 */
export function parseCursor(cursor: string, query: string): AttestationId | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  const [last = ''] = Buffer.from(bytes).toString('latin1').split('.', 1);
  return isId('att', last) && renderCursor(last, query) === cursor ? last : null;
}

const check = (last: AttestationId, query: string): string =>
  sha256Hex(`agent-trust.cursor.v2:${last}:${query}`).slice(0, 16);
