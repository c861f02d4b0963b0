/**
 * Writes the operations of the Python client from the published OpenAPI document: one method for each, named
 * by its operationId in snake_case, and the types of what goes in and comes out. Pure, as `generate-api.ts`
 * beside it; `test/clients/generated.test.ts` holds both of their files against the document.
 */
import {
  type ApiDocument,
  forPrograms,
  type Media,
  type Operation,
  type Parameter,
  type Schema,
} from './generate-api.ts';

/** As in the client for Node.js: names that mean something else in a program, and one that both widen. */
const renamed: Readonly<Record<string, string>> = {
  Error: 'ErrorBody',
  Request: 'DecisionRequest',
  Decision: 'ServiceDecision',
};

/** Of generated code, comments and docstrings. */
const columns = 108;

/** The text of `clients/python/agent_trust/_operations.py`. */
export function generatePython(published: ApiDocument): string {
  const document = forPrograms(published);
  const types = new Types();
  for (const [name, schema] of Object.entries(document.components.schemas)) types.declare(name, schema);
  const methods = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([verb, operation]) => method(types, path, verb, operation)),
  );
  return [
    '"""Written by clients/node/scripts/generate-python.ts from docs/openapi.json. Do not edit."""\n',
    'from __future__ import annotations\n',
    'from collections.abc import Mapping, Sequence',
    'from typing import Any, BinaryIO, Literal, NotRequired, TypeAlias, TypedDict\n',
    ...types.declarations(),
    '\nclass Operations:',
    '    """Every operation of the API as a method, by its operationId (docs/api.md)."""\n',
    '    def _call(',
    '        self,',
    '        method: str,',
    '        path: str,',
    '        flags: str,',
    '        *,',
    '        path_ids: Mapping[str, str],',
    '        query: Mapping[str, str | int | None],',
    '        headers: Mapping[str, str | None],',
    '        body: Any,',
    '        deadline_ms: float | None,',
    '    ) -> Any:',
    '        raise NotImplementedError\n',
    methods.join('\n'),
  ].join('\n');
}

/** Python has no anonymous types: an object within another one gets a name made of those on the way to it. */
class Types {
  readonly #declared = new Map<string, string>();

  declare(name: string, schema: Schema): void {
    const own = renamed[name] ?? name;
    // Objects declare themselves under the name that they are given.
    const type = this.of(schema, own);
    if (type !== own) this.#add(own, `${own}: TypeAlias = ${JSON.stringify(type)}\n`);
  }

