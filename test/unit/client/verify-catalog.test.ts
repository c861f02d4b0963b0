import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { serviceKeys } from '../../../shared/client/service-keys.ts';
import { verifyCatalog } from '../../../shared/client/verify-catalog.ts';
import { verifyDiscoveryResult } from '../../../shared/client/verify-discovery-result.ts';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import { renderJwks, thumbprint } from '../../../shared/crypto/keyset.ts';
import { must } from '../../../shared/errors/assert.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { KeyPurpose, VerificationKey } from '../../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { parseCatalogPublication, renderCatalog } from '../../../shared/wire/catalog.ts';
import { signCatalog } from '../../../shared/wire/catalog-signature.ts';
import { renderOffer } from '../../../shared/wire/discovery.ts';

const nowMs = Date.UTC(2026, 10, 2, 9, 0, 0) as UnixMillis;
const ed25519 = chooseEd25519();

const keyOf = (seed: number, purpose: KeyPurpose, more: Partial<VerificationKey> = {}) => {
  const signer = ed25519.signer(new Uint8Array(32).fill(seed));
  const key: VerificationKey = {
    kid: thumbprint(signer.publicKey),
    purpose,
    publicKey: encodeBase64url(signer.publicKey),
    notBeforeMs: nowMs,
    retiredAtMs: null,
    compromised: false,
    ...more,
  };
  const sign = (message: string) => encodeBase64url(signer.sign(Buffer.from(message)));
  return { key, signing: { kid: key.kid, sign } };
};

const current = keyOf(1, 'catalog');
const retired = keyOf(2, 'catalog', { retiredAtMs: (nowMs + 1_000) as UnixMillis });
const compromised = keyOf(3, 'catalog', { compromised: true });
const ofPassports = keyOf(4, 'passport');
const ofAttestations = keyOf(5, 'attestation');
const unpublished = keyOf(6, 'catalog');
const jwks = JSON.parse(
  JSON.stringify(
    renderJwks([current, retired, compromised, ofPassports, ofAttestations].map(({ key }) => key)),
  ),
);
const keys = must(serviceKeys(jwks), 'this is a JWKS');

const gateIds = [1, 2].map((byte) => makeId('gate', nowMs, new Uint8Array(10).fill(byte)));
const gateId = must(gateIds[0], 'there are two gates');
const otherGateId = must(gateIds[1], 'there are two gates');

const pricing = { model: 'per_call' as const, price_cents: 25, free_calls: 100 };
const more = { terms: 'https://shop.example/terms' };
const { permissions } = parseCatalogPublication({
  permissions: [
    {
      key: 'orders:create',
      display_name: 'Create an order',
      pricing,
      category: 'commerce',
      sla: { uptime_basis_points: 9_990, response_time_ms: 250 },
      platform_fee: { basis_points: 150 },
    },
    { key: 'orders:read' },
  ],
});

const made = (by = current, of: { gateId?: typeof gateId; version?: number } = {}) =>
  signCatalog({ gateId, version: 3, permissions, more, publishedAtMs: nowMs, ...of }, by.signing);

/** As it travels: members of any kind, to be changed at will. */
// biome-ignore lint/suspicious/noExplicitAny: a tampered answer has any shape
const travelled = (value: object): any => JSON.parse(JSON.stringify(value));
const published = (...how: Parameters<typeof made>) => travelled(renderCatalog(made(...how)));
const offered = (index = 0) =>
  travelled(
    renderOffer({
      gateId,
      gateName: 'Orders',
      trustLevel: 'L2',
      entry: must(permissions[index], 'there is such an entry'),
      catalog: made(),
    }),
  );

/** What somebody without the key can make fit again after a change. */
const rehashed = (catalog: ReturnType<typeof published>) => {
  const { content_hash: _hash, signature, ...content } = catalog;
  return { ...content, content_hash: contentHash(content), signature };
};

