import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { parseJsonText } from '../../../shared/wire/api/json.ts';
import { refusal } from '../../support/base/refusal.ts';

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('parseJsonText', () => {
  it('returns the parsed value', () => {
    expect(parseJsonText('{"a":[1,-2.5,"\\ud83d\\ude00",null,true,{}]}')).toEqual({
      a: [1, -2.5, '😀', null, true, {}],
    });
  });

  it.each(['', ' ', '{', '{"a":1,}', "{'a':1}", 'NaN', '{"a":01}', '"\n"', '\ufeff{}', '{}x'])(
    'refuses %j as no JSON',
    (text) => {
      expect(refusal(() => parseJsonText(text))).toMatchObject({ code: 'invalid_json', param: null });
    },
  );

  it('does not repeat the text in its error', () => {
    const error = refusal(() => parseJsonText('{"passport": s3cr3t}'));
    expect(`${error.message} ${String(error.cause)}`).not.toContain('s3cr3t');
  });

  it('takes as much nesting as is allowed and no more', () => {
    expect(() => parseJsonText(nested(limits.jsonDepthMax))).not.toThrow();
    expect(refusal(() => parseJsonText(nested(limits.jsonDepthMax + 1)))).toMatchObject({
      code: 'invalid_request',
    });
  });

  it.each([
    ['a __proto__ member', '{"request":{"__proto__":{"a":1}}}', 'request'],
    ['a __proto__ member that is spelt with escapes', '{"\\u005f_proto__":1}', 'body'],
    ['a lone surrogate', '{"request":{"note":["x","\\ud800"]}}', 'request.note.1'],
    ['surrogates in the wrong order', '{"a":"\\ude00\\ud83d"}', 'a'],
    ['a number that no double holds', '{"request":{"amount":1e400}}', 'request.amount'],
  ])('refuses %s and says where', (_what, text, param) => {
    expect(refusal(() => parseJsonText(text))).toMatchObject({ code: 'invalid_request', param });
  });

  it.each(['zoe@example.org', '203.0.113.7', 'DE89370400440532013000', ''])(
    'names the object around a member named %j, which may be personal data',
    (name) => {
      const text = JSON.stringify({ request: { list: [{ [name]: { note: '\ud800' } }] } });
      const error = refusal(() => parseJsonText(text));
      expect(error).toMatchObject({ code: 'invalid_request', param: 'request.list.0' });
    },
  );
});
