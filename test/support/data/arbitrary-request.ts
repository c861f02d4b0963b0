import fc, { type Arbitrary } from 'fast-check';
import { exampleIds } from '../../../control-plane/http/example-ids.ts';
import type { Document, Parameter, Schema } from '../../../control-plane/openapi/document.ts';
import { codePoint, grapheme } from '../base/arbitrary-text.ts';
import { type DocumentedOperation, inlined, operationsOf } from './document.ts';

/**
 * A request as it goes out, except that it may name what exists only by the time it is sent: `resolve` puts
 * that in.
 */
export interface FuzzedRequest {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers: Readonly<Record<string, string>>;
  /** Text and bytes are sent as they are, everything else as JSON. */
  readonly body: unknown;
  /** Which of the callers asks. */
  readonly caller: number;
}

/**
 * Stands in a request for something that the service once answered: the n-th thing of its kind, counted
 * round. Kinds are the prefixes of ids, and `token`.
 */
const known = (kind: string): Arbitrary<string> => fc.nat({ max: 999 }).map((nth) => `{{${kind}:${nth}}}`);

export const placeholders = /\{\{(\w+):(\d+)\}\}/g;

const kindsOfFields: Readonly<Record<string, string>> = {
  passport_id: 'pass',
  gate_id: 'gate',
  issuer_id: 'iss',
  template_id: 'tmpl',
  passport: 'token',
  passport_token: 'token',
};
const kindsOfPaths: Readonly<Record<string, string>> = {
  passports: 'pass',
  gates: 'gate',
  approvals: 'appr',
  attestations: 'att',
  issuers: 'iss',
  templates: 'tmpl',
  'api-keys': 'key',
  accounts: 'acct',
};

/** What the service reads by name out of free-form objects and plain strings. */
const words: Readonly<Record<string, Arbitrary<unknown>>> = {
  permissions: fc.array(fc.constantFrom('orders:create', 'orders:*', 'a:b'), { maxLength: 3 }),
  key: fc.constantFrom('orders:create', 'orders:read', 'a:b'),
  scopes: fc.array(fc.constantFrom('gates:read', 'passports:issue', 'enforcement:check', 'keys:manage'), {
    minLength: 1,
    maxLength: 3,
  }),
  expires_in: fc.constantFrom('30s', '12h', '1d', '99999d', '1w', '-1h'),
  domain: fc.constantFrom('shop.example.com', 'bücher.example', 'EXAMPLE.com.', '-', null),
  allowed_domains: fc.array(fc.constantFrom('*.example.com', 'a.b', '*'), { maxLength: 3 }),
  requested_action: fc.constantFrom('orders:create', 'a:b', 'orders:*'),
  capability: fc.constantFrom('orders', 'orders:create', 'a'),
  currency: fc.constantFrom('USD', 'EUR'),
  request: fc.record(
    {
      permission_key: fc.constantFrom('orders:create', 'a:b', 'nonsense'),
      amount: fc.constantFrom(0, 12.5, 0.1, 1e-7, -1, 1e9, 1e10),
      currency: fc.constantFrom('USD', 'EUR'),
      domain: fc.constantFrom('shop.example.com', 'elsewhere.example'),
      gate_id: known('gate'),
    },
    { requiredKeys: [] },
  ),
};

/**
 * Values of the schema, mostly; where a schema leaves it open, such as mean something to the service, mostly.
 */
