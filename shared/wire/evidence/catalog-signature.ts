import { contentHash } from '../../crypto/content-hash.ts';
import type { Catalog, CatalogContent } from '../../model/catalog.ts';
import { renderCatalogContent } from '../api/catalog.ts';

/**
 * `sha256:` + hex over the RFC 8785 form of the signed content (contract §10). It includes gate and version,
 * so that no price can be moved to another gate or version.
 */
const catalogHash = (content: CatalogContent): string => contentHash(renderCatalogContent(content));

/** The prefix keeps a catalog's signature from passing for another kind of signature. */
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
