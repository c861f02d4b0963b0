import { readFileSync } from 'node:fs';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  verifyAttestations,
  verifyCatalog,
  verifyDiscoveryResult,
  verifyWebhook,
  type WebhookHeaders,
} from '../../clients/node/src/verify.ts';
import { smallOrderKeys } from '../support/data/ed25519-edge-cases.ts';
import {
  at,
  exportLinesOf,
  jsonLinesOf,
  jwksOf,
  sampleChain,
  sampleKey,
} from '../support/data/sample-chains.ts';
import { fencedBlock } from '../support/data/verify-example.ts';
import { earlierExportLines, earlierJwks } from '../vectors/earlier-export.ts';
import { type ClientService, startClientService } from './support/service.ts';

let service: ClientService;
beforeAll(async () => {
  service = await startClientService();
});
afterAll(() => service.close());

// biome-ignore lint/suspicious/noExplicitAny: signed things are changed member by member here
type Any = any;

/** The same headers as frameworks and gateways have them. */
const shapesOf = (headers: Readonly<Record<string, string>>): Readonly<Record<string, WebhookHeaders>> => {
  const entries = Object.entries(headers);
  const named = (
    change: (name: string) => string,
    shape: (value: string) => string | string[] = (value) => value,
  ) => Object.fromEntries(entries.map(([name, value]) => [change(name), shape(value)]));
  const capital = (name: string) => name.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase());
  return {
    'names in capitals': named((name) => name.toUpperCase()),
    'names as HTTP/1 writes them': named(capital),
    'values in arrays, as headersDistinct has them': named(
      (name) => name,
      (value) => [value],
    ),
    'arrays under other letters': named(capital, (value) => [value]),
    Headers: new Headers(headers),
    'a Map': new Map(Object.entries(named(capital))),
    pairs: entries.map(([name, value]) => [capital(name), value] as const),
    'beside others': { host: 'a', cookie: undefined, 'x-null': null, ...headers },
  };
};

