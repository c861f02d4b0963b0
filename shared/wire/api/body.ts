import { type TProperties, type TSchema, Type } from 'typebox';
import { isJsonObject } from '../../crypto/json-object.ts';
import { type ShapeReader, shapeReader } from './shape.ts';

/**
 * Like `shapeReader`, but reads null in an optional field as absent (contract §3). Null stays where it is a
 * value: in free-form objects and merge patches.
 */
export function bodyReader<Schema extends TSchema>(schema: Schema, at = ''): ShapeReader<Schema> {
  const read = shapeReader(schema, at);
  return (value) => read(withoutNulls(schema, value));
}

/** Recursion is as deep as the schema, and a schema is finite. */
function withoutNulls(schema: TSchema, value: unknown): unknown {
  if (Array.isArray(value)) {
    return Type.IsArray(schema) ? value.map((each) => withoutNulls(schema.items, each)) : value;
  }
  const fields = isJsonObject(value) ? fieldsOf(schema) : null;
  if (fields === null) return value;
  const members = Object.entries(value as object).filter(
    ([name, member]) => member !== null || !isAbsentWhenNull(fields, name),
  );
  return Object.fromEntries(
    members.map(([name, member]) => {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
      return [name, field === undefined ? member : withoutNulls(field, member)];
    }),
  );
}

function isAbsentWhenNull(fields: TProperties, name: string): boolean {
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
  return field !== undefined && Type.IsOptional(field) && !takesNull(field);
}

const takesNull = (schema: TSchema): boolean =>
  Type.IsNull(schema) || Type.IsUnknown(schema) || (Type.IsUnion(schema) && schema.anyOf.some(takesNull));

/**
 * The fields of an object schema, nullable or not. Null: its members are unnamed, or belong to several
 * shapes.
 */
function fieldsOf(schema: TSchema): TProperties | null {
  if (Type.IsObject(schema)) return schema.properties;
  if (!Type.IsUnion(schema)) return null;
  const [shape, ...others] = schema.anyOf.filter((each) => !Type.IsNull(each));
  return shape !== undefined && others.length === 0 ? fieldsOf(shape) : null;
}
