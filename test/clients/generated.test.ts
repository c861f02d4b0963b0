import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type ApiDocument, generateApi } from '../../clients/node/scripts/generate-api.ts';
import { generatePython } from '../../clients/node/scripts/generate-python.ts';

const clients = {
  'clients/node/src/generated/api.ts': generateApi,
  'clients/python/agent_trust/_operations.py': generatePython,
} as const;
const published = (): ApiDocument =>
  JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'));

it.each(Object.entries(clients))(
  '%s is that of the published document (UPDATE_DOCS=1 writes it)',
  (path, generate) => {
    const file = new URL(`../../${path}`, import.meta.url);
    const text = generate(published());
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, text);
    expect(readFileSync(file, 'utf8')).toBe(text);
  },
);

const changing =
  (generate: (document: ApiDocument) => string) =>
  (change: (document: Mutable<ApiDocument>) => void): string => {
    const document = structuredClone(published()) as Mutable<ApiDocument>;
    change(document);
    return generate(document);
  };

it('would notice a new field, a changed operation and one without a method', () => {
  const before = generateApi(published());
  const changed = changing(generateApi);
  const withField = changed(({ components }) => {
    components.schemas['Error'] = { type: 'object', properties: { hint: { type: 'string' } } };
  });
  expect(withField).toContain('readonly hint?: string;');
  expect(withField).not.toBe(before);
  expect(() =>
    changed(({ paths }) => {
      paths['/v1/new'] = { get: { operationId: 'getNew', summary: 'New', responses: {} } };
    }),
  ).toThrow('operation getNew has no place');
});

type Mutable<Value> = {
  -readonly [Key in keyof Value]: Value[Key] extends object ? Mutable<Value[Key]> : Value[Key];
};