describe('verifyWebhook', () => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const other = `whsec_${Buffer.alloc(24, 8).toString('base64')}`;
  const nowMs = Date.parse('2026-11-20T10:36:42.000Z');
  const body = JSON.stringify({
    event: 'passport.revoked',
    timestamp: '2026-11-20T10:36:42.024Z',
    data: { reason: 'Größe' },
  });
  /** Signed by the library of the standard, which knows nothing of this service. */
  const headersFor = (text: string, secrets = [secret]) => ({
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(nowMs / 1_000),
    'webhook-signature': secrets
      .map((each) => new Webhook(each).sign('evt_1', new Date(nowMs), text))
      .join(' '),
  });

  it('accepts signatures of the Standard Webhooks library, as text, bytes and Headers', async () => {
    const headers = headersFor(body);
    for (const [sent, given] of [
      [body, headers],
      [Buffer.from(body), new Headers(headers)],
    ] as const) {
      const verdict = await verifyWebhook(sent, given, secret, { nowMs });
      expect(verdict).toMatchObject({ valid: true, id: 'evt_1', event: 'passport.revoked' });
    }
  });

  it.each(Object.keys(shapesOf({})))('finds its headers: %s', async (shape) => {
    const given = shapesOf(headersFor(body))[shape] ?? {};
    expect(await verifyWebhook(body, given, secret, { nowMs })).toMatchObject({ valid: true, id: 'evt_1' });
  });

  it('takes a signature of several headers, and of two ids or times none', async () => {
    const { 'webhook-signature': own, ...others } = headersFor(body);
    const foreign = 'v1,AAAA';
    for (const signature of [[foreign, own], [own, foreign], `${foreign}, ${own}`, `${own}, ${foreign}`]) {
      const headers = { ...others, 'webhook-signature': signature };
      expect(await verifyWebhook(body, headers, secret, { nowMs })).toMatchObject({ valid: true });
    }
    const headers = headersFor(body);
    for (const two of [
      { ...headers, 'Webhook-Id': 'evt_2' },
      { ...headers, 'WEBHOOK-TIMESTAMP': headers['webhook-timestamp'] },
      { ...headers, 'webhook-id': ['evt_1', 'evt_2'] },
      [...Object.entries(headers), ['webhook-id', 'evt_2'] as const],
    ]) {
      expect(await verifyWebhook(body, two, secret, { nowMs })).toEqual({
        valid: false,
        fault: 'headers_missing',
      });
    }
  });

  it('takes either signature and either secret while one is rolled', async () => {
    expect(await verifyWebhook(body, headersFor(body, [other, secret]), secret, { nowMs })).toMatchObject({
      valid: true,
    });
    expect(await verifyWebhook(body, headersFor(body), [other, secret], { nowMs })).toMatchObject({
      valid: true,
    });
  });

  it.each<[string, string, string, Record<string, string | string[] | undefined>, string, number]>([
    ['another body', 'signature_invalid', body.replace('revoked', 'issued'), {}, secret, 0],
    ['another id', 'signature_invalid', body, { 'webhook-id': 'evt_2' }, secret, 0],
    ['another secret', 'signature_invalid', body, {}, other, 0],
    [
      'another version of signatures',
      'signature_invalid',
      body,
      { 'webhook-signature': 'v2,AAAA' },
      secret,
      0,
    ],
    ['no id', 'headers_missing', body, { 'webhook-id': undefined }, secret, 0],
    ['a time that is none', 'headers_missing', body, { 'webhook-timestamp': '1e9' }, secret, 0],
    ['one too late', 'too_old', body, {}, secret, 300_001],
    ['one too early', 'too_new', body, {}, secret, -300_001],
  ])('refuses %s: %s', async (_, fault, text, change, key, offsetMs) => {
    const headers = { ...headersFor(body), ...change };
    const verdict = await verifyWebhook(text, headers, key, { nowMs: nowMs + offsetMs });
    expect(verdict).toEqual({ valid: false, fault });
  });

  it('refuses a signed body that is no event, and throws for an invalid secret', async () => {
    for (const text of ['', 'null', '{}', '{"event":"a","timestamp":"b"}']) {
      const verdict = await verifyWebhook(text, headersFor(text), secret, { nowMs });
      expect(verdict).toEqual({ valid: false, fault: 'malformed' });
    }
    await expect(verifyWebhook(body, headersFor(body), 'secret')).rejects.toThrow(TypeError);
    await expect(verifyWebhook(body, headersFor(body), 'whsec_*')).rejects.toThrow(TypeError);
  });
});

