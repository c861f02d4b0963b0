import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type ApiDocument, generateApi } from '../../clients/node/scripts/generate-api.ts';

const generated = new URL('../../clients/node/src/generated/api.ts', import.meta.url);
const published = (): ApiDocument =>
  JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'));

it('has committed types that are those of the published document (UPDATE_DOCS=1 writes them)', () => {
  const text = generateApi(published());
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(generated, text);
  expect(readFileSync(generated, 'utf8')).toBe(text);
});

it('would notice a new field, a changed operation and one without a method', () => {
  const before = generateApi(published());
  const changed = (change: (document: Mutable<ApiDocument>) => void): string => {
    const document = structuredClone(published()) as Mutable<ApiDocument>;
    change(document);
    return generateApi(document);
  };
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
