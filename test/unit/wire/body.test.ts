import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { bodyReader } from '../../../shared/wire/api/body.ts';
import { closed, FreeForm, nullable } from '../../../shared/wire/api/fields.ts';
import { refusal } from '../../support/base/refusal.ts';

const Inner = closed({ must: Type.String(), may: Type.Optional(Type.Integer()) });
const read = bodyReader(
  closed({
    ...{ name: Type.String(), may: Type.Optional(Type.String()) },
    ...{ own_null: Type.Optional(nullable(Type.String())), inner: Type.Optional(Inner) },
    ...{ inner_or_null: Type.Optional(nullable(Inner)), list: Type.Optional(Type.Array(Inner)) },
    ...{ free: Type.Optional(FreeForm), anything: Type.Optional(Type.Unknown()) },
  }),
);

describe('bodyReader', () => {
  it('takes null for absent, also in objects and lists within', () => {
    const body = {
      name: 'a',
      may: null,
      inner: { must: 'b', may: null },
      inner_or_null: { must: 'c', may: null },
      list: [{ must: 'd', may: null }],
    };
    expect(read(body)).toEqual({
      name: 'a',
      inner: { must: 'b' },
      inner_or_null: { must: 'c' },
      list: [{ must: 'd' }],
    });
    expect(read({ name: 'a', inner: null, list: null, free: null })).toEqual({ name: 'a' });
  });

  it('leaves null where it is a value of its own', () => {
    const body = { name: 'a', own_null: null, inner_or_null: null, free: { x: null }, anything: null };
    expect(read(body)).toEqual(body);
  });

  it('does not change its input', () => {
    const body = { name: 'a', may: null, inner: { must: 'b', may: null } };
    read(body);
    expect(body).toEqual({ name: 'a', may: null, inner: { must: 'b', may: null } });
  });

  it.each([
    ['name', { name: null }],
    ['inner.must', { name: 'a', inner: { must: null } }],
    ['list.0', { name: 'a', list: [null] }],
    ['nmae', { name: 'a', nmae: null }],
    ['body', null],
  ])('refuses null for what is required or unknown, naming %s', (param, body) => {
    expect(refusal(() => read(body))).toMatchObject({ code: 'invalid_request', param });
  });
});
