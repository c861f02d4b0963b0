import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { type AttestationId, isId } from '../../shared/model/ids.ts';

/**
 * An opaque place in a list of attestations, right behind one of them: base64url of `<attestation
 * id>.<check>`. The check ties it to the query it came from, so that a cursor that was cut, changed, or taken
 * over into another query is refused instead of silently answering the wrong page. It is no secret and no
 * permission: it names a record that its caller has seen, and every page is filtered by what the caller may
 * see.
 */
export const renderCursor = (last: AttestationId, query: string): string =>
  encodeBase64url(Buffer.from(`${last}.${check(last, query)}`));

/**
 * The attestation in a cursor of the same query; null for anything else. Says nothing of whether there is
 * such a one.
 */
export function parseCursor(cursor: string, query: string): AttestationId | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  const [last = ''] = Buffer.from(bytes).toString('latin1').split('.', 1);
  return isId('att', last) && renderCursor(last, query) === cursor ? last : null;
}

const check = (last: AttestationId, query: string): string =>
  sha256Hex(`agent-trust.cursor.v2:${last}:${query}`).slice(0, 16);
