import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { type Api, documentOf, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { type GoodCalls, goodCalls } from '../support/good-calls.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startTestProvider, type TestProvider } from '../support/test-provider.ts';

/** Of every operation of the published document. */
const documentIds = (): readonly string[] => {
  const { paths } = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'));
  return Object.values(paths as Record<string, Record<string, { operationId: string }>>).flatMap((each) =>
    Object.values(each).map(({ operationId }) => operationId),
  );
};

let api: Api;
let testSidecar: TestSidecar;
let calls: GoodCalls;
let provider: TestProvider;
/** Passkeys and logins with a provider need a name for the service. */
const origin = 'http://localhost:8080';
beforeAll(async () => {
  provider = await startTestProvider({ origin });
  api = await startApi({ origin, provider: provider.settings });
  calls = goodCalls(api);
  testSidecar = await startTestSidecar({ api });
});
afterAll(async () => {
  await testSidecar.close();
  testSidecar.removeFolder();
  await api.close();
  await provider.close();
});

describe('a query parameter that an operation does not know', () => {
  const ofPrograms = ['getJwks', 'getRevokedSidecarKeys', 'getLiveness', 'getMetrics', 'getReadiness'];

  it.each(documentIds().filter((id) => !ofPrograms.includes(id)))('is refused by %s', async (id) => {
    const call = await calls[id]?.();
    if (call === undefined) throw new Error(`no good call of ${id}`);
    const url = `${call.url}${call.url.includes('?') ? '&' : '?'}zzz=1`;
    expectError(await api.call({ ...call, url }), 'invalid_request', 'zzz');
  });

  it('is passed over where probes, scrapers and caches ask', async () => {
    for (const url of [
      '/livez?verbose',
      '/readyz?probe=1',
      '/metrics?name[]=up',
      '/.well-known/jwks.json?t=1',
      '/.well-known/sidecar-keys.json?t=1',
    ]) {
      expect((await api.call({ url, key: null })).status, url).toBe(200);
    }
  });
});

describe('lists in their given order', () => {
  it('keep their order at a gate', async () => {
    const first = (await api.createIssuer()).issuer_id;
    const second = (await api.createIssuer()).issuer_id;
    const constraints = {
      allowed_domains: ['z.example.com', '*.a.example.com', 'm.example.com'],
      pii_controls: { mode: 'block', types: ['us_ssn', 'email', 'iban', 'phone'] },
      approvals: { permissions: ['z:pay', 'a:*', 'm:read'] },
      trusted_issuers: [second, 'own', first],
    };
    const gate = await api.createGate({ constraints });
    expect(gate.constraints).toEqual(constraints);
    const read = await api.call({ url: `/v1/gates/${gate.gate_id}` });
    expect(read.body.constraints).toEqual(constraints);
    // All types, one by one, are what was chosen too; and not the default, which is left out.
    const types = ['ip_address', 'email', 'phone', 'payment_card', 'iban', 'us_ssn'];
    const changed = await api.call({
      method: 'PUT',
      url: `/v1/gates/${gate.gate_id}`,
      body: { constraints: { pii_controls: { types }, trusted_issuers: ['own', first] } },
    });
    expect(changed.body.constraints.pii_controls).toEqual({ mode: 'block', types });
    expect(changed.body.constraints.trusted_issuers).toEqual(['own', first]);
    const byDefault = await api.createGate({ constraints: { pii_controls: { mode: 'block' } } });
    expect(byDefault.constraints.pii_controls).toEqual({ mode: 'block' });
  });

  it('keep their order everywhere else', async () => {
    const permissions = ['z:pay', 'a:read', 'm:*'];
    const passport = await api.issuePassport({ permissions });
    expect(passport.permissions).toEqual(permissions);
    const scopes = ['webhooks:manage', 'gates:read', 'approvals:read'];
    const key = await api.call({ url: '/v1/api-keys', body: { name: 'ordered', scopes } });
    expect(key.body.scopes).toEqual(scopes);
    const events = ['passport.revoked', 'gate.created', 'approval.requested'];
    const hook = await api.call({
      url: '/v1/webhooks',
      body: { url: 'https://hooks.example.com/', events },
    });
    expect(hook.body.events).toEqual(events);
    const read = await api.call({ url: `/v1/webhooks/${hook.body.webhook_id}` });
    expect(read.body.events).toEqual(events);
    const routes = [
      { methods: ['POST', 'GET'], path: '/z', permission_key: 'z:pay' },
      { methods: ['GET'], path: '/a', permission_key: 'a:read' },
    ];
    const gate = await api.createGate({ routes });
    expect(gate.routes).toEqual(routes);
  });
});

it('a gate test that suspends is attested, and the record can be read', async () => {
  const gate = await api.createGate({ constraints: { approvals: { above_usd: 1 } } });
  const passport = await api.issuePassport({ permissions: ['orders:create'] });
  const { body } = await api.call({
    url: `/v1/gates/${gate.gate_id}/test`,
    body: { passport_token: passport.jwt, requested_action: 'orders:create', context: { amount: 5 } },
  });
  expect(body).toMatchObject({ decision: 'suspend', attestation_id: expect.stringMatching(/^att_/) });
  const record = await api.call({ url: `/v1/attestations/${body.attestation_id}` });
  expect(record.body).toMatchObject({ decision: 'SUSPEND', test: true, gate_id: gate.gate_id });
});

it('both documents name the version of the API, and that of the program', async () => {
  const own = documentOf(api.app) as unknown as { info: object };
  const answer = await fetch(`${testSidecar.origin}/openapi.json`);
  const sidecars = (await answer.json()) as { info: object; paths: object };
  for (const { info } of [own, sidecars])
    expect(info).toMatchObject({ version: '1.0', 'x-service-version': packageVersion });
  expect(Object.keys(sidecars.paths)).toContain('/{id}');
});
