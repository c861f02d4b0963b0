import { Validator } from '@seriousme/openapi-schema-validator';
import { expect } from 'vitest';
import type { Document } from '../../../control-plane/openapi/document.ts';

/** By a kept validator, which a broken document must not get past. */
export async function expectValidOpenApi(document: Document): Promise<void> {
  const validator = new Validator();
  expect(await validator.validate({ ...structuredClone(document) })).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
  const broken = { ...structuredClone(document), paths: { '/livez': { get: { responses: [] } } } };
  expect((await new Validator().validate(broken)).valid).toBe(false);
}