function valuesOf(schema: Schema, name: string): Arbitrary<unknown> {
  const { enum: values, const: only, anyOf, type } = schema;
  const word = words[name];
  if (Array.isArray(values)) return fc.constantFrom(...values);
  if (only !== undefined) return fc.constant(only);
  if (word !== undefined) return word;
  if (Array.isArray(anyOf)) return fc.oneof(...anyOf.map((each) => valuesOf(each, name)));
  if (Array.isArray(type)) return fc.oneof(...type.map((each) => valuesOf({ ...schema, type: each }, name)));
  switch (type) {
    case 'string':
      return stringOf(schema, name);
    case 'integer':
      return fc.integer({
        min: numberAt(schema, 'minimum', -5),
        max: Math.min(numberAt(schema, 'maximum', 1_000), 100_000),
      });
    case 'number':
      return fc.oneof(fc.constantFrom(0, 0.5, 12.5, 1), fc.nat({ max: numberAt(schema, 'maximum', 1_000) }));
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valuesOf((schema['items'] ?? {}) as Schema, name), {
        minLength: numberAt(schema, 'minItems', 0),
        maxLength: 3,
      });
    case 'object':
      return objectOf(schema);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

const numberAt = (schema: Schema, keyword: string, otherwise: number): number => {
  const value = schema[keyword];
  return typeof value === 'number' ? value : otherwise;
};

function stringOf(schema: Schema, name: string): Arbitrary<string> {
  const kind = kindsOfFields[name];
  if (kind !== undefined) return known(kind);
  if (schema['format'] === 'date-time') {
    return fc
      .date({ min: new Date('2020-01-01'), max: new Date('2099-01-01'), noInvalidDate: true })
      .map((date) => date.toISOString());
  }
  if (typeof schema['pattern'] === 'string')
    return fc.stringMatching(new RegExp(schema['pattern']), { maxLength: 100 });
  const minLength = numberAt(schema, 'minLength', 0);
  return fc.string({
    unit: grapheme,
    minLength,
    maxLength: Math.min(numberAt(schema, 'maxLength', 20), 20),
  });
}

function objectOf(schema: Schema): Arbitrary<unknown> {
  const properties = Object.entries((schema['properties'] ?? {}) as Readonly<Record<string, Schema>>);
  if (properties.length === 0) {
    return schema['additionalProperties'] === false
      ? fc.constant({})
      : fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 });
  }
  return fc.record(Object.fromEntries(properties.map(([name, each]) => [name, valuesOf(each, name)])), {
    requiredKeys: (schema['required'] ?? []) as string[],
    noNullPrototype: true,
  });
}

/** What no schema asks for, and what breaks programs that do not expect it. */
const junk: Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    null,
    '',
    [],
    {},
    -1,
    1.5,
    1e308,
    2 ** 53,
    '\0',
    '\ud800',
    '{{gate:0}}',
    '🤖'.repeat(100),
    'a'.repeat(5_000),
  ),
  fc.constant(JSON.parse('{"__proto__":{"polluted":true}}')),
  fc.constant({ constructor: { prototype: {} }, toString: 1 }),
);

/** One change somewhere in the value: a member goes, comes, or becomes something else. */
function mutated(value: Arbitrary<unknown>): Arbitrary<unknown> {
  return fc
    .tuple(
      value,
      fc.array(fc.nat({ max: 7 }), { maxLength: 3 }),
      fc.constantFrom('remove', 'replace', 'add'),
      junk,
      fc.string({ maxLength: 8 }),
    )
    .map(([whole, way, how, stranger, name]) => change(whole, way, { how, stranger, name }));
}

interface Change {
  readonly how: 'remove' | 'replace' | 'add';
  readonly stranger: unknown;
  readonly name: string;
}

function change(value: unknown, way: readonly number[], by: Change): unknown {
  if (typeof value !== 'object' || value === null) return by.stranger;
  const entries = Object.entries(value);
  const [step = 0, ...rest] = way;
  const chosen = entries[step % Math.max(entries.length, 1)];
  if (by.how === 'add' || chosen === undefined) entries.push([by.name, by.stranger]);
  const changed = entries.flatMap(([key, each]): [string, unknown][] => {
    if (key !== chosen?.[0] || by.how === 'add') return [[key, each]];
    if (rest.length > 0 && typeof each === 'object' && each !== null) return [[key, change(each, rest, by)]];
    return by.how === 'remove' ? [] : [[key, by.stranger]];
  });
  return Array.isArray(value) ? changed.map(([, each]) => each) : Object.fromEntries(changed);
}

/** What no client would send as a body on purpose. */
const garbage: Arbitrary<unknown> = fc.oneof(
  junk,
  fc.string({ unit: codePoint, maxLength: 60 }),
  fc.uint8Array({ maxLength: 60 }),
  fc.constantFrom(
    '{"a":1,"a":2}',
    '{',
    '[[[[',
    '"\\ud800"',
    '{"a":1e999}',
    `${'['.repeat(200)}${']'.repeat(200)}`,
    '\ufeff{}',
    '{"name":"\\u0000"}',
  ),
);

function bodyOf(schema: Schema | null, examples: readonly unknown[]): Arbitrary<unknown> {
  if (schema === null) {
    const none = fc.constant(undefined);
    return fc.oneof({ weight: 9, arbitrary: none }, { weight: 1, arbitrary: garbage });
  }
  // What the schema alone gives is often refused for a reason that no schema can say; an example is not.
  const ofSchema = valuesOf(schema, '');
  const valid =
    examples.length === 0 ? ofSchema : fc.oneof(ofSchema, fc.constantFrom(...examples).chain(withKnown));
  return fc.oneof(
    { weight: 5, arbitrary: valid },
    { weight: 3, arbitrary: mutated(valid) },
    { weight: 1, arbitrary: garbage },
  );
}

