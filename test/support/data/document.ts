import { Compile } from 'typebox/compile';
import type {
  Answer,
  Document,
  Operation,
  Reference,
  Schema,
} from '../../../control-plane/openapi/document.ts';
import { must } from '../../../shared/errors/assert.ts';

/** What a program answered, as far as the document says something about it. */
export interface Answered {
  readonly method: string;
  /** Without query: `/v1/gates/gate_…`, or with `:id` as the router knows it. */
  readonly path: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** Parsed where it is JSON; null: not looked at, for a HEAD or a stream. */
  readonly body: { readonly json: unknown } | null;
}

/** One operation of the document. `key` is its method and path: `GET /v1/gates/{id}`. */
export interface DocumentedOperation {
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export const operationsOf = (document: Document): readonly DocumentedOperation[] =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      key: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      path,
      operation,
    })),
  );

/**
 * What an operation answers with that status, with the reference followed; null: the document has no such
 * status.
 */
export function answerOf(
  document: Document,
  { responses }: Operation,
  status: number | string,
): Answer | null {
  const answer: Answer | Reference | undefined = responses[status];
  if (answer === undefined) return null;
  if (!('$ref' in answer)) return answer;
  return must(
    document.components.responses[answer.$ref.slice('#/components/responses/'.length)],
    `${answer.$ref} is there`,
  );
}

/**
 * A schema that needs nothing around it: every reference replaced by what it refers to. None refers to
 * itself.
 */
export function inlined(document: Document, schema: Schema): Schema {
  const { $ref, ...rest } = schema;
  if (typeof $ref === 'string') {
    const named = must(
      document.components.schemas[$ref.slice('#/components/schemas/'.length)],
      `${$ref} is there`,
    );
    return inlined(document, { ...named, ...rest });
  }
  return mapSchemas(rest, (part) => inlined(document, part));
}

/** The schema with all of its objects closed, so that a field that it lacks is found too. */
export function closedThroughout(schema: Schema): Schema {
  const inner = mapSchemas(schema, closedThroughout);
  const isOpen = inner['properties'] !== undefined && inner['additionalProperties'] === undefined;
  return isOpen ? { ...inner, additionalProperties: false } : inner;
}

function mapSchemas(schema: Schema, change: (part: Schema) => Schema): Schema {
  const each = (value: unknown): unknown =>
    typeof value === 'object' && value !== null ? change(value as Schema) : value;
  const changed = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (keyword === 'properties') {
      return [
        keyword,
        Object.fromEntries(Object.entries(value as Schema).map(([name, part]) => [name, each(part)])),
      ];
    }
    if (keyword === 'anyOf' || keyword === 'oneOf') return [keyword, (value as unknown[]).map(each)];
    return [keyword, keyword === 'items' || keyword === 'additionalProperties' ? each(value) : value];
  });
  return Object.fromEntries(changed);
}

/**
 * `answerHolder` of the document in this text, compiled once for all files of a worker. Bounded: there are as
 * many texts as programs and settings that change their documents.
 */
export function answerHolderOf(text: string): (answered: Answered) => void {
  const holder = holders.get(text) ?? answerHolder(JSON.parse(text));
  holders.set(text, holder);
  return holder;
}
const holders = new Map<string, (answered: Answered) => void>();

/**
 * Throws unless the answer is one that the document describes: its status, its content type, every field of
 * its body and none more, and the code of an error. What only our own programs call, and the pages about the
 * document, are not in it.
 */
export function answerHolder(document: Document): (answered: Answered) => void {
  const operations = operationsOf(document).map((each) => ({ ...each, pattern: patternOf(each.path) }));
  // A path without a parameter is the better match: /attestations/export is no attestation.
  operations.sort((one, other) => Number(one.path.includes('{')) - Number(other.path.includes('{')));
  const checks = new Map<string, (json: unknown) => void>();
  const checkError = jsonCheck(
    document,
    { $ref: '#/components/schemas/Error' },
    'an address that does not exist',
  );

  return (answered) => {
    const { method, path, status, headers, body } = answered;
    if (undocumented.test(path)) return;
    const asked = method === 'HEAD' ? 'GET' : method;
    const found = operations.find((each) => each.method === asked && each.pattern.test(path));
    if (found === undefined) {
      if (isNoOperation(answered)) return checkError(body?.json);
      throw new Error(`${method} ${path} answered ${status} and is not in the document`);
    }
    const answer = answerOf(document, found.operation, status);
    if (answer === null)
      throw new Error(`${found.key} answered ${status}, which is not in the document: ${show(body)}`);
    if (typeof headers['x-request-id'] !== 'string')
      throw new Error(`${found.key} answered without X-Request-Id`);
    if (answer.content === undefined || body === null) return;
    const type = String(headers['content-type']).split(';')[0] ?? '';
    const media = answer.content[type];
    if (media === undefined)
      throw new Error(`${found.key} answered ${status} as ${type}, which is not in the document`);
    if (type !== 'application/json') return;
    const key = `${found.key} ${status}`;
    const check = checks.get(key) ?? jsonCheck(document, media.schema, key);
    checks.set(key, check);
    check(body.json);
    expectDocumentedCode(answer, body.json, key);
  };
}

/**
 * Between our own programs, about the document itself, or in the words of other standards: JSON-RPC, OAuth,
 * AuthZEN and C2SP tlog-tiles.
 */
export const undocumented =
  /^\/(?:v1\/sync\/|docs(?:\/|$)|console(?:\/|$)|openapi\.json$|log\/|mcp$|oauth\/|access\/v1\/|\.well-known\/(?:oauth|authzen)-)/;

/** What an address that does not exist, or cannot, is answered. HEAD says it without a body. */
const isNoOperation = ({ status, body }: Answered): boolean =>
  (status === 404 || status === 400) && body !== null;

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);

function jsonCheck(document: Document, schema: Schema, key: string): (json: unknown) => void {
  const validator = Compile(closedThroughout(inlined(document, schema)));
  return (json) => {
    if (validator.Check(json)) return;
    const [first] = validator.Errors(json);
    throw new Error(
      `${key} does not fit its description at ${first?.instancePath || '/'}: ${first?.message} ${show({ json })}`,
    );
  };
}

function expectDocumentedCode(answer: Answer, json: unknown, key: string): void {
  const codes = answer['x-error-codes'];
  if (codes === undefined) return;
  const { code } = (json as { error: { code: string } }).error;
  if (!codes.includes(code)) throw new Error(`${key} answered ${code}; the document has ${codes.join(', ')}`);
}

const show = (body: Answered['body']): string => (JSON.stringify(body?.json) ?? '').slice(0, 500);
