import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import type { Schema } from './document.ts';
import { describeField } from './glossary.ts';

/**
 * A schema as it is published: the one that validates, said in the way that readers and generators of OpenAPI
 * 3.1 know best. It accepts exactly the same values. A part that is one of the named ones becomes a reference
 * to it. `owner`: whose fields they are, for words that the glossary keeps for that one.
 */
export type PublishSchema = (schema: Schema, owner?: string) => Schema;

/** The named schemas as they are published, and how every other one is published beside them. */
export function schemaPublisher(named: Readonly<Record<string, Schema>>): {
  readonly schemas: Readonly<Record<string, Schema>>;
  readonly publish: PublishSchema;
} {
  const plain = Object.entries(named).map(([name, schema]) => [name, simplify(schema)] as const);
  const names = new Map(plain.map(([name, schema]) => [canonicalJson(schema), name]));
  const refer: PublishSchema = (schema) => {
    const name = names.get(canonicalJson(schema));
    return name === undefined ? referParts(schema) : { $ref: `#/components/schemas/${name}` };
  };
  const referParts: PublishSchema = (schema) => {
    const inner = mapParts(schema, refer);
    return isDiscriminated(schema) ? withMapping(schema, inner) : inner;
  };
  return {
    schemas: Object.fromEntries(
      plain.map(([name, schema]) => [name, describeFields(referParts(schema), name)]),
    ),
    publish: (schema, owner) => describeFields(refer(simplify(schema)), owner),
  };
}

/** Applies `change` to each schema that this one is directly made of. */
function mapParts(schema: Schema, change: PublishSchema): Schema {
  const parts = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (keyword === 'properties' && isSchema(value)) {
      return [
        keyword,
        Object.fromEntries(Object.entries(value).map(([name, each]) => [name, changed(each)])),
      ];
    }
    if (keyword === 'items' || keyword === 'additionalProperties') return [keyword, changed(value)];
    if ((keyword === 'anyOf' || keyword === 'oneOf') && Array.isArray(value))
      return [keyword, value.map(changed)];
    return [keyword, value];
  });
  function changed(part: unknown): unknown {
    return isSchema(part) ? change(part) : part;
  }
  return Object.fromEntries(parts);
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * A choice of objects that one of their fields tells apart, `discriminator.propertyName` (OpenAPI 3.1
 * §4.8.25).
 */
interface Discriminated extends Schema {
  readonly discriminator: { readonly propertyName: string };
  readonly oneOf: readonly { readonly properties: Readonly<Record<string, { readonly const: string }>> }[];
}

const isDiscriminated = (schema: Schema): schema is Discriminated =>
  isSchema(schema['discriminator']) && Array.isArray(schema['oneOf']);

/**
 * Generators read which value means which named schema from `mapping`. Where nothing is named, the constants
 * in the parts have to do.
 */
function withMapping({ discriminator, oneOf }: Discriminated, referred: Schema): Schema {
  const choices = referred['oneOf'] as readonly { readonly $ref?: string }[];
  const mapping = oneOf.flatMap(({ properties }, place) => {
    const [value, $ref] = [properties[discriminator.propertyName]?.const, choices[place]?.$ref];
    return value === undefined || $ref === undefined ? [] : [[value, $ref] as const];
  });
  if (mapping.length === oneOf.length) {
    return { ...referred, discriminator: { ...discriminator, mapping: Object.fromEntries(mapping) } };
  }
  const { discriminator: _, ...rest } = referred;
  return rest;
}

/**
 * An `enum` gets its type; a choice between one simple type and null becomes that type or null; a
 * discriminated choice is `oneOf`; "any member" is said plainly. What is closed is what callers send, where
 * null for an optional field means absent (`bodyReader`).
 */
function simplify(schema: Schema): Schema {
  const inner = orNullWhereOptional(mapParts(schema, simplify));
  const { enum: values, anyOf, additionalProperties } = inner;
  if (
    Array.isArray(values) &&
    inner['type'] === undefined &&
    values.every((each) => typeof each === 'string')
  ) {
    return { type: 'string', ...inner };
  }
  if (Array.isArray(anyOf) && isSchema(inner['discriminator'])) {
    const { anyOf: oneOf, ...rest } = inner;
    return { ...rest, oneOf };
  }
  if (Array.isArray(anyOf) && anyOf.length === 2) {
    const [value, none] = anyOf;
    const isSimple = typeof value.type === 'string' && value.properties === undefined;
    if (isSimple && none.type === 'null') {
      const { anyOf: _, ...rest } = inner;
      const orNull = value.enum === undefined ? {} : { enum: [...value.enum, null] };
      return { ...rest, ...value, type: [value.type, 'null'], ...orNull };
    }
  }
  // `Type.Record`: the generator writes its pattern as additionalProperties, and the named schemas did not go
  // through it.
  const { patternProperties, ...rest } = inner;
  const members = isSchema(patternProperties) ? Object.values(patternProperties)[0] : additionalProperties;
  if (!isSchema(members)) return inner;
  return { ...rest, additionalProperties: Object.keys(members).length === 0 ? true : members };
}

function orNullWhereOptional(schema: Schema): Schema {
  const { properties, required, additionalProperties } = schema;
  if (additionalProperties !== false || !isSchema(properties)) return schema;
  const demanded: readonly unknown[] = Array.isArray(required) ? required : [];
  const fields = Object.entries(properties).map(([name, field]) => [
    name,
    demanded.includes(name) || !isSchema(field) || takesNull(field) ? field : orNull(field),
  ]);
  return { ...schema, properties: Object.fromEntries(fields) };
}

const takesNull = ({ type, anyOf }: Schema): boolean =>
  type === 'null' ||
  (Array.isArray(type) && type.includes('null')) ||
  (Array.isArray(anyOf) && anyOf.some(takesNull));

const orNull = (schema: Schema): Schema =>
  Array.isArray(schema['anyOf'])
    ? { ...schema, anyOf: [...schema['anyOf'], { type: 'null' }] }
    : simplify({ anyOf: [schema, { type: 'null' }] });

/** Every field says what it is: one name means one thing everywhere, so the glossary knows it by its name. */
function describeFields(schema: Schema, owner = ''): Schema {
  const inner = mapParts(schema, (part) => describeFields(part, owner));
  const { properties } = inner;
  if (!isSchema(properties)) return inner;
  const described = Object.entries(properties).map(([name, field]) => [
    name,
    isSchema(field) ? describeField(owner, name, field) : field,
  ]);
  return { ...inner, properties: Object.fromEntries(described) };
}
