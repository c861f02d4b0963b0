import { Compile } from 'typebox/compile';
import { canonicalJson } from '../crypto/canonical-json.ts';
import type { Keyset } from '../crypto/keyset.ts';
import type { CatalogEntry } from '../model/catalog.ts';
import { DiscoveryResult, renderOffered } from '../wire/discovery.ts';
import { type CatalogFault, catalogFaults, verifyCatalog } from './verify-catalog.ts';

/** What can be wrong with a discovery result beside its catalog, with the words for it. */
export const discoveryFaults = {
  ...catalogFaults,
  result_malformed: 'this is not a discovery result',
  other_catalog: 'this result names another catalog: its hash, signature or key differ',
  permission_missing: 'the catalog does not offer this permission',
  offer_mismatch: 'this result differs from the signed catalog, for example in its price',
} as const;

export type DiscoveryVerdict =
  | { readonly kind: 'valid'; readonly entry: CatalogEntry }
  | { readonly kind: 'invalid'; readonly fault: CatalogFault | keyof typeof discoveryFaults };

const resultShape = Compile(DiscoveryResult);

/**
 * Verifies, without asking anybody, that a result of `GET /discover` says what its gate published and the
 * service signed. `catalog` is the parsed JSON of `GET /gates/:id/catalog?version=` for the result's
 * `gate_id` and `catalog_version`.
 *
 * Never throws, whatever both are. `gate_name` and `security_profile` belong to the gate and not to its
 * catalog: they are NOT signed.
 */
export function verifyDiscoveryResult(result: unknown, catalog: unknown, keys: Keyset): DiscoveryVerdict {
  if (!resultShape.Check(result)) return invalid('result_malformed');
  const verdict = verifyCatalog(catalog, keys, { gateId: result.gate_id, version: result.catalog_version });
  if (verdict.kind === 'invalid') return verdict;
  const { contentHash, signature, signingKeyId, permissions } = verdict.catalog;
  const isThisCatalog =
    result.catalog_content_hash === contentHash &&
    result.catalog_signature === signature &&
    result.signing_key_id === signingKeyId;
  if (!isThisCatalog) return invalid('other_catalog');
  const entry = permissions.find(({ key }) => key === result.permission_key);
  if (entry === undefined) return invalid('permission_missing');
  return matchesEntry(result, entry) ? { kind: 'valid', entry } : invalid('offer_mismatch');
}

/** Additional members of the result are held against nothing; those that the catalog has are. */
function matchesEntry(result: DiscoveryResult, entry: CatalogEntry): boolean {
  const offered: Readonly<Record<string, unknown>> = renderOffered(entry);
  const claimed: Readonly<Record<string, unknown>> = result;
  return Object.keys(offered).every((name) => sameJson(claimed[name], offered[name]));
}

function sameJson(claimed: unknown, signed: unknown): boolean {
  try {
    return canonicalJson(claimed) === canonicalJson(signed);
  } catch {
    // What has no canonical form is not what was signed.
    return false;
  }
}

const invalid = (fault: keyof typeof discoveryFaults): DiscoveryVerdict => ({ kind: 'invalid', fault });
