import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { startTestProvider } from '../support/peers/test-provider.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type GoodCalls, goodCalls } from '../support/service/good-calls.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

/** Of every operation of the published document. */
const documentIds = (): readonly string[] => {
  const { paths } = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'));
  return Object.values(paths as Record<string, Record<string, { operationId: string }>>).flatMap((each) =>
    Object.values(each).map(({ operationId }) => operationId),
  );
};

let calls: GoodCalls;
/** Passkeys and logins with a provider need a name for the service. */
const origin = 'http://localhost:8080';
const provider = useStarted(() => startTestProvider({ origin }));
const api = useApi(() => startOwnApi({ origin, provider: provider.settings }));
beforeAll(() => {
  calls = goodCalls(api);
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
    const hook = await api.call({ url: '/v1/webhooks', body: { url: 'https://hooks.example.com/', events } });
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
