import fc from 'fast-check';

/** Random expressions and what they read, for the properties of conditions. */

const text = fc.constantFrom(
  '',
  'a',
  'ab',
  'b',
  'é',
  '😀',
  'a😀b',
  '/a/../b',
  '12',
  '-7',
  '1.5',
  'true',
  '2026-06-15T06:30:00Z',
);
const whole = fc.constantFrom(
  0,
  1,
  2,
  -1,
  7,
  100,
  2 ** 31,
  Number.MAX_SAFE_INTEGER,
  -Number.MAX_SAFE_INTEGER,
);
const fraction = fc.constantFrom(0.5, -1.5, 2 ** 53, 1e300, -(2 ** 63), 1e-300);
const scalar = fc.oneof(text, whole, fraction, fc.boolean(), fc.constant(null));
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    scalar,
    fc.array(tie('json'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), tie('json'), { maxKeys: 3 }),
  ),
}));

export const members = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), json, { maxKeys: 5 });

const literal = fc.oneof(
  text.map((value) => JSON.stringify(value)),
  fc.constantFrom(
    '0',
    '1',
    '2',
    '-1',
    '7',
    '9223372036854775807',
    '9007199254740993',
    '0x1F',
    '-9223372036854775808',
  ),
  fc.constantFrom('0.5', '-1.5', '2.0', '1e300', '-0.0', '1.0'),
  fc.constantFrom('true', 'false', 'null'),
);
const quoted = (names: readonly string[]) => fc.constantFrom(...names);

/** Source of an expression. Most are well typed, some err, a few are refused. */
export const expression: fc.Arbitrary<string> = fc.letrec<{ value: string; bool: string; list: string }>(
  (tie) => {
    const value = tie('value');
    const member = fc
      .tuple(
        quoted(['request', 'claims']),
        quoted(['a', 'b', 'c', 'd', 'e']),
        quoted(['', '', '.a', '.b', '["c"]', '[0]', '[1]']),
      )
      .map(([root, name, more]) => `${root}.${name}${more}`);
    const call = (names: readonly string[]) =>
      fc.tuple(quoted(names), value).map(([name, operand]) => `${name}(${operand})`);
    const infix = (names: readonly string[], operands: fc.Arbitrary<string>) =>
      fc.tuple(operands, quoted(names), operands).map(([left, name, right]) => `(${left} ${name} ${right})`);
    return {
      value: fc.oneof(
        { maxDepth: 4, depthSize: 'small' },
        { arbitrary: member, weight: 4 },
        { arbitrary: literal, weight: 3 },
        { arbitrary: quoted(['x', 'user', 'now', 'passport.permissions', 'gate.id']), weight: 2 },
        { arbitrary: infix(['+', '-', '*', '/', '%'], value), weight: 3 },
        tie('bool'),
        tie('list'),
        call(['size', 'string', 'dyn', '-']),
        fc.tuple(tie('bool'), value, value).map(([test, yes, no]) => `(${test} ? ${yes} : ${no})`),
        fc.tuple(value, value).map(([a, b]) => `{"a": ${a}, 1: ${b}, true: ${a}}`),
        fc.tuple(value, value).map(([operand, key]) => `(${operand})[${key}]`),
        value.map((operand) => `(${operand}).a`),
      ),
      bool: fc.oneof(
        { maxDepth: 4, depthSize: 'small' },
        { arbitrary: infix(['==', '!=', '<', '<=', '>', '>=', 'in'], value), weight: 5 },
        { arbitrary: infix(['&&', '||'], tie('bool')), weight: 4 },
        tie('bool').map((operand) => `!(${operand})`),
        fc
          .tuple(quoted(['request', 'claims']), quoted(['a', 'b', 'c']))
          .map(([root, name]) => `has(${root}.${name})`),
        value.map((operand) => `has([${operand}][0].a)`),
        fc
          .tuple(value, quoted(['startsWith', 'endsWith', 'contains']), value)
          .map(([a, name, b]) => `(${a}).${name}(${b})`),
        fc
          .tuple(value, quoted(['^a', '(^|/)\\\\.\\\\.(/|$)', '(a|b)*$', '\\\\bé']))
          .map(([a, pattern]) => `(${a}).matches("${pattern}")`),
        fc
          .tuple(tie('list'), quoted(['all', 'exists', 'exists_one']), tie('bool'))
          .map(([range, name, body]) => `${range}.${name}(x, ${body})`),
        fc
          .tuple(
            quoted(['getHours', 'getDayOfWeek', 'getDayOfYear', 'getFullYear']),
            quoted(['', '"+05:30"', '"Europe/Berlin"']),
          )
          .map(([name, zone]) => `now.${name}(${zone}) > 3`),
      ),
      list: fc.oneof(
        { maxDepth: 3, depthSize: 'small' },
        member,
        fc.array(value, { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
        fc
          .tuple(tie('list'), quoted(['filter', 'map']), value)
          .map(([range, name, body]) => `${range}.${name}(x, ${body})`),
      ),
    };
  },
).bool;