  declarations(): readonly string[] {
    return [...this.#declared.values()];
  }

  /** `name`: of the class, if it is an object with members. */
  of(schema: Schema, name: string): string {
    if (schema.$ref !== undefined) {
      const target = schema.$ref.replace('#/components/schemas/', '');
      return renamed[target] ?? target;
    }
    if (schema.const !== undefined) return `Literal[${literal(schema.const)}]`;
    if (schema.enum !== undefined) return `Literal[${schema.enum.map(literal).join(', ')}]`;
    const alternatives = schema.anyOf ?? schema.oneOf;
    if (alternatives !== undefined) {
      return union(
        alternatives.map((each, place) => this.of(each, `${name}${place === 0 ? '' : place + 1}`)),
      );
    }
    const kinds = schema.type === undefined ? [] : [schema.type].flat();
    return kinds.length === 0 ? 'Any' : union(kinds.map((kind) => this.#plain(kind, schema, name)));
  }

  #plain(kind: string, schema: Schema, name: string): string {
    switch (kind) {
      case 'integer':
        return 'int';
      case 'number':
        return 'float';
      case 'boolean':
        return 'bool';
      case 'null':
        return 'None';
      case 'array':
        return `Sequence[${this.of(schema.items ?? {}, `${name}Item`)}]`;
      case 'object':
        return this.#object(schema, name);
      default:
        return 'str';
    }
  }

  #object(schema: Schema, name: string): string {
    const members = Object.entries(schema.properties ?? {});
    // A TypedDict takes no members but its own.
    if (members.length === 0 || schema.additionalProperties === true) return 'Mapping[str, Any]';
    const required = new Set(schema.required);
    // A word of the language, such as `from`, is a member in the other form of a TypedDict alone.
    const isClass = members.every(([member]) => isPlainName(member));
    const lines = members.map(([member, each]) => {
      const type = this.of(each, name + capital(camel(member)));
      const words = comment(each.description ?? '', 4);
      const shown = required.has(member) ? type : `NotRequired[${type}]`;
      return isClass
        ? `${words}    ${member}: ${shown}`
        : `${words}    "${member}": ${JSON.stringify(shown)},`;
    });
    if (!isClass) {
      this.#add(name, `${name} = TypedDict("${name}", {\n${lines.join('\n')}\n})\n`);
      return name;
    }
    const words = schema.description === undefined ? '' : `    """${docText(schema.description, 4)}"""\n\n`;
    this.#add(name, `class ${name}(TypedDict):\n${words}${lines.join('\n')}\n`);
    return name;
  }

  #add(name: string, text: string): void {
    if (this.#declared.has(name)) throw new Error(`two types of the Python client would be called ${name}`);
    this.#declared.set(name, `\n${text}`);
  }
}

function method(types: Types, path: string, verb: string, operation: Operation): string {
  const name = snake(operation.operationId);
  const own = capital(operation.operationId);
  const parameters = operation.parameters ?? [];
  const ids = [...path.matchAll(/\{(\w+)\}/g)].map(([, id = '']) => id);
  const query = parameters.filter((each) => each.in === 'query');
  const headers = parameters.filter((each) => each.in === 'header');
  const body = operation.requestBody;
  const { kind, type } = answerOf(types, operation, own);
  const creates = headers.some((each) => each.name === 'Idempotency-Key');
  const isCached = !creates && headers.some((each) => each.name === 'If-None-Match');
  const given = [
    'self',
    ...ids.map((id) => `${id === 'id' ? idName(path) : id}: str`),
    ...(body === undefined ? [] : [bodyArgument(types, body, own)]),
    '*',
    ...query.filter(isRequired).map((each) => `${each.name}: ${types.of(each.schema, own + each.name)}`),
    ...query
      .filter((each) => !isRequired(each))
      .map(
        (each) => `${each.name}: ${optional(types.of(each.schema, own + capital(camel(each.name))))} = None`,
      ),
    ...headers.map((each) => `${headerName(each)}: str | None = None`),
    'deadline_ms: float | None = None',
  ];
  const flags = [
    ...(body === undefined ? [] : ['body']),
    ...(creates ? ['creates'] : []),
    ...(kind === 'json' ? [] : [kind]),
  ];
  const entries = (all: readonly (readonly [string, string])[]) =>
    `{${all.map(([key, value]) => `"${key}": ${value}`).join(', ')}}`;
  return [
    `    def ${name}(`,
    ...given.map((each) => `        ${each},`),
    `    ) -> ${isCached ? optional(type) : type}:`,
    `        """${docText(wordsOf(operation), 8)}"""`,
    `        answer: ${isCached ? optional(type) : type} = self._call(`,
    `            "${verb.toUpperCase()}",`,
    `            "${path}",`,
    `            "${flags.join(' ')}",`,
    `            path_ids=${entries(ids.map((id) => [id, id === 'id' ? idName(path) : id]))},`,
    `            query=${entries(query.map((each) => [each.name, each.name]))},`,
    `            headers=${entries(headers.map((each) => [each.name.toLowerCase(), headerName(each)]))},`,
    `            body=${body === undefined ? 'None' : 'body'},`,
    '            deadline_ms=deadline_ms,',
    '        )',
    '        return answer\n',
  ].join('\n');
}

const isRequired = (parameter: Parameter): boolean => parameter.required === true;
const headerName = ({ name }: Parameter): string => name.toLowerCase().replaceAll('-', '_');

function bodyArgument(types: Types, body: Media & { readonly required?: boolean }, own: string): string {
  const type = types.of(body.content?.['application/json']?.schema ?? {}, `${own}Body`);
  return body.required === true ? `body: ${type}` : `body: ${optional(type)} = None`;
}

/** `stream`: a file; `status`: the same body for 200 and 503. */
function answerOf(types: Types, { responses }: Operation, own: string): { kind: string; type: string } {
  const contents = (responses['200'] ?? responses['201'] ?? responses['202'])?.content ?? {};
  if ('application/x-ndjson' in contents) return { kind: 'stream', type: 'BinaryIO' };
  const schema = contents['application/json']?.schema;
  if (schema === undefined) return { kind: 'text', type: 'str' };
  const isReport = responses['503']?.content?.['application/json']?.schema !== undefined;
  return { kind: isReport ? 'status' : 'json', type: types.of(schema, `${own}Answer`) };
}

/** The first id of a path is called `id` there: `/v1/gates/{id}` has a `gate_id`. */
function idName(path: string): string {
  const resource = /^\/v1\/([a-z-]+)\//.exec(path)?.[1] ?? '';
  return `${resource.replaceAll('-', '_').replace(/s$/, '')}_id`;
}

/** The summary, and of the description the scope, which is its last paragraph. */
function wordsOf({ summary, description }: Operation): string {
  const scope = description?.split('\n\n').at(-1) ?? '';
  return /^(?:Needs|Public)/.test(scope) ? `${summary}. ${scope}` : `${summary}.`;
}

const union = (types: readonly string[]): string => [...new Set(types)].join(' | ');
const optional = (type: string): string => (/(?:^| )None$/.test(type) ? type : `${type} | None`);
const isPlainName = (name: string): boolean => /^[a-z_][a-z0-9_]*$/i.test(name) && !keywords.has(name);
const keywords = new Set(
  'and as assert class def del from global if import in is lambda not or pass'.split(' '),
);
const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
const camel = (name: string): string =>
  name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function literal(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return JSON.stringify(value);
}

function comment(text: string, indent: number): string {
  const pad = ' '.repeat(indent);
  const lines = text === '' ? [] : text.split('\n').flatMap((line) => wrap(line, columns - indent - 2));
  return lines.map((line) => `${pad}# ${line}`.trimEnd().concat('\n')).join('');
}

/** Of a docstring: one line, or further ones and the closing quotes on a line of their own. */
function docText(text: string, indent: number): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"');
  const lines = escaped.split('\n').flatMap((line) => wrap(line, columns - indent - 6));
  const pad = ' '.repeat(indent);
  return lines.length === 1 ? (lines[0] ?? '') : `${lines.join(`\n${pad}`)}\n${pad}`;
}

function wrap(text: string, width: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
