import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { type ApiError, invalidRequest } from '../../errors/api-error.ts';
import { must } from '../../errors/assert.ts';
import { demandsByPattern } from '../../model/plain-text.ts';

/** A value of the shape of a schema, deeply readonly: received values are never changed. */
export type Wire<Schema extends TSchema> = Frozen<Static<Schema>>;

/** Unknown values, and branded texts and numbers, are kept. */
type Frozen<Value> = unknown extends Value
  ? Value
  : Value extends string | number
    ? Value
    : { readonly [Name in keyof Value]: Frozen<Value[Name]> };

/**
 * Reads a value from outside. Throws `invalid_request`, naming the field at fault, unless it has the shape.
 */
export type ShapeReader<Schema extends TSchema> = (value: unknown, at?: string) => Static<Schema>;

/**
 * Compiles a schema once. The reader returns the value itself: nothing is converted, defaulted or dropped. A
 * closed object schema (`additionalProperties: false`) refuses unknown fields by name, so that no typo
 * passes. `at` prefixes the field's name, for a value inside of another.
 */
export function shapeReader<Schema extends TSchema>(schema: Schema, always = ''): ShapeReader<Schema> {
  const validator = Compile(schema);
  return (value, at = always) => {
    if (validator.Check(value)) return value as Static<Schema>;
    throw describeMisfit(validator.Errors(value), at);
  };
}

type Misfit = ReturnType<ReturnType<typeof Compile>['Errors']>[number];

/** Longer names of unknown fields are cut: an error must not echo arbitrary input. */
const fieldNameCharsMax = 100;

function describeMisfit(misfits: readonly Misfit[], at: string): ApiError {
  // Unknown fields first: a misspelt field is often missing too, and the typo is the better hint.
  const misfit =
    misfits.find((each) => each.keyword === 'additionalProperties') ??
    must(misfits[0], 'a value that does not fit has an error');
  switch (misfit.keyword) {
    case 'additionalProperties': {
      const param = fieldAt(at, misfit.instancePath, misfit.params.additionalProperties[0]);
      return invalidRequest(param, `${param} is not a field of this request.`);
    }
    case 'required': {
      const param = fieldAt(at, misfit.instancePath, misfit.params.requiredProperties[0]);
      return invalidRequest(param, `${param} is required.`);
    }
    default: {
      const param = fieldAt(at, misfit.instancePath);
      return invalidRequest(param, `${param} ${demandOf(misfits, misfit)}.`);
    }
  }
}

/**
 * The JSON pointer of the library as a dotted name: `constraints.spend_limits`. The whole value is called
 * `body`.
 */
function fieldAt(at: string, pointer: string, last?: string): string {
  const names = pointer
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  const all = [...(at === '' ? [] : [at]), ...names, ...(last === undefined ? [] : [last])];
  return all.length === 0 ? 'body' : all.join('.').slice(0, fieldNameCharsMax);
}

function demandOf(misfits: readonly Misfit[], misfit: Misfit): string {
  if (misfit.keyword === 'enum') return `must be one of: ${misfit.params.allowedValues.join(', ')}`;
  if (misfit.keyword === 'pattern')
    return demandsByPattern.get(String(misfit.params.pattern)) ?? 'has the wrong form';
  // A choice of types reports each of them, then the choice itself.
  const choices = misfits.filter(
    (each) => each.instancePath === misfit.instancePath && each.keyword !== 'anyOf',
  );
  return choices.map((each) => each.message).join(' or ');
}
