import { readFileSync, writeFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { tags } from '../../control-plane/http/tags.ts';
import { answerExamples } from '../../control-plane/openapi/complete-document.ts';
import type { Document, Schema } from '../../control-plane/openapi/document.ts';
import { glossary } from '../../control-plane/openapi/glossary.ts';
import { must } from '../../shared/errors/assert.ts';
import { scopes as everyScope } from '../../shared/model/scopes.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { answerOf, closedThroughout, inlined, operationsOf, undocumented } from '../support/data/document.ts';
import { expectValidOpenApi } from '../support/data/valid-openapi.ts';
import { documentOf } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const snapshot = new URL('../../docs/openapi.json', import.meta.url);
const howToUpdate = 'If the change is meant: UPDATE_DOCS=1 npx vitest run test/api/openapi.test.ts';

const api = useApi();
let document: Document;
beforeAll(async () => {
  document = documentOf(api.app);
});

it('is the document that docs/openapi.json shows', () => {
  const text = `${JSON.stringify(document, null, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(snapshot, text);
  else expect(JSON.parse(readFileSync(snapshot, 'utf8')), howToUpdate).toEqual(document);
});

it('is valid OpenAPI 3.1', () => expectValidOpenApi(document));

describe('the served document', () => {
  it('is public at /openapi.json', async () => {
    const reply = await api.call({ url: '/openapi.json', key: null });
    expect(reply.status).toBe(200);
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(reply.body).toEqual(document);
  });

  it('is a page at /docs that loads nothing from elsewhere and runs no inline script', async () => {
    for (const url of ['/docs', '/docs/']) {
      const { status, body, headers } = await api.call({ url, key: null });
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('text/html; charset=utf-8');
      expect(headers['content-security-policy']).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self'; /,
      );
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(body).not.toMatch(/<script>|<style|style=|https?:/);
      const files = [...body.matchAll(/(?:src|href)="(?:\.|\/docs)(\/static\/[^"]+)"/g)].map(
        (match) => match[1],
      );
      expect(files.length).toBeGreaterThan(4);
      for (const file of files) expect((await api.call({ url: `/docs${file}`, key: null })).status).toBe(200);
    }
    expect((await api.call({ url: '/docs/json', key: null })).body).toEqual(document);
  });

  it('calls from the pages an address that answers browsers: sidecars do not', () => {
    const controlPlane = new URL(api.deps.baseUrl).origin;
    for (const { key, operation } of operationsOf(document)) {
      const [first] = operation.servers ?? document.servers;
      expect(first?.url, key).toBe(controlPlane);
    }
  });

  it('is the usual error where there is no page', async () => {
    for (const url of ['/docs/nothing', '/docs/static/nothing', '/docs/static/../../package.json']) {
      expectError(await api.call({ url, key: null }), 'route_not_found');
    }
  });
});

/** Parameters of queries that have no default. */
const requiredInQuery: ReadonlySet<string> = new Set([
  'GET /v1/discover capability',
  'GET /v1/wallets/{id}/statement since',
  'GET /v1/wallets/{id}/statement until',
]);

describe('operations', () => {
  it('are all routes except those between our own programs, of JSON-RPC and of OAuth', () => {
    const routes = api.app.routeScopes
      .filter(({ method, url }) => method !== 'HEAD' && !undocumented.test(url))
      .map(({ method, url }) => `${method} ${url}`);
    const documented = operationsOf(document).map(({ key }) => key.replaceAll(/\{(\w+)\}/g, ':$1'));
    expect(documented.toSorted()).toEqual(routes.toSorted());
  });

  it('have a name of their own, a summary, one known tag, and the scope that the route demands', () => {
    const all = operationsOf(document).map(({ operation }) => operation);
    expect(new Set(all.map(({ operationId }) => operationId)).size).toBe(all.length);
    const names = new Set<string>(tags.map(({ name }) => name));
    for (const { key, operation } of operationsOf(document)) {
      expect(operation.summary, key).toMatch(/^[A-Z].*[^.]$/);
      expect(operation.tags.length === 1 && names.has(operation.tags[0] ?? ''), key).toBe(true);
      const route = api.app.routeScopes.find(
        ({ method, url }) => `${method} ${url}` === key.replaceAll(/\{(\w+)\}/g, ':$1'),
      );
      const own = route?.scope == null ? [] : [route.scope];
      const oneOf = route?.oneOfScopes ?? [];
      const needed = (oneOf.length > 0 ? oneOf : own).map((scope) => [scope]);
      // Any key opens what takes each scope.
      const scopes = oneOf.length === everyScope.length ? [[]] : needed;
      const keyed = scopes.length === 0 ? [] : [...scopes.map((apiKey) => ({ apiKey })), { session: [] }];
      expect(operation.security, key).toEqual(route?.credential === 'session' ? [{ session: [] }] : keyed);
    }
    expect(new Set(all.flatMap((each) => each.tags))).toEqual(names);
  });

  it('declare every parameter of their path, and describe every parameter', () => {
    for (const { key, path, operation } of operationsOf(document)) {
      const parameters = operation.parameters ?? [];
      const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
      expect(inPath, key).toEqual([...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]));
      for (const parameter of parameters) {
        expect(parameter.description, `${key} ${parameter.name}`).toMatch(/\.$/);
        expect(parameter.required, `${key} ${parameter.name}`).toBe(
          parameter.in === 'path' || requiredInQuery.has(`${key} ${parameter.name}`),
        );
      }
    }
  });
});

it('webhooks are all events, each with its signature headers and a sample that fits its body', () => {
  const webhooks = document.webhooks ?? {};
  expect(Object.keys(webhooks)).toEqual(webhookEvents);
  for (const [event, { post }] of Object.entries(webhooks)) {
    expect(post.parameters.map(({ name }) => name)).toEqual([
      ...['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    ]);
    const media = must(post.requestBody.content['application/json'], 'a delivery is JSON');
    const validator = Compile(closedThroughout(inlined(document, media.schema)));
    expect(validator.Check({ event }), event).toBe(false);
    for (const { value } of Object.values(media.examples ?? {})) {
      expect([event, ...validator.Errors(value)]).toEqual([event]);
    }
  }
});

describe('schemas', () => {
  it('are each referred to, and none without a name is an object of three fields or more', () => {
    const text = JSON.stringify(document);
    for (const name of Object.keys(document.components.schemas)) {
      expect(text, name).toContain(`#/components/schemas/${name}"`);
    }
    for (const [where, schema] of bodiesOf(document)) {
      expect(Object.keys((schema['properties'] as object | undefined) ?? {}).length, where).toBeLessThan(3);
    }
  });

  it('all compile', () => {
    for (const [where, schema] of bodiesOf(document)) {
      expect(() => Compile(inlined(document, schema)), where).not.toThrow();
    }
  });

  it('describe every field by the glossary, which has no word too many', () => {
    const used = new Set<string>();
    const text = JSON.stringify(document);
    for (const [owner, schema] of Object.entries(document.components.schemas)) {
      for (const [name, field] of fieldsOf(schema)) {
        expect(field['description'], `${owner}.${name}`).toMatch(/\.$/);
        used.add(String(field['description']));
      }
    }
    const unused = Object.entries(glossary).filter(
      ([, meaning]) => !used.has(meaning) && !text.includes(JSON.stringify(meaning)),
    );
    expect(unused).toEqual([]);
  });
});

