import { readFileSync, writeFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import type { Document, Schema } from '../../control-plane/openapi/document.ts';
import { must } from '../../shared/errors/assert.ts';
import type { readinessOf } from '../../sidecar/operations/readiness.ts';
import { type Api, documentOf, type Reply, startApi } from '../support/api.ts';
import { answerOf, closedThroughout, inlined, operationsOf } from '../support/document.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { type Readiness, sidecarDocument } from '../support/sidecar-document.ts';
import { expectValidOpenApi } from '../support/valid-openapi.ts';

const file = new URL('../../sidecar/openapi.json', import.meta.url);
const howToUpdate = 'If the change is meant: UPDATE_DOCS=1 npx vitest run test/api/sidecar-openapi.test.ts';

let api: Api;
let document: Document;
beforeAll(async () => {
  api = await startApi();
  document = sidecarDocument(documentOf(api.app));
});
afterAll(() => api.close());

it('is the document that sidecar/openapi.json holds, derived from the one of the control plane', () => {
  const text = `${JSON.stringify(document, null, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, text);
  else expect(JSON.parse(readFileSync(file, 'utf8')), howToUpdate).toEqual(document);
});

describe('the document of a sidecar', () => {
  it('is valid OpenAPI 3.1', () => expectValidOpenApi(document));

  it('has the operations that a sidecar serves, and itself as the only server', () => {
    expect(operationsOf(document).map(({ key }) => key)).toEqual([
      'GET /.well-known/authzen-configuration',
      'POST /access/v1/evaluation',
      'POST /access/v1/evaluations',
      'GET /livez',
      'GET /metrics',
      'GET /openapi.json',
      'GET /readyz',
      'POST /v1/enforce',
      'POST /v1/attestations/{id}/outcome',
      'POST /v1/gates/{id}/check',
      'POST /v1/gates/{id}/check/batch',
      'GET /v1/stream',
      'GET /{id}',
    ]);
    expect(document.servers.map(({ url }) => url)).toEqual(['/']);
    const text = JSON.stringify(document);
    expect(text.match(/"servers":/g)).toHaveLength(1);
    expect(text).not.toContain('"webhooks":');
  });

  it('has no plan limits', () => {
    const text = JSON.stringify(document);
    expect(text).not.toMatch(/X-RateLimit|"429"|RateLimited|rate_limited"\]/);
    // A control that must find them.
    expect(JSON.stringify(documentOf(api.app))).toMatch(/X-RateLimit.*"429"/);
  });

  it('says why there is no decision, and when to ask again', () => {
    for (const path of ['/v1/enforce', '/v1/gates/{id}/check']) {
      const operation = must(document.paths[path]?.['post'], path);
      const answer = must(answerOf(document, operation, 503), `${path} 503`);
      expect(answer['x-error-codes']).toEqual(['overloaded', 'service_unavailable']);
      expect(Object.keys(answer.headers)).toEqual(['X-Request-Id', 'Retry-After']);
      expect(answer.description).not.toMatch(/database/);
    }
  });

  it('holds each component that is referred to, and no other', () => {
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/(\w+)\/([^"]+)"/g)].map(
      ([, kind, name]) => `${kind}/${name}`,
    );
    const { securitySchemes: _, ...components } = document.components;
    const there = Object.entries(components).flatMap(([kind, all]) =>
      Object.keys(all).map((name) => `${kind}/${name}`),
    );
    expect(there.toSorted()).toEqual([...new Set(references)].toSorted());
    expect(there).not.toContain('schemas/Passport');
  });

  it('has the readiness that a sidecar answers, by type', () => {
    // Held by the compiler.
    expectTypeOf<ReturnType<typeof readinessOf>>().toExtend<Readiness>();
    expectTypeOf<Readiness>().toExtend<ReturnType<typeof readinessOf>>();
  });

  it('describes every field of its own schemas, and has an example that fits', () => {
    const readiness = must(document.components.schemas['Readiness'], 'a sidecar has a readiness');
    for (const [name, field] of fieldsOf(readiness)) expect(field['description'], name).toMatch(/\.$/);
    const validator = Compile(closedThroughout(inlined(document, readiness)));
    const [example] = readiness['examples'] as readonly unknown[];
    expect([...validator.Errors(example)]).toEqual([]);
    expect(validator.Check({ ...(example as object), database: 'reachable' })).toBe(false);
  });
});

const order = { permission_key: 'orders:create', amount: 5 };

describe.each(adapters.map((adapter) => [adapter.name, adapter] as const))(
  'a sidecar on %s',
  (_name, adapter) => {
    let sidecar: TestSidecar;
    beforeAll(async () => {
      sidecar = await startTestSidecar({ api, adapter });
    });
    afterAll(async () => {
      await sidecar.close();
      sidecar.removeFolder();
    });

    /**
     * Besides what every test sidecar holds itself to: the status is the expected one, and its headers are
     * there.
     */
    const expectDescribed = (reply: Reply, key: string, status: number): void => {
      expect(reply.status, `${key} ${JSON.stringify(reply.body)}`).toBe(status);
      const operation = must(
        operationsOf(document).find((each) => each.key === key),
        key,
      ).operation;
      const answer = must(answerOf(document, operation, status), `${key} ${status}`);
      for (const header of Object.keys(answer.headers)) {
        expect(reply.headers, `${key} ${status}`).toHaveProperty([header.toLowerCase()]);
      }
      const media = answer.content?.['application/json'];
      if (media === undefined) return;
      expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
      const validator = Compile(closedThroughout(inlined(document, media.schema)));
      expect([key, ...validator.Errors(reply.body)]).toEqual([key]);
    };

    it('serves it without a key, also for HEAD', async () => {
      const reply = await sidecar.call({ path: '/openapi.json', key: null });
      expectDescribed(reply, 'GET /openapi.json', 200);
      expect(reply.body).toEqual(document);
      const head = await sidecar.call({ path: '/openapi.json', key: null, method: 'HEAD' });
      expect([head.status, head.body]).toEqual([200, '']);
      expect(head.headers['content-length']).toBe(String(Buffer.byteLength(JSON.stringify(document))));
    });

    it('answers as the document describes', async () => {
      for (const path of ['/livez', '/readyz', '/metrics']) {
        expectDescribed(await sidecar.call({ path, key: null }), `GET ${path}`, 200);
      }
    });

    it('decides as the document describes', async () => {
      const gate = await api.createGate({ constraints: { approvals: { above_usd: 10 } } });
      const passport = await api.issuePassport();
      await sidecar.caughtUp();
      const asked = [
        { decision: 'PERMIT', request: order },
        { decision: 'BLOCK', request: { ...order, permission_key: 'orders:delete' } },
        { decision: 'SUSPEND', request: { ...order, amount: 11 } },
      ];
      for (const { decision, request } of asked) {
        const reply = await sidecar.check(gate.gate_id, passport.jwt, request);
        expectDescribed(reply, 'POST /v1/gates/{id}/check', 200);
        expect(reply.body.decision).toBe(decision);
      }
      expectDescribed(await sidecar.check(null, passport.jwt, order), 'POST /v1/enforce', 200);
    });

    it('refuses as the document describes', async () => {
      const gate = await api.createGate();
      const { jwt } = await api.issuePassport();
      const reader = await api.createKey({ scopes: ['gates:read'] });
      await sidecar.caughtUp();
      const keyed = { ...order, idempotency_key: 'once' };
      expectDescribed(await sidecar.check(gate.gate_id, jwt, keyed), 'POST /v1/gates/{id}/check', 200);
      const refused: readonly (readonly [number, () => Promise<Reply>])[] = [
        [400, () => sidecar.check(gate.gate_id, jwt, { amount: 'five' })],
        [401, () => sidecar.check(gate.gate_id, jwt, order, null)],
        [403, () => sidecar.check(gate.gate_id, jwt, order, reader.key)],
        [404, () => sidecar.check('gate_01m7w8f9hmk9xzhvcz13er4z9h', jwt, order)],
        [409, () => sidecar.check(gate.gate_id, jwt, { ...keyed, amount: 6 })],
      ];
      for (const [status, ask] of refused) expectDescribed(await ask(), 'POST /v1/gates/{id}/check', status);
    });

    it('is not ready, and gives no decision, as the document describes', async () => {
      const stateless = await startTestSidecar({ api, adapter, isCutOff: true });
      expectDescribed(await stateless.call({ path: '/readyz', key: null }), 'GET /readyz', 503);
      expectDescribed(await stateless.check(null, 'a', order), 'POST /v1/enforce', 503);
      await stateless.close();
      stateless.removeFolder();
    });
  },
);

function fieldsOf(schema: Schema): [name: string, Schema][] {
  const fields = Object.entries((schema['properties'] ?? {}) as Readonly<Record<string, Schema>>);
  const items = schema['items'] as Schema | undefined;
  return [
    ...fields,
    ...fields.flatMap(([, field]) => fieldsOf(field)),
    ...(items === undefined ? [] : fieldsOf(items)),
  ];
}
