import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../../shared/errors/api-error.ts';
import { closed, nullable } from '../../../shared/wire/api/fields.ts';
import { shapeReader } from '../../../shared/wire/api/shape.ts';

const Order = closed({
  name: Type.String({ minLength: 1 }),
  size: Type.Optional(Type.Enum(['small', 'large'])),
  note: Type.Optional(nullable(Type.String())),
  'a/b~c': Type.Optional(Type.Integer()),
  inner: Type.Optional(closed({ count: Type.Integer({ minimum: 1 }) })),
});

/** What it says about a value that does not fit. */
function complaint(value: unknown, at?: string): { param: string | null; message: string } {
  try {
    shapeReader(Order, at)(value);
  } catch (error) {
    if (error instanceof ApiError) return { param: error.param, message: error.message };
    throw error;
  }
  throw new Error('the value was taken');
}

describe('shapeReader', () => {
  it('hands over the very value it was given', () => {
    const value = { name: 'a', inner: { count: 1 }, note: null };
    expect(shapeReader(Order)(value)).toBe(value);
  });

  it.each<[unknown, string, string]>([
    [{}, 'name', 'name is required.'],
    [{ name: 'a', nmae: 'b' }, 'nmae', 'nmae is not a field of this request.'],
    [{ name: 5 }, 'name', 'name must be string.'],
    [{ name: 'a', size: 'huge' }, 'size', 'size must be one of: small, large.'],
    [{ name: 'a', note: 5 }, 'note', 'note must be string or must be null.'],
    [{ name: 'a', inner: { count: 0 } }, 'inner.count', 'inner.count must be >= 1.'],
    [{ name: 'a', inner: { count: 1, x: 1 } }, 'inner.x', 'inner.x is not a field of this request.'],
    [{ name: 'a', 'a/b~c': 'x' }, 'a/b~c', 'a/b~c must be integer.'],
    [null, 'body', 'body must be object.'],
  ])('says of %j that %s is at fault', (value, param, message) => {
    expect(complaint(value)).toEqual({ param, message });
  });

  it('puts the name of the whole before the name of the part', () => {
    expect(complaint({ name: 5 }, 'order').param).toBe('order.name');
    expect(complaint(5, 'order').param).toBe('order');
  });

  it('does not send a long name back', () => {
    expect(complaint({ name: 'a', ['x'.repeat(5_000)]: 1 }).message.length).toBeLessThan(200);
  });

  it('knows no field by the name of something inherited', () => {
    expect(complaint({ name: 'a', constructor: 1 }).param).toBe('constructor');
  });
});