/** The example, with things that exist instead of the ids in it. */
const withKnown = (example: unknown): Arbitrary<unknown> =>
  fc.tuple(known('iss'), known('gate'), known('token')).map(([issuerId, gateId, token]) => {
    const text = JSON.stringify(example)
      .replaceAll(exampleIds.issuerId, issuerId)
      .replaceAll(exampleIds.gateId, gateId)
      .replaceAll(exampleIds.token, token);
    return JSON.parse(text);
  });

/** Characters that a header can carry. */
const headerText = fc.string({ unit: fc.constantFrom(...'abc019"*/,;=-_ W'), minLength: 1, maxLength: 20 });

const headers: Arbitrary<Record<string, string>> = fc.record(
  {
    'idempotency-key': fc.oneof(
      fc.nat({ max: 20 }).map((nth) => `key-${nth}`),
      headerText,
    ),
    'if-match': fc.oneof(fc.constantFrom('*', '"1"', 'W/"1"', '"1", "2"'), headerText),
    'if-none-match': fc.oneof(fc.constant('*'), headerText),
    'content-type': fc.oneof(
      {
        weight: 6,
        arbitrary: fc.constantFrom('application/json', 'application/merge-patch+json; charset=utf-8'),
      },
      { weight: 1, arbitrary: headerText },
    ),
    accept: fc.constantFrom('*/*', 'text/html', 'nonsense'),
    'x-request-id': headerText,
  },
  { requiredKeys: [] },
);

function queryOf(parameters: readonly Parameter[]): Arbitrary<FuzzedRequest['query']> {
  const pairs = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, schema, required }) => {
      const valid = valuesOf(schema, name).map(String);
      const value = fc.oneof(
        { weight: 6, arbitrary: valid },
        { weight: 1, arbitrary: fc.string({ maxLength: 12 }) },
      );
      const pair = value.map((text): [string, string][] => [[name, text]]);
      return required
        ? pair
        : fc.oneof(
            { weight: 2, arbitrary: fc.constant<[string, string][]>([]) },
            { weight: 1, arbitrary: pair },
          );
    });
  const stray = fc
    .tuple(fc.string({ maxLength: 6 }), fc.string({ maxLength: 6 }))
    .map((pair): [string, string][] => [pair]);
  const more = fc.oneof(
    { weight: 12, arbitrary: fc.constant<[string, string][]>([]) },
    { weight: 1, arbitrary: stray },
  );
  return fc.tuple(...pairs, more).map((found) => found.flat());
}

function pathOf(path: string): Arbitrary<string> {
  if (!path.includes('{id}')) return fc.constant(path);
  const kind = kindsOfPaths[path.split('/{id}')[0]?.split('/').at(-1) ?? ''] ?? 'gate';
  const id = fc.oneof(
    { weight: 8, arbitrary: known(kind) },
    { weight: 1, arbitrary: known('gate') },
    {
      weight: 1,
      arbitrary: fc.string({ unit: grapheme, minLength: 1, maxLength: 20 }).map(encodeURIComponent),
    },
    { weight: 1, arbitrary: fc.constantFrom('%00', '%ZZ', '.', '..', '%2F', 'a'.repeat(600)) },
  );
  return id.map((text) => path.replace('{id}', text));
}

function requestOf(
  document: Document,
  { key, method, path, operation }: DocumentedOperation,
  callers: number,
): Arbitrary<FuzzedRequest> {
  const media = operation.requestBody?.content['application/json'];
  const examples = Object.values(media?.examples ?? {}).map(({ value }) => value);
  return fc.record({
    operation: fc.constant(key),
    method: fc.constant(method),
    path: pathOf(path),
    query: queryOf(operation.parameters ?? []),
    headers: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: headers }),
    body: bodyOf(media === undefined ? null : inlined(document, media.schema), examples),
    // The first may everything and does most.
    caller: fc.oneof(
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 2, arbitrary: fc.nat({ max: callers - 1 }) },
    ),
  });
}

/**
 * Requests to every operation of the document: as it describes them, nearly so, and not at all. Those that
 * create come more often.
 */
export function arbitraryRequest(
  document: Document,
  options: { readonly callers: number },
): Arbitrary<FuzzedRequest> {
  return fc.oneof(
    ...operationsOf(document).map((each) => ({
      weight: each.method === 'GET' ? 1 : 3,
      arbitrary: requestOf(document, each, options.callers),
    })),
  );
}
