import type { Keyset } from '../crypto/keyset.ts';
import type { Catalog } from '../model/catalog.ts';
import type { VerificationKey } from '../model/signing-key.ts';
import { parseCatalog } from '../wire/catalog.ts';
import { catalogHash, catalogSignatureVerifies } from '../wire/catalog-signature.ts';

/** What can be wrong with a catalog, with the words for it. */
export const catalogFaults = {
  malformed: 'this is not a permission catalog',
  other_gate: 'this catalog is of another gate',
  other_version: 'this catalog is of another version',
  hash_mismatch: 'the content of this catalog does not match its hash: it was changed',
  unknown_key: 'this catalog names a signing key that is not a catalog key of the JWKS',
  key_compromised: 'the key that signed this catalog was declared compromised',
  signature_invalid: 'the signature of this catalog is not valid',
} as const;

export type CatalogFault = keyof typeof catalogFaults;

export type CatalogVerdict =
  | { readonly kind: 'valid'; readonly catalog: Catalog; readonly key: VerificationKey }
  | { readonly kind: 'invalid'; readonly fault: CatalogFault };

/**
 * Verifies, without asking anybody, that the service signed exactly these permissions and prices for exactly
 * this gate and version. `catalog` is the parsed JSON of `GET /gates/:id/catalog`, from wherever it came;
 * `keys` are those of `serviceKeys`. Say which gate you mean: a catalog of another gate is just as well
 * signed. `version` absent: any will do.
 *
 * Never throws, whatever `catalog` is. Does NOT say whether it is the newest one: that is what the service
 * answers when asked without a version. A retired key verifies for ever.
 */
export function verifyCatalog(
  catalog: unknown,
  keys: Keyset,
  expected: { readonly gateId: string; readonly version?: number },
): CatalogVerdict {
  const parsed = parseCatalog(catalog);
  const hash = parsed === null ? null : hashIfAny(parsed);
  if (parsed === null || hash === null) return invalid('malformed');
  if (parsed.gateId !== expected.gateId) return invalid('other_gate');
  if (expected.version !== undefined && parsed.version !== expected.version) return invalid('other_version');
  if (hash !== parsed.contentHash) return invalid('hash_mismatch');
  const signer = keys.find('catalog', parsed.signingKeyId);
  if (signer === null) return invalid('unknown_key');
  if (signer.key.compromised) return invalid('key_compromised');
  if (!catalogSignatureVerifies(parsed, signer)) return invalid('signature_invalid');
  return { kind: 'valid', catalog: parsed, key: signer.key };
}

/** What has no RFC 8785 form, such as a lone surrogate or a nesting without end, was never signed. */
function hashIfAny(catalog: Catalog): string | null {
  try {
    return catalogHash(catalog);
  } catch {
    // The library throws errors of several kinds for the one thing that matters here.
    return null;
  }
}

const invalid = (fault: CatalogFault): CatalogVerdict => ({ kind: 'invalid', fault });