describe('verifyCatalog', () => {
  const faultOf = (catalog: unknown, expected: Parameters<typeof verifyCatalog>[2] = { gateId }) => {
    const verdict = verifyCatalog(catalog, keys, expected);
    return verdict.kind === 'valid' ? null : verdict.fault;
  };

  it('takes what the service signed, and hands out what it says', () => {
    const verdict = verifyCatalog(published(), keys, { gateId, version: 3 });
    expect(verdict).toEqual({ kind: 'valid', catalog: made(), key: current.key });
  });

  it('does not mind the order of members', () => {
    const entries = Object.entries(published()).reverse();
    expect(faultOf(Object.fromEntries(entries))).toBe(null);
  });

  it('takes what a retired key signed, and not what a compromised one did', () => {
    expect(faultOf(published(retired))).toBe(null);
    expect(faultOf(published(compromised))).toBe('key_compromised');
  });

  it.each<[string, (catalog: ReturnType<typeof published>) => void]>([
    ['a price', (c) => (c.permissions[0].pricing.price_cents = 24)],
    ['what else is said of a price', (c) => (c.permissions[0].pricing.free_calls = 101)],
    ['something added to a price', (c) => (c.permissions[0].pricing.discount = 1)],
    ['a currency', (c) => (c.permissions[0].pricing.currency = 'EUR')],
    ['a price taken away', (c) => (c.permissions[0].pricing = null)],
    ['a permission', (c) => (c.permissions[1].key = 'orders:delete')],
    ['a permission taken away', (c) => c.permissions.pop()],
    ['the order of permissions', (c) => c.permissions.reverse()],
    ['a promise', (c) => (c.permissions[0].sla.response_time_ms = 1)],
    ['a text', (c) => (c.permissions[0].display_name = 'Create an Order')],
    ['what else is said', (c) => (c.terms = 'https://shop.example/other')],
    ['something added to what is said', (c) => (c.discount = 1)],
    ['something that was said taken away', (c) => delete c.terms],
    ['the version', (c) => (c.version = 4)],
    ['the time', (c) => (c.published_at = '2026-11-02T09:00:00.001Z')],
  ])('finds that %s was changed', (_what, change) => {
    const catalog = published();
    change(catalog);
    expect(faultOf(catalog)).toBe('hash_mismatch');
    expect(faultOf(rehashed(catalog))).toBe('signature_invalid');
  });

  it('finds a signature that belongs to another version, gate or message', () => {
    const other = published(current, { version: 2 });
    const elsewhere = published(current, { gateId: otherGateId });
    for (const { signature } of [other, elsewhere]) {
      expect(faultOf({ ...published(), signature })).toBe('signature_invalid');
    }
    const unprefixed = current.signing.sign(made().contentHash);
    expect(faultOf({ ...published(), signature: unprefixed })).toBe('signature_invalid');
  });

  it('finds a catalog of another gate or version, however well signed', () => {
    expect(faultOf(published(current, { gateId: otherGateId }))).toBe('other_gate');
    expect(faultOf(published(), { gateId, version: 2 })).toBe('other_version');
    // Under a name that it does not have.
    expect(faultOf({ ...published(current, { gateId: otherGateId }), gate_id: gateId })).toBe(
      'hash_mismatch',
    );
  });

  it('trusts keys of its own purpose only', () => {
    for (const other of [ofPassports, ofAttestations, unpublished]) {
      expect(faultOf(published(other))).toBe('unknown_key');
    }
  });

  it('finds a key id that was exchanged', () => {
    const catalog = { ...published(), signing_key_id: retired.key.kid };
    expect(faultOf(catalog)).toBe('hash_mismatch');
    expect(faultOf(rehashed(catalog))).toBe('signature_invalid');
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'catalog'],
    ['a list', []],
    ['an empty object', {}],
    ['a missing member', { ...published(), signature: undefined }],
    ['a fraction of a cent', withPrice(0.5)],
    ['a negative price', withPrice(-1)],
    ['another spelling of the time', { ...published(), published_at: '2026-11-02T09:00:00Z' }],
    [
      'a lone surrogate',
      { ...published(), permissions: [{ ...published().permissions[1], description: '\ud800' }] },
    ],
    [
      'a permission that stands there twice',
      { ...published(), permissions: Array(2).fill(published().permissions[1]) },
    ],
    ['nesting without end', { ...published(), permissions: [deep()] }],
  ])('does not throw for %s', (_what, catalog) => {
    expect(faultOf(catalog)).toBe('malformed');
  });

  it('does not throw for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...Object.keys(published())), (value, member) => {
        expect(faultOf(value)).toBe('malformed');
        const catalog = { ...published(), [member]: value };
        fc.pre(JSON.stringify(value) !== JSON.stringify(published()[member]));
        expect(faultOf(catalog)).not.toBe(null);
      }),
    );
  });
});

