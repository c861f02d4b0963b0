import { type TProperties, type TSchema, Type } from 'typebox';
import { isJsonObject } from '../crypto/json-object.ts';
import { type ShapeReader, shapeReader } from './shape.ts';

/**
 * Reads what a caller sends, as `shapeReader` does, and takes null for an optional field to mean absent
 * (contract §3). Where null is a value of its own, in free-form objects and in a merge patch, it stays.
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
 * Of an object, or of an object or null. Null: the members have no names of their own, or are those of
 * several shapes.
 */
function fieldsOf(schema: TSchema): TProperties | null {
  if (Type.IsObject(schema)) return schema.properties;
  if (!Type.IsUnion(schema)) return null;
  const [shape, ...others] = schema.anyOf.filter((each) => !Type.IsNull(each));
  return shape !== undefined && others.length === 0 ? fieldsOf(shape) : null;
}
