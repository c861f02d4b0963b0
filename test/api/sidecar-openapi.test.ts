import { readFileSync, writeFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import type { Document, Schema } from '../../control-plane/openapi/document.ts';
import { must } from '../../shared/errors/assert.ts';
import type { readinessOf } from '../../sidecar/operations/readiness.ts';
import { answerOf, closedThroughout, inlined, operationsOf } from '../support/data/document.ts';
import { type Readiness, sidecarDocument } from '../support/data/sidecar-document.ts';
import { expectValidOpenApi } from '../support/data/valid-openapi.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { documentOf, type Reply } from '../support/service/api.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const file = new URL('../../sidecar/openapi.json', import.meta.url);
const howToUpdate = 'If the change is meant: UPDATE_DOCS=1 npx vitest run test/api/sidecar-openapi.test.ts';

const api = useApi();
let document: Document;
beforeAll(() => {
  document = sidecarDocument(documentOf(api.app));
});

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
      'POST /v1/gates/{id}/standing',
      'GET /v1/stream',
      'GET /{id}',
    ]);
    expect(document.servers.map(({ url }) => url)).toEqual(['/']);
    const text = JSON.stringify(document);
    expect(text.match(/"servers":/g)).toHaveLength(1);
    expect(text).not.toContain('"webhooks":');
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

describe.each(adapters.map((adapter) => [adapter.name, adapter] as const))(
  'a sidecar on %s',
  (_name, adapter) => {
    const sidecar = useSidecar(() => ({ api, adapter }));

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

    // The rest is the same behind each server.
    if (adapter !== adapters.at(-1)) return;

    it('answers as the document describes', async () => {
      for (const path of ['/livez', '/readyz', '/metrics']) {
        expectDescribed(await sidecar.call({ path, key: null }), `GET ${path}`, 200);
      }
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