describe('examples', () => {
  it('fit the schemas that they belong to, with no field too many', () => {
    for (const [name, examples] of Object.entries(answerExamples)) {
      const validator = Compile(
        closedThroughout(inlined(document, { $ref: `#/components/schemas/${name}` })),
      );
      for (const example of examples) expect([name, ...validator.Errors(example)]).toEqual([name]);
    }
    for (const { key, operation } of operationsOf(document)) {
      const media = operation.requestBody?.content['application/json'];
      if (media === undefined) continue;
      const validator = Compile(inlined(document, media.schema));
      for (const { value } of Object.values(media.examples ?? {}))
        expect([key, ...validator.Errors(value)]).toEqual([key]);
    }
  });

  it('are there for every body, and for every answer that is not made of others', () => {
    const bare = operationsOf(document).filter(({ operation: { requestBody } }) => {
      return requestBody !== undefined && requestBody.content['application/json']?.examples === undefined;
    });
    // They take no field.
    expect(bare.map(({ operation }) => operation.operationId)).toEqual([
      ...['suspendOwner', 'suspendPassport', 'freezeWallet', 'unfreezeWallet'],
    ]);
    const answers = operationsOf(document).flatMap(({ operation }) =>
      Object.keys(operation.responses).map(
        (status) => answerOf(document, operation, status)?.content?.['application/json']?.schema['$ref'],
      ),
    );
    const names = answers
      .filter((ref) => ref !== undefined)
      .map((ref) => String(ref).slice('#/components/schemas/'.length));
    const bareAnswers = new Set(
      names.filter((name) => answerExamples[name] === undefined && !name.endsWith('Page')),
    );
    expect(bareAnswers, 'UPDATE_DOCS=1 npx vitest run test/api/statuses.test.ts').toEqual(
      new Set(['Error', 'Export']),
    );
  });
});

/** Every schema of a request, of a parameter and of an answer, with where it stands. */
function bodiesOf(of: Document): [where: string, Schema][] {
  return operationsOf(of).flatMap(({ key, operation }) => {
    const requested = Object.entries(operation.requestBody?.content ?? {});
    const answered = Object.keys(operation.responses).flatMap((status) =>
      Object.entries(answerOf(of, operation, status)?.content ?? {}),
    );
    const parameters = (operation.parameters ?? []).map(({ name, schema }): [string, Schema] => [
      `${key} ${name}`,
      schema,
    ]);
    return [...requested, ...answered]
      .map(([type, { schema }]): [string, Schema] => [`${key} ${type}`, schema])
      .concat(parameters);
  });
}

/** Every field of an object and of what it is made of; what is referred to is left to itself. */
function fieldsOf(schema: Schema): [name: string, Schema][] {
  return Object.entries(schema).flatMap(([keyword, value]): [string, Schema][] => {
    if (keyword === 'properties') {
      const fields = Object.entries(value as Readonly<Record<string, Schema>>);
      return [...fields, ...fields.flatMap(([, field]) => fieldsOf(field))];
    }
    if (['items', 'anyOf', 'oneOf'].includes(keyword)) return [value as Schema].flat().flatMap(fieldsOf);
    return [];
  });
}
