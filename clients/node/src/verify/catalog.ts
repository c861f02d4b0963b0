import { canonical, hashOf, isObject, type Json } from './canonical.ts';
import { keysOf, verifies } from './keys.ts';

export const catalogFaults = {
  malformed: 'this is not a permission catalog',
  other_gate: 'this catalog is of another gate',
  other_version: 'this catalog is of another version',
  hash_mismatch: 'the content of this catalog does not match its hash',
  unknown_key: 'this catalog names a signing key that is not a catalog key of the JWKS',
  key_compromised: 'somebody else may have had the key that signed this catalog',
  signature_invalid: 'the signature of this catalog is not valid',
} as const;

export const discoveryFaults = {
  ...catalogFaults,
  result_malformed: 'this is not a discovery result',
  other_catalog: 'this result names another catalog: its hash, signature or key differ',
  permission_missing: 'the catalog does not offer this permission',
  offer_mismatch: 'this result says something else than the signed catalog',
} as const;

type Invalid<Fault> = { readonly valid: false; readonly fault: Fault };
export type CatalogVerdict =
  | { readonly valid: true; readonly catalog: Json }
  | Invalid<keyof typeof catalogFaults>;
/** `entry`: that of the signed catalog. */
export type DiscoveryVerdict =
  | { readonly valid: true; readonly entry: Json }
  | Invalid<keyof typeof discoveryFaults>;

/**
 * Whether the service signed exactly these permissions and prices for this gate and version
 * (docs/catalogs.md). `catalog` is the parsed JSON of `GET /v1/gates/{id}/catalog`, `jwks` that of
 * `/.well-known/jwks.json`, taken from the service itself. Throws TypeError for a `jwks` that is none, and
 * nothing else. Does NOT say whether it is the newest version.
 */
export async function verifyCatalog(
  catalog: unknown,
  jwks: unknown,
  expected: { readonly gateId: string; readonly version?: number },
): Promise<CatalogVerdict> {
  const keys = await keysOf(jwks);
  if (!isObject(catalog) || !Array.isArray(catalog['permissions'])) return invalid('malformed');
  const { content_hash: hash, signature, ...body } = catalog;
  const text = canonical(body);
  if (text === null || typeof hash !== 'string') return invalid('malformed');
  if (body['gate_id'] !== expected.gateId) return invalid('other_gate');
  if (expected.version !== undefined && body['version'] !== expected.version) return invalid('other_version');
  if ((await hashOf(text)) !== hash) return invalid('hash_mismatch');
  const key = keys.get(String(body['signing_key_id']));
  if (key === undefined || key.purpose !== 'catalog') return invalid('unknown_key');
  if (key.isCompromised) return invalid('key_compromised');
  const isSigned = await verifies(key, `agent-trust.catalog.v1:${hash}`, signature);
  return isSigned ? { valid: true, catalog } : invalid('signature_invalid');
}

/**
 * Whether a result of `GET /v1/discover` equals the gate's published and signed catalog. `catalog` is the
 * version of the gate that the result names. The result's `gate_name` and `security_profile` are NOT signed.
 */
export async function verifyDiscoveryResult(
  result: unknown,
  catalog: unknown,
  jwks: unknown,
): Promise<DiscoveryVerdict> {
  if (!isObject(result)) return invalid('result_malformed');
  const { gate_id: gateId, catalog_version: version } = result;
  if (typeof gateId !== 'string' || typeof version !== 'number') return invalid('result_malformed');
  const verdict = await verifyCatalog(catalog, jwks, { gateId, version });
  if (!verdict.valid) return verdict;
  const signed = verdict.catalog;
  const isThisCatalog =
    result['catalog_content_hash'] === signed['content_hash'] &&
    result['catalog_signature'] === signed['signature'] &&
    result['signing_key_id'] === signed['signing_key_id'];
  if (!isThisCatalog) return invalid('other_catalog');
  const entries = signed['permissions'] as readonly unknown[];
  const entry = entries.filter(isObject).find(({ key }) => key === result['permission_key']);
  if (entry === undefined) return invalid('permission_missing');
  const offered: Json = { ...entry, pricing: offeredPrice(entry['pricing']) };
  const isSame = comparedMembers.every((name) => isSameJson(result[name], offered[name]));
  return isSame ? { valid: true, entry } : invalid('offer_mismatch');
}

const comparedMembers = [
  'display_name',
  'description',
  'category',
  'risk_level',
  'pricing',
  'sla',
  'platform_fee',
] as const;

const models: readonly unknown[] = ['per_call', 'per_minute', 'subscription'];

/** Contract §10: a result has three members of a price with a known model, and null for any other. */
function offeredPrice(pricing: unknown): unknown {
  if (!isObject(pricing) || !models.includes(pricing['model'])) return null;
  const { model, price_cents, currency } = pricing;
  return { model, price_cents, currency };
}

function isSameJson(claimed: unknown, signed: unknown): boolean {
  const text = canonical(claimed);
  return text !== null && text === canonical(signed);
}

const invalid = <Fault>(fault: Fault): Invalid<Fault> => ({ valid: false, fault });
