import { contentHash } from '../crypto/content-hash.ts';
import type { Catalog, CatalogContent } from '../model/catalog.ts';
import { renderCatalogContent } from './catalog.ts';

/**
 * `sha256:` + hex over the RFC 8785 form of all that is signed (contract §10): gate and version too, so that
 * no price can move.
 */
const catalogHash = (content: CatalogContent): string => contentHash(renderCatalogContent(content));

/** The prefix keeps a catalog's signature from passing for one of another kind. */
const catalogMessage = (hash: string): string => `agent-trust.catalog.v1:${hash}`;

/** `sign` answers base64url Ed25519 over the ASCII message. */
export function signCatalog(
  content: Omit<CatalogContent, 'signingKeyId'>,
  key: { readonly kid: string; sign(message: string): string },
): Catalog {
  const complete: CatalogContent = { ...content, signingKeyId: key.kid };
  const hash = catalogHash(complete);
  return { ...complete, contentHash: hash, signature: key.sign(catalogMessage(hash)) };
}
