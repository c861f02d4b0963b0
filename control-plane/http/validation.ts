import type { FastifyInstance } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import { bodyReader } from '../../shared/wire/api/body.ts';
import { shapeReader } from '../../shared/wire/api/shape.ts';

/** The result of a validator for Fastify. */
type Validation = { readonly value: unknown } | { readonly error: ApiError };
type Validator = (data: unknown) => Validation;

/**
 * Bodies are not coerced, get no defaults, and lose no fields but optional nulls. Query parameters are text:
 * integers are read from decimal digits, and defaults are filled in. Unknown parameters are refused like
 * unknown fields, because a misspelt filter would answer everything. Repeated parameters are refused.
 *
 * Answers have schemas too but are not serialised by them: such a serialiser silently drops fields and rounds
 * numbers that differ from the schema.
 */
export function installValidation(app: FastifyInstance): void {
  app.setValidatorCompiler<TSchema>(({ schema, httpPart }) => {
    if (httpPart === 'body') return answering(storableBodyReader(schema));
    return answering(parameterReader(schema));
  });
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.addHook('preValidation', async (request) => refuseBrokenQuery(request.raw.url ?? ''));
}

/**
 * Fastify takes invalid percent-encoding in a query literally (in a path it answers 400), so a filter would
 * silently search for something else.
 */
function refuseBrokenQuery(url: string): void {
  const start = url.indexOf('?');
  if (start === -1) return;
  try {
    decodeURIComponent(url.slice(start));
  } catch {
    throw new ApiError('invalid_request', {
      message: 'The query contains an invalid percent-encoding.',
    });
  }
}

const answering =
  (read: (data: unknown) => unknown): Validator =>
  (data) => {
    try {
      return { value: read(data) };
    } catch (error) {
      if (error instanceof ApiError) return { error };
      throw error;
    }
  };

/**
 * Unions are left to the route's parser, which knows the intended shape; a schema could only say "none of
 * them".
 */
function storableBodyReader(schema: TSchema): (data: unknown) => unknown {
  const read = Type.IsUnion(schema) ? (data: unknown) => data : bodyReader(schema);
  return (data) => {
    const body = read(data);
    refuseNul(body, '');
    return body;
  };
}

/**
 * PostgreSQL stores U+0000 neither in text nor in jsonb; refused here, it is the caller's error with a field
 * name.
 */
export function refuseNul(value: unknown, at: string): void {
  if (typeof value === 'string') {
    if (value.includes('\0')) throw invalidRequest(at || 'body', 'A text must not contain U+0000.');
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, each] of Object.entries(value)) {
      refuseNul(name, at);
      refuseNul(each, at === '' ? name : `${at}.${name}`);
    }
  }
}

function parameterReader(schema: TSchema): (data: unknown) => unknown {
  assert(Type.IsObject(schema), 'parameters are described by an object');
  const read = shapeReader({ ...schema, additionalProperties: false });
  const fields = Object.entries(schema.properties);
  return (data) => {
    assert(typeof data === 'object' && data !== null, 'the framework hands over parameters as an object');
    const given = new Map<string, unknown>(Object.entries(data));
    for (const [name, field] of fields) {
      const value = given.get(name);
      if (value === undefined && 'default' in field) given.set(name, field.default);
      if (value !== undefined) given.set(name, readParameter(name, field, value));
    }
    return read(Object.fromEntries(given));
  };
}

const integerPattern = /^-?(?:0|[1-9]\d{0,15})$/;

function readParameter(name: string, field: TSchema, value: unknown): unknown {
  if (typeof value !== 'string') throw invalidRequest(name, `${name} must be given once.`);
  if (value.includes('\0')) throw invalidRequest(name, 'A parameter must not contain U+0000.');
  if (!Type.IsInteger(field)) return value;
  if (!integerPattern.test(value)) throw invalidRequest(name, `${name} must be a whole number.`);
  return Number(value);
}