describe('verifyCatalog and verifyDiscoveryResult', () => {
  let gateId: string;
  let catalog: Any;
  let jwks: Any;
  let results: Any[];
  beforeAll(async () => {
    const permissions = [
      {
        key: 'tea:buy',
        display_name: 'Größe',
        pricing: { model: 'per_call' as const, price_cents: 25, currency: 'USD', note: 'signed too' },
        sla: { uptime_basis_points: 9_990, response_time_ms: 250 },
      },
      { key: 'tea:read', pricing: { free: 'of form' } },
      { key: 'tea:list' },
    ];
    const { gate_id } = await service.agentTrust.gates.create({
      name: 'Tea',
      trust_level: 'L1',
      catalog: { permissions, terms: { '10': 1, '9': [1e21, -0, 0.1] } },
    });
    gateId = gate_id;
    catalog = await service.agentTrust.catalogs.get(gateId);
    jwks = await service.agentTrust.signingKeys.jwks();
    results = (await service.agentTrust.gates.discover({ capability: 'tea' })).results as Any[];
  });
  const changed = <Value>(value: Value, change: (copy: Any) => void): Value => {
    const copy = structuredClone(value);
    change(copy);
    return copy;
  };
  const faultOf = async (given: unknown, expected = { gateId }, keys = jwks) => {
    const verdict = await verifyCatalog(given, keys, expected);
    return verdict.valid ? 'valid' : verdict.fault;
  };

  it('accept everything that the service publishes, including results of all prices', async () => {
    expect(await verifyCatalog(catalog, jwks, { gateId, version: 1 })).toEqual({ valid: true, catalog });
    expect(results.map(({ permission_key: key }) => key).toSorted()).toEqual([
      'tea:buy',
      'tea:list',
      'tea:read',
    ]);
    for (const result of results) {
      const verdict = await verifyDiscoveryResult(result, catalog, jwks);
      expect(verdict).toMatchObject({ valid: true, entry: { key: result.permission_key } });
    }
  });

  it('refuse a catalog that was changed anywhere', async () => {
    for (const name of Object.keys(catalog)) {
      const without = changed(catalog, (copy) => delete copy[name]);
      expect(await faultOf(without), `without ${name}`).not.toBe('valid');
    }
    expect(await faultOf(changed(catalog, (copy) => (copy.permissions[0].pricing.price_cents = 1)))).toBe(
      'hash_mismatch',
    );
    expect(await faultOf({ ...catalog, more: true })).toBe('hash_mismatch');
    expect(await faultOf({ ...catalog, more: '\ud800' })).toBe('malformed');
    const { signature } = catalog;
    for (const wrong of [
      signature.replace(/^./, signature[0] === 'A' ? 'B' : 'A'),
      `${signature}=`,
      '',
      null,
    ]) {
      expect(await faultOf({ ...catalog, signature: wrong })).toBe('signature_invalid');
    }
    for (const none of [null, [], 'catalog', {}]) expect(await faultOf(none)).toBe('malformed');
  });

  it('refuse another gate, another version, and keys that are not good for it', async () => {
    expect(await faultOf(catalog, { gateId: `gate_${'0'.repeat(26)}` })).toBe('other_gate');
    expect(await verifyCatalog(catalog, jwks, { gateId, version: 2 })).toEqual({
      valid: false,
      fault: 'other_version',
    });
    const withKeys = (change: (key: Any) => void) => changed(jwks, (copy) => copy.keys.forEach(change));
    const expected = { gateId };
    expect(await faultOf(catalog, expected, { keys: [] })).toBe('unknown_key');
    expect(
      await faultOf(
        catalog,
        expected,
        withKeys((key) => (key.purpose = 'attestation')),
      ),
    ).toBe('unknown_key');
    expect(
      await faultOf(
        catalog,
        expected,
        withKeys((key) => (key.compromised = true)),
      ),
    ).toBe('key_compromised');
    const retired = withKeys((key) => (key.retired_at = '2026-01-01T00:00:00.000Z'));
    expect(await faultOf(catalog, expected, retired)).toBe('valid');
    await expect(verifyCatalog(catalog, [], expected)).rejects.toThrow(TypeError);
  });

  it('refuse a key of small order, for which anyone can sign', async () => {
    for (const hex of smallOrderKeys) {
      const x = Buffer.from(hex, 'hex').toString('base64url');
      const digest = await crypto.subtle.digest(
        'SHA-256',
        Buffer.from(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`),
      );
      const key = { ...jwks.keys[0], x, kid: Buffer.from(digest).toString('base64url'), purpose: 'catalog' };
      // The hash does not depend on the key's strength: it is right, so that the signature is looked at.
      const {
        content_hash: _,
        signature: __,
        ...body
      } = { ...catalog, signing_key_id: key.kid, permissions: [] };
      const { canonicalJson } = await import('../../shared/crypto/canonical-json.ts');
      const hash = await crypto.subtle.digest('SHA-256', Buffer.from(canonicalJson(body)));
      const content_hash = `sha256:${Buffer.from(hash).toString('hex')}`;
      const signature = Buffer.concat([Buffer.from(hex, 'hex'), Buffer.alloc(32)]).toString('base64url');
      const forged = { ...body, content_hash, signature };
      expect(await faultOf(forged, { gateId }, { keys: [key] })).toBe('signature_invalid');
    }
  });

  it.each<[string, string, (result: Any) => void]>([
    ['another price', 'offer_mismatch', (result) => (result.pricing = { ...result.pricing, price_cents: 1 })],
    ['a missing member', 'offer_mismatch', (result) => delete result.sla],
    ['another permission', 'permission_missing', (result) => (result.permission_key = 'tea:steal')],
    ['another hash', 'other_catalog', (result) => (result.catalog_content_hash = 'sha256:')],
    ['no version', 'result_malformed', (result) => delete result.catalog_version],
  ])('refuse a result with %s: %s', async (_, fault, change) => {
    const result = results.find(({ permission_key: key }) => key === 'tea:buy');
    expect(await verifyDiscoveryResult(changed(result, change), catalog, jwks)).toEqual({
      valid: false,
      fault,
    });
  });
});

describe('verifyAttestations', () => {
  const page = readFileSync(new URL('../../docs/verify.md', import.meta.url), 'utf8');
  const example = fencedBlock(page, 'jsonl');
  const exampleJwks = JSON.parse(fencedBlock(page, 'json'));

  it('takes the worked example of docs/verify.md, and an export of an earlier build', async () => {
    const verdict = { valid: true, chains: 2, records: 3, compromised: 0, since: null };
    expect(await verifyAttestations(example, exampleJwks)).toMatchObject(verdict);
    const earlier = earlierExportLines.join('').endsWith('\n')
      ? earlierExportLines.join('')
      : `${earlierExportLines.join('\n')}\n`;
    expect(await verifyAttestations(earlier, earlierJwks)).toMatchObject({
      valid: true,
      chains: 2,
      records: 3,
    });
  });

  it('takes a real export in both formats, as text, bytes and a stream', async () => {
    const gate = await service.agentTrust.gates.create({ name: 'Exported', trust_level: 'L1' });
    const { jwt = '' } = await service.agentTrust.passports.issue({
      agent_id: 'exported',
      permissions: ['a:b'],
    });
    for (const permission_key of ['a:b', 'a:c', 'a:b']) {
      await service.agentTrust.decisions.check(gate.gate_id, { passport: jwt, request: { permission_key } });
    }
    const jwks = await service.agentTrust.signingKeys.jwks();
    for (const format of ['jsonl', 'json'] as const) {
      const streamed = await service.agentTrust.attestations.export({ format });
      const verdict = await verifyAttestations(streamed, jwks);
      expect(verdict).toMatchObject({ valid: true, compromised: 0 });
      if (verdict.valid) expect(verdict.records).toBeGreaterThanOrEqual(3);
      const answer = await fetch(`${service.url}/v1/attestations/export?format=${format}`, {
        headers: { authorization: `Bearer ${service.api.adminKey}` },
      });
      if (answer.body === null) throw new Error('no body');
      const counts = verdict.valid ? { chains: verdict.chains, records: verdict.records } : {};
      expect(await verifyAttestations(answer.body, jwks)).toMatchObject({ valid: true, ...counts });
    }
  });

  describe('of chains that were made for it', () => {
    const key = sampleKey(7);
    const chain = sampleChain(key, 3);
    const options = { keyIds: [key.kid], createdAtMs: at(60_000) };
    const lines = exportLinesOf([chain], options);
    const jsonLines = jsonLinesOf([chain], options);
    const verify = (changed: readonly string[], keys: Any = jwksOf(key)) =>
      verifyAttestations(changed.join(''), keys);

    it('names the line, the chain and the sequence at fault', async () => {
      expect(await verify(lines)).toMatchObject({ valid: true, records: 3 });
      const forged = lines.map((line, i) => (i === 3 ? line.replace('"sequence":2', '"sequence":3') : line));
      expect(await verify(forged)).toMatchObject({
        valid: false,
        line: 4,
        sequence: 3,
        chain_id: chain[0]?.chainId,
      });
    });

    it.each<[string, readonly string[]]>([
      ['a record is missing', lines.filter((_, i) => i !== 3)],
      ['the last record is missing', lines.filter((_, i) => i !== 4)],
      ['there is nothing', []],
      ['an empty line', [...lines.slice(0, 2), '\n', ...lines.slice(2)]],
      ['carriage returns', lines.map((line) => line.replace('\n', '\r\n'))],
      ['a byte order mark', ['\ufeff', ...lines]],
      ['json: a closing line is missing', jsonLines.filter((line) => !line.startsWith(']}'))],
      ['json: written anew', [`${JSON.stringify(JSON.parse(jsonLines.join('')))}\n`]],
    ])('refuses: %s', async (_, changed) => {
      expect(await verify(jsonLines)).toMatchObject({ valid: true, records: 3 });
      expect(await verify(changed)).toMatchObject({ valid: false });
    });
  });
});
