import fc from 'fast-check';
import { expect, it } from 'vitest';
import { misreadsNames, repairJsonParse, soundParse } from '../../../shared/runtime/sound-json.ts';

/** Names and strings, some of their letters written with escapes that JSON does not need. */
const escaped = fc
  .tuple(fc.string({ unit: 'binary', maxLength: 4 }), fc.boolean())
  .map(([text, isEscaped]) =>
    isEscaped
      ? `"${[...text].map((letter) => [...Array(letter.length).keys()].map((at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')).join('')}"`
      : JSON.stringify(text),
  );
const odd = fc.constantFrom('"\\\\"', '"\\n"', '"\\u0022"', '"\u{e000}0"', '"__proto__"');
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    escaped,
    fc.constantFrom('1', 'null', '"\\\\"', '"a\\":"', '"\\u003a"'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(' , ')}]`),
    fc
      .uniqueArray(fc.tuple(fc.oneof({ weight: 5, arbitrary: escaped }, odd), tie('value')), {
        maxLength: 3,
        selector: ([name]) => JSON.parse(name),
      })
      .map((members) => `{${members.map(([name, each]) => `${name} :\n${each}`).join(',')}}`),
  ),
}));
it('reads what JSON.parse of a sound engine reads', () => {
  const parse = soundParse(JSON.parse);
  fc.assert(
    fc.property(value, (text) => {
      const [mine, sound] = [parse(text), JSON.parse(text)];
      expect(mine).toEqual(sound);
      expect(JSON.stringify(mine)).toBe(JSON.stringify(sound));
    }),
    { numRuns: 3_000 },
  );
  expect(() => parse('{"a\\u0062": }')).toThrow(SyntaxError);
  expect(() => parse('{"\\n":1}', (_, each) => each)).toThrow(SyntaxError);
  expect(parse('{"\\u0061":1}', (name, each) => (name === 'a' ? 2 : each))).toEqual({ a: 2 });
});

it('has an engine that reads names as they are written by then', () => {
  repairJsonParse();
  expect(misreadsNames()).toBe(false);
  expect(JSON.parse('{"sound":0,"\\u0061":0,"\\u0061":1}')).toEqual({ sound: 0, a: 1 });
});

it('takes time by the length of the text alone', () => {
  const long = `{"a":"${'\\"'.repeat(1_000_000)}"}`;
  expect(soundParse(JSON.parse)(long)).toEqual({ a: '"'.repeat(1_000_000) });
});
