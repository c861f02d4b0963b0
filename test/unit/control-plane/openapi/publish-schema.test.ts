import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import type { Schema } from '../../../../control-plane/openapi/document.ts';
import { schemaPublisher } from '../../../../control-plane/openapi/publish-schema.ts';
import { FreeForm, nullable } from '../../../../shared/wire/fields.ts';

const asJson = (schema: object): Schema => JSON.parse(JSON.stringify(schema));
const publish = (schema: object) => schemaPublisher({}).publish(asJson(schema));

describe('a published schema', () => {
  it('says the type of an enum', () => {
    expect(publish(Type.Enum(['a', 'b']))).toEqual({ type: 'string', enum: ['a', 'b'] });
  });

  it('says of one simple type or null that it is either', () => {
    expect(publish(nullable(Type.Integer({ minimum: 1 })))).toEqual({
      type: ['integer', 'null'],
      minimum: 1,
    });
    expect(publish(nullable(Type.Enum(['a'])))).toEqual({ type: ['string', 'null'], enum: ['a', null] });
  });

  it('leaves a choice of objects a choice', () => {
    const object = { type: 'object', properties: { x_y: { type: 'string' } }, required: ['x_y'] };
    expect(publish(nullable(Type.Object({ x_y: Type.String() })))).toEqual({
      anyOf: [object, { type: 'null' }],
    });
  });

  it('says plainly that an object is free-form', () => {
    expect(publish(FreeForm)).toEqual({ type: 'object', additionalProperties: true });
    expect(publish(nullable(FreeForm))).toEqual({ type: ['object', 'null'], additionalProperties: true });
  });

  it('says of objects that a field tells apart which field, and which value means which named schema', () => {
    const Cat = Type.Object({ model: Type.Literal('cat'), name: Type.String() });
    const Dog = Type.Object({ model: Type.Literal('dog') });
    const Pet = Type.Union([Cat, Dog], { discriminator: { propertyName: 'model' } });
    const named = schemaPublisher({ Cat: asJson(Cat), Dog: asJson(Dog), Pet: asJson(Pet) });
    expect(named.schemas['Pet']).toEqual({
      oneOf: [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }],
      discriminator: {
        propertyName: 'model',
        mapping: { cat: '#/components/schemas/Cat', dog: '#/components/schemas/Dog' },
      },
    });
    expect(named.publish(asJson(Pet))).toEqual({ $ref: '#/components/schemas/Pet' });
    // OpenAPI 3.1 §4.8.25: a discriminator is for named schemas only.
    expect(publish(Pet)).toEqual({ oneOf: [expect.any(Object), expect.any(Object)] });
  });

  it('refers to named schemas, also from one to the other, and describes their fields', () => {
    const Inner = Type.Object({ gate_id: Type.String() });
    const Outer = Type.Object({ items: Type.Array(Inner), created_at: Type.String() });
    const { schemas, publish: refer } = schemaPublisher({ Inner: asJson(Inner), Outer: asJson(Outer) });
    expect(refer(asJson(Outer))).toEqual({ $ref: '#/components/schemas/Outer' });
    expect(schemas['Outer']?.['properties']).toEqual({
      items: {
        type: 'array',
        items: { $ref: '#/components/schemas/Inner' },
        description: expect.any(String),
      },
      created_at: { type: 'string', format: 'date-time', description: expect.any(String) },
    });
    expect(schemas['Inner']?.['properties']).toEqual({
      gate_id: { type: 'string', description: 'Id of the gate, `gate_…`.' },
    });
  });
});
