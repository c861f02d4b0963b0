import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { AuditPlace } from './audit-store.ts';

/**
 * An opaque place in a list of audit entries, right after one of them. The checksum ties it to its query, so
 * that a cut, changed or misused cursor is refused instead of answering the wrong page. It is neither secret
 * nor a permission.
 */
export const renderAuditCursor = ({ createdAtMs, sequence }: AuditPlace, query: string): string => {
  const place = `${createdAtMs}.${sequence}`;
  return encodeBase64url(Buffer.from(`${place}.${check(place, query)}`));
};

/** The place in a cursor of the same query; null for anything else. */
export function parseAuditCursor(cursor: string, query: string): AuditPlace | null {
  const bytes = decodeBase64url(cursor);
  const text = bytes === null ? '' : Buffer.from(bytes).toString('latin1');
  const match = /^(\d{1,15})\.(\d{1,15})\.[0-9a-f]{16}$/.exec(text);
  if (match === null) return null;
  const place: AuditPlace = { createdAtMs: Number(match[1]) as UnixMillis, sequence: Number(match[2]) };
  return renderAuditCursor(place, query) === cursor ? place : null;
}

const check = (place: string, query: string): string =>
  sha256Hex(`agent-trust.audit-cursor.v1:${place}:${query}`).slice(0, 16);