function withPrice(cents: number): object {
  const catalog = published();
  catalog.permissions[0].pricing.price_cents = cents;
  return catalog;
}

function deep(): object {
  let nested: object = {};
  for (let depth = 0; depth < 500_000; depth++) nested = { nested };
  const [entry] = published().permissions;
  return { ...entry, pricing: { ...entry.pricing, nested } };
}

describe('verifyDiscoveryResult', () => {
  const faultOf = (result: unknown, catalog: unknown = published()) => {
    const verdict = verifyDiscoveryResult(result, catalog, keys);
    return verdict.kind === 'valid' ? null : verdict.fault;
  };

  it('takes what the catalog says, and hands out the entry', () => {
    expect(verifyDiscoveryResult(offered(), published(), keys)).toEqual({
      kind: 'valid',
      entry: permissions[0],
    });
    expect(faultOf(offered(1))).toBe(null);
  });

  it('does not mind what is not signed: the name and the level of the gate', () => {
    expect(faultOf({ ...offered(), gate_name: 'Other', security_profile: 'L3' })).toBe(null);
  });

  it.each<[string, object]>([
    ['the price', { pricing: { model: 'per_call', price_cents: 24, currency: 'USD' } }],
    ['the model', { pricing: { model: 'subscription', price_cents: 25, currency: 'USD' } }],
    ['no price', { pricing: null }],
    ['the promise', { sla: { uptime_basis_points: 10_000, response_time_ms: 250 } }],
    ['the fee', { platform_fee: null }],
    ['the category', { category: 'other' }],
    ['the text', { description: 'Cheap!' }],
  ])('finds that %s is not what was signed', (_what, change) => {
    expect(faultOf({ ...offered(), ...change })).toBe('offer_mismatch');
  });

  it('finds a permission that the catalog offers at another price', () => {
    expect(faultOf({ ...offered(1), permission_key: 'orders:create' })).toBe('offer_mismatch');
  });

  it('finds a permission that is not offered', () => {
    expect(faultOf({ ...offered(), permission_key: 'orders:delete' })).toBe('permission_missing');
  });

  it('finds the hash and signature of another gate', () => {
    const elsewhere = made(current, { gateId: otherGateId });
    const replayed = {
      ...offered(),
      catalog_content_hash: elsewhere.contentHash,
      catalog_signature: elsewhere.signature,
    };
    expect(faultOf(replayed)).toBe('other_catalog');
    expect(faultOf(replayed, travelled(renderCatalog(elsewhere)))).toBe('other_gate');
  });

  it.each(['catalog_content_hash', 'catalog_signature', 'signing_key_id'])('compares %s', (member) => {
    expect(faultOf({ ...offered(), [member]: 'a'.repeat(43) })).toBe('other_catalog');
  });

  it('finds another version', () => {
    expect(faultOf({ ...offered(), catalog_version: 2 })).toBe('other_version');
    expect(faultOf(offered(), published(current, { version: 2 }))).toBe('other_version');
  });

  it('finds a catalog that does not verify', () => {
    expect(faultOf(offered(), withPrice(24))).toBe('hash_mismatch');
    expect(faultOf(offered(), null)).toBe('malformed');
  });

  it('does not throw for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(faultOf(value)).toBe('result_malformed');
        expect(faultOf(offered(), value)).toBe('malformed');
      }),
    );
  });
});

describe('serviceKeys', () => {
  it.each([null, {}, [], { keys: {} }, { keys: [{ ...jwks.keys[0], x: 'AA' }] }, 'keys'])(
    'is null for %j',
    (value) => {
      expect(serviceKeys(value)).toBe(null);
    },
  );

  it('ignores keys of unknown types', () => {
    expect(serviceKeys({ keys: [{ kty: 'RSA', n: 'x', e: 'y' }] })).not.toBe(null);
  });
});
