import { readFileSync, writeFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyCatalog } from '../../clients/node/src/verify.ts';
import { answerExamples } from '../../control-plane/openapi/answer-examples.ts';
import type { Document, Schema } from '../../control-plane/openapi/document.ts';
import { glossary } from '../../control-plane/openapi/glossary.ts';
import { operations } from '../../control-plane/openapi/operations.ts';
import { requestExamples } from '../../control-plane/openapi/request-examples.ts';
import { tags } from '../../control-plane/openapi/tags.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import { catalogue } from '../../shared/errors/catalogue.ts';
import { scopes as everyScope } from '../../shared/model/scopes.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { type Api, documentOf, startApi } from '../support/api.ts';
import { answerOf, closedThroughout, inlined, operationsOf, undocumented } from '../support/document.ts';
import { expectError } from '../support/expect-error.ts';
import { expectValidOpenApi } from '../support/valid-openapi.ts';
import { recordFaultOf } from '../support/verify-export.ts';

const snapshot = new URL('../../docs/openapi.json', import.meta.url);
const howToUpdate = 'If the change is meant: UPDATE_DOCS=1 npx vitest run test/api/openapi.test.ts';

let api: Api;
let document: Document;
beforeAll(async () => {
  api = await startApi();
  document = documentOf(api.app);
});
afterAll(() => api.close());

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
    expect(routes.toSorted()).toEqual(Object.keys(operations).toSorted());
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

  it('have the tags of the contract', () => {
    const names = document.tags.map((tag) => ('name' in tag ? tag.name : null));
    expect(names.slice(0, 6)).toEqual([
      'Discovery',
      'Passports',
      'Gates',
      'Catalogs',
      'Enforcement',
      'Audit',
    ]);
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

describe('webhooks', () => {
  it('are all events, each with its signature headers and a sample that fits its body', () => {
    const webhooks = document.webhooks ?? {};
    expect(Object.keys(webhooks)).toEqual(webhookEvents);
    for (const [event, { post }] of Object.entries(webhooks)) {
      expect(post.parameters.map(({ name }) => name)).toEqual([
        'webhook-id',
        'webhook-timestamp',
        'webhook-signature',
      ]);
      const media = must(post.requestBody.content['application/json'], 'a delivery is JSON');
      const validator = Compile(closedThroughout(inlined(document, media.schema)));
      expect(validator.Check({ event }), event).toBe(false);
      for (const { value } of Object.values(media.examples ?? {})) {
        expect([event, ...validator.Errors(value)]).toEqual([event]);
      }
    }
  });
});

describe('schemas', () => {
  it('are referred to only where they are', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
      (match) => match[1] ?? '',
    );
    expect(references.length).toBeGreaterThan(100);
    for (const reference of new Set(references)) {
      const target = reference
        .split('/')
        .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], document);
      expect(target, reference).toBeDefined();
    }
  });

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

  it('have a decision for a choice that `decision` makes, each with the members that it answers and none more', () => {
    const named = (name: string) => must(document.components.schemas[name], `${name} is in the document`);
    expect(named('Decision')).toMatchObject({
      oneOf: [
        { $ref: '#/components/schemas/Permit' },
        { $ref: '#/components/schemas/Suspend' },
        { $ref: '#/components/schemas/Block' },
      ],
      discriminator: {
        propertyName: 'decision',
        mapping: {
          PERMIT: '#/components/schemas/Permit',
          SUSPEND: '#/components/schemas/Suspend',
          BLOCK: '#/components/schemas/Block',
        },
      },
    });
    const always = ['attestation_id', 'constraints_evaluated', 'decision', 'reason'];
    expect(['Permit', 'Suspend', 'Block'].map((name) => membersOf(named(name)))).toEqual([
      { required: always, optional: ['hold', 'pii', 'receipt', 'redactions', 'request_redacted'] },
      { required: ['approval_id', ...always, 'expires_at'].toSorted(), optional: ['pii'] },
      {
        required: [...always, 'detail', 'retry'].toSorted(),
        optional: ['limit', 'pii', 'receipt', 'requested', 'reset_at', 'used', 'wallet_id'],
      },
    ]);
  });

  it('have the catalogue of errors for the codes', () => {
    const error = inlined(document, { $ref: '#/components/schemas/Error' });
    const code = new Map(fieldsOf(error)).get('code');
    expect(code?.['enum']).toEqual(Object.keys(catalogue));
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
    const withBody = operationsOf(document).filter(({ operation }) => operation.requestBody !== undefined);
    const bare = withBody.filter(({ operation }) => requestExamples[operation.operationId] === undefined);
    // They take no field.
    expect(bare.map(({ operation }) => operation.operationId)).toEqual([
      'reactivateOwner',
      'suspendOwner',
      'reactivatePassport',
      'suspendPassport',
      'freezeWallet',
      'unfreezeWallet',
    ]);
    const answers = operationsOf(document).flatMap(({ operation }) =>
      Object.keys(operation.responses).map(
        (status) => answerOf(document, operation, status)?.content?.['application/json']?.schema['$ref'],
      ),
    );
    const names = new Set(
      answers.filter((ref) => ref !== undefined).map((ref) => String(ref).split('/').at(-1) ?? ''),
    );
    const pages = [...names].filter((name) => name.endsWith('Page'));
    expect(new Set([...names].filter((name) => answerExamples[name] === undefined))).toEqual(
      new Set([...pages, 'CheckBatch', 'Gate', 'Export']),
    );
  });

  it('are real: their signatures verify with their keys', async () => {
    const jwks = answerExamples['Jwks']?.[0];
    const keys = keyset(chooseEd25519(), parseJwks(jwks));
    const attestation = answerExamples['Attestation']?.[0] as {
      sequence: number;
      previous_attestation_hash: string;
    };
    const before = { sequence: attestation.sequence - 1, hash: attestation.previous_attestation_hash };
    expect(await recordFaultOf(attestation, before, keys)).toBeNull();
    const catalog = answerExamples['Catalog']?.[0] as { gate_id: string };
    expect(await verifyCatalog(catalog, jwks, { gateId: catalog.gate_id })).toMatchObject({ valid: true });
  });
});

function membersOf({ required, properties }: Schema) {
  const always = (required as readonly string[]).toSorted();
  const names = Object.keys(properties as object);
  return { required: always, optional: names.filter((name) => !always.includes(name)).toSorted() };
}

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
