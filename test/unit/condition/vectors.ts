import { checkCondition } from '../../../shared/condition/check-condition.ts';
import { compileForm } from '../../../shared/condition/compile-form.ts';
import { conversionNamed } from '../../../shared/condition/conversions.ts';
import type { CheckedForm } from '../../../shared/condition/form.ts';
import { conditionLimits } from '../../../shared/condition/limits.ts';
import { binaryOperators } from '../../../shared/condition/operators.ts';
import { timeFieldNamed } from '../../../shared/condition/time-fields.ts';
import { offsetsOf } from '../../../shared/condition/time-zone.ts';
import { Double, Failure, Timestamp, type Value } from '../../../shared/condition/values.ts';
import { must } from '../../../shared/errors/assert.ts';
import { variables } from './evaluate.ts';

/** What an implementation in another language has to answer. */
export interface Vector {
  readonly source: string;
  readonly form: CheckedForm;
  readonly now_ms: number;
  readonly truth: boolean | 'error';
  /** Null: more than there are. */
  readonly steps: number | null;
}

const texts = [
  ...['', 'a', 'A', 'ab', 'foo bar', 'foo\nbar', '\n', '../x', 'a/../b', 'a..b', 'SELECT * FROM t', 'select'],
  ...['ada@example.com', '10.0.0.1', '_', '-', ']', '\\', 'straße', 'STRAẞE', 'ǆ', 'ſ', 'K', 'é', '😀'],
  ...['\t\v ', '\u0000', '\u00a0', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac', 'xyzzy', 'x{', '7', 'σς'],
];

/** What the vectors read. */
export const read = {
  ...variables,
  request: {
    ...variables.request,
    texts,
    long: 'é😀'.repeat(100),
    digits: [0.1, 1e21, 1e-7, -2.5e-9, 123456.789, 5e-324, 1.7976931348623157e308, 100, 2 ** 53, -(2 ** 63)],
    mixed: [1, '1', true, null, [1], { a: 1 }, 1.5],
    keys: { '\uffee': 1, '😀': 2, b: 3, a: null },
  },
};

const quoted = (text: string): string => `'${[...text].map(escaped).join('')}'`;
const escaped = (char: string): string =>
  /[\w /@.+:é😀-]/u.test(char) ? char : `\\U${char.codePointAt(0)?.toString(16).padStart(8, '0')}`;

function vector(source: string, nowMs = variables.nowMs): Vector {
  const checked = checkCondition(source);
  if (!('form' in checked)) throw new Error(`${source}: ${JSON.stringify(checked)}`);
  const budget = { left: conditionLimits.stepsMax };
  const truth = compileForm(checked.form)({ ...read, nowMs }, budget);
  const steps = budget.left < 0 ? null : conditionLimits.stepsMax - budget.left;
  return {
    source,
    form: checked.form,
    now_ms: nowMs,
    truth: typeof truth === 'boolean' ? truth : 'error',
    steps,
  };
}

/** That it is what this evaluator makes of it: its text, or an error. */
function asText(source: string, value: unknown): string {
  const text = value instanceof Failure ? '' : conversionNamed('string')?.(value as Value, { left: 1e6 });
  return typeof text === 'string' ? `string(${source}) == ${quoted(text)}` : `${source} == ${source}`;
}

const operands: readonly (readonly [string, Value])[] = [
  ...[0, 1, -7, 3, 2 ** 53 - 1].map((value) => [`${value}`, value] as const),
  ...[2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n].map((value) => [`${value}`, value] as const),
  ...[0.5, -2.25, 1e300, 2 ** 60 + 0.5].map((value) => [`double('${value}')`, value] as const),
  ...[1, -0, 7].map(
    (value) => [`double('${Object.is(value, -0) ? '-0' : value}')`, new Double(value)] as const,
  ),
  ["double('NaN')", Number.NaN],
  ["double('-Infinity')", Number.NEGATIVE_INFINITY],
  ...['', '1', 'ab', '\uffee', '😀'].map((value) => [quoted(value), value] as const),
  ['true', true],
  ['false', false],
  ['null', null],
  ['[1, 2]', [1, 2]],
  ["{'a': 1}", { a: 1 }],
  ['now', new Timestamp(variables.nowMs, 0)],
  ["duration('-1.5s')", must(conversionNamed('duration'), 'there')('-1.5s', { left: 9 }) as Value],
  ["duration('90m')", must(conversionNamed('duration'), 'there')('90m', { left: 9 }) as Value],
];

const operators = Object.keys(binaryOperators).map((name) => [name, name.replaceAll(/[_@]/g, '')] as const);

/** Each operator with each operand on its left: what is a value in one vector, and one of the errors. */
const ofOperators = (): string[] =>
  operators.flatMap(([name, sign], place) =>
    operands.flatMap(([left, a], at) => {
      const chosen = operands.filter((_, other) => (other + at + place) % 6 === 0);
      const terms = chosen.map(([right, b]) => {
        const source = `dyn(${left}) ${sign} dyn(${right})`;
        const value = must(binaryOperators[name], name)(a, b, { left: 1e6 });
        if (typeof value === 'boolean') return { isError: false, term: `(${source}) == ${value}` };
        return { isError: value instanceof Failure, term: asText(`(${source})`, value) };
      });
      const [values, errors] = [false, true].map((isError) =>
        terms.filter((each) => each.isError === isError),
      );
      const whole = (values ?? []).map(({ term }) => term).join(' && ');
      return [...(whole === '' ? [] : [whole]), ...(errors ?? []).slice(0, 1).map(({ term }) => term)];
    }),
  );

const converted = [
  ...[
    '0',
    '-0',
    '+7',
    '007',
    '9223372036854775807',
    '9223372036854775808',
    '1.5',
    '.5',
    '1.',
    '1e3',
    'NaN',
    'nan',
  ],
  ...['-Infinity', 'Infinity', '1e999', '1_0', ' 1', '1\n', 'true', 'T', '٣', 'FALSE', ''],
  ...[
    '0s',
    '1h30m',
    '-1.5s',
    '1.000000001s',
    '300us',
    '1µs',
    '5',
    '0',
    '9223372036s',
    '292y',
    '99999999999h',
    '+1m',
  ],
  ...[
    '2026-02-28T23:59:59Z',
    '2026-02-29T00:00:00Z',
    '2024-02-29T00:00:00.123456789+02:00',
    '0001-01-01T00:00:00Z',
  ],
  ...[
    '0001-01-01T00:00:00+01:00',
    '9999-12-31T23:59:59.999999999Z',
    '9999-12-31T23:59:59-00:01',
    '2026-01-01',
  ],
  ...['2026-01-01T24:00:00Z', '2026-01-01T00:00:60Z', '2026-01-01T00:00:00+24:00', '1969-12-31T23:59:59.5Z'],
];
const ofConversions = (): string[] =>
  ['bool', 'int', 'double', 'timestamp', 'duration', 'string'].flatMap((name) => {
    const convert = must(conversionNamed(name), name);
    const given = [...operands, ...converted.map((each) => [quoted(each), each] as const)];
    const found = given.map(([source, value]) => {
      const outcome = convert(value, { left: 1e6 });
      return { isError: outcome instanceof Failure, term: asText(`${name}(dyn(${source}))`, outcome) };
    });
    const whole = found.filter(({ isError }) => !isError).map(({ term }) => term);
    const half = whole.length / 2;
    return [
      whole.slice(0, half).join(' && '),
      whole.slice(half).join(' && '),
      ...found.filter(({ isError }, at) => isError && at % 2 === 0).map(({ term }) => term),
    ];
  });

const zones = [
  ...['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'Pacific/Apia'],
  ...['Africa/Monrovia', 'America/St_Johns', 'Etc/GMT+5', 'europe/berlin', '+02:00', '-00:31', '23:59'],
];
const times = [
  ...[0, -1, 1_711_846_799_999, 1_711_846_800_000, 1_729_990_800_000, 4_102_444_799_123, -2_000_000_000_001],
  ...[-62_135_596_800_000, 253_402_300_799_999, 951_782_400_000, 1_325_246_400_000],
];
const fields = [
  ...['getFullYear', 'getMonth', 'getDate', 'getDayOfMonth', 'getDayOfWeek', 'getDayOfYear', 'getHours'],
  ...['getMinutes', 'getSeconds', 'getMilliseconds'],
];
const ofTimes = (): Vector[] =>
  zones.flatMap((zone, place) =>
    times.map((ms) => {
      const offsetAt = must(offsetsOf(zone), zone);
      const asked = place < 2 ? fields : fields.filter((_, at) => (at + place) % 3 === 0);
      const found = asked.map((field) => timeFieldNamed(field)?.(new Timestamp(ms, 0), offsetAt));
      return vector(`[${asked.map((field) => `now.${field}('${zone}')`).join()}] == [${found.join()}]`, ms);
    }),
  );

const patterns = String.raw`
  a ^a a$ ^$ ^.$ (?s)^.$ (?m)^bar$ (^|/)\.\.(/|$) ^/workspace/ \Aa\z [a-c] [^a-c] ^[^a-c]$ []] [^]] [a-]
  [\d_] ^\D+$ \s ^\S+$ \w \W \bbar\b \Bb o\b [[:alpha:]] [[:^alpha:]] [[:space:]] [[:punct:]x] \x41 \x{e9}
  \101 \0 \n \v \\ \Q..\E \Qa* (?i)select (?i)STRASSE (?i)straße (?i)k (?i)[k-s] (?i)^[^k-s]+$ (?i)\w
  (?i)^\W$ (?i)Σ (?i)ǅ (?i:a)b (?i)a(?-i)B a(?i)b|C a* a+c a?b a{2} a{2,}c ^a{0,3}$ a{,3} x{ x{1 a{0}b
  (a*)*b (a|aa)+$ (a+)+c (?:foo|bar)$ (?P<n>o+) a|b| |z (|a)+$ (?U)a+ .{31} ^(..)+$ [😀-😂] ^.$
  ^(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.\d+){3}$ @(?:[a-z]+\.)*example\.com$ (?i)ſ
`.split(/\s+/);
const ofPatterns = (): string[] =>
  patterns.map((pattern) => {
    const source = `request.texts.map(t, t.matches(${quoted(pattern)}))`;
    const found = texts.map((_, at) => vector(`${source}[${at}]`).truth);
    return `${source} == [${found.join(', ')}]`;
  });

const others = `
  request.nowhere == 1 ; has(request.nowhere.a) ; has(request.arguments.path.x) ; dyn(now).x == 1 ;
  has(dyn(now).x) ; claims.team.x == 1 ; has(claims.team.x) ; null in request.keys ; 1 in request.keys ; {"a": null}["a"] == null ;
  request.long.contains(request.long + "a") ; request.long.matches("(a|b){9}c") ; int(1.5) == 1 ; gate.id == "gt_1" ; has(gate.id) ;
  claims["https://issuer.example/level"] == 3 ; "team" in claims ; "x" in claims ;
  passport.owner == null ; user == "ada@example.com" ; request.texts ;
  request.mixed.map(x, x == 1) == [true, false, false, false, false, false, false] ; 1 in request.mixed ;
  1.0 in request.mixed ; true in request.mixed ; [1] in request.mixed ; {"a": 1.0} in request.mixed ;
  request.keys.map(k, k) == ["a", "b", "😀", "￮"] ; request.keys["a"] == null ; request.keys[user] == 1 ;
  request.keys[string("a")] == null ; "a" in request.keys ; has(request.keys.a) ;
  request.keys.size() == 4 ; {1: "a", true: "b", "1": "c"}[dyn(1.0)] == "a" ;
  {1: "a", true: "b"}[true] == "b" ; {1: 2}[dyn(1.5)] == 2 ; {1: 2, dyn(1): 3}[1] == 3 ;
  {dyn(1.0): 2}[1] == 2 ; {"b": 1, "a": 2}.map(k, k) == ["b", "a"] ; [][0] == 1 ;
  {"a": [1, 2]} == {"a": [1, 2.0]} ; {"a": 1} == {"b": 1} ; {"a": 1} == {"a": 1, "b": 2} ;
  [[1, [2]]] == [[1, [2]]] ; [1, 2][dyn(1.0)] == 2 ; [1, 2][dyn(0.5)] == 2 ; [1, 2][dyn(true)] == 2 ;
  [1, 2][9223372036854775807] == 1 ; [1, 2].exists_one(x, x > 1) ; [1.0, 2.0].all(x, x == x && x in [x]) ;
  [1, 2].exists_one(x, 1 / (x - 1) > 0) ; [0, 1].all(x, 1 / x > 0) ; [0, 1].exists(x, 1 / x > 0) ;
  [0, 1].exists(x, 1 / x > 2) ; [dyn(1), 0].all(x, x) ; [dyn(1)].filter(x, x) == [] ;
  [3, 4].filter(x, x > 3) == [4] ; [3, 4].map(x, x > 3, x * 2) == [8] ;
  [1].map(x, [2].map(x, x + 1)) == [[3]] ; {"a": 1}.all(k, k == "a") ; {"a": 1}.exists(k, k == "b") ;
  request.arguments.rows.exists(r, r.team == "blue") ; request.arguments.rows.all(r, has(r.team)) ;
  request.arguments.tags.all(t, has(t.x)) ; true || request.no == 1 ; request.no == 1 || true ;
  request.no == 1 && false ; request.no == 1 && true ; request.no == 1 || false ;
  request.arguments.limit || true ; request.arguments.limit && true ; !user ;
  request.no == 1 ? true : true ; false ? request.no == 1 : true ;
  request.arguments.limit ? true : false ; size(request.long) == 200 ; size("é😀") == 2 ;
  request.long.contains("x") ; request.long.startsWith("é😀") ;
  request.long + request.long == request.long ; request.long < request.long + "a" ;
  request.long.endsWith(request.long) ; request.long == request.long ; request.long == "a" ;
  request.long.matches("^(é😀)+$") ; int(request.long) == 1 ; size(request.texts + request.texts) == 66 ;
  request.texts == request.texts ; request.arguments == request.arguments ;
  request.texts.all(a, request.texts.all(b, size(a + b) >= 0)) ;
  request.texts.all(a, request.texts.exists(b, a == b)) ;
  request.texts.all(a, request.texts.all(b, request.texts.all(c, true))) ;
  request.texts.all(a, request.texts.all(b, request.texts.all(c, true))) || true ;
  request.digits.map(d, string(d)) == ["0.1", "1e+21", "1e-7", "-2.5e-9", "123456.789", "5e-324",
  "1.7976931348623157e+308", "100", "9007199254740992", "-9223372036854776000"] ;
  string(request.digits[7]) == "100" ; request.digits[8] + 1 > 0 ; request.digits[8] + 1.0 > 0.0 ;
  request.digits[7] + 1 == 101 ;
  duration('90m').getHours() == 1 && duration('-90.5s').getSeconds() == -90 ;
  duration('-1.5s').getMilliseconds() == -500 ; duration('-1ns').getMilliseconds() == 0 ;
  timestamp('9999-12-31T23:59:59Z').getFullYear('+01:00') == 10000 ;
  timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00') == 0
`
  .split(';')
  .map((each) => each.trim());
const large = [
  `${'!'.repeat(96)}(1 == 1)`,
  `249 == 1${' + 1'.repeat(248)}`,
  `[1, 2].all(x, [3].map(y, y > x, y) == [3]${' && x < 3'.repeat(20)})`,
  `true${' && true'.repeat(249)}`,
  `${'['.repeat(90)}1${']'.repeat(90)} == ${'['.repeat(90)}1${']'.repeat(90)}`,
];

/** All of them, the same each time. */
export const vectors = (): readonly Vector[] => [
  ...[...ofOperators(), ...ofConversions(), ...ofPatterns(), ...others, ...large].map((source) =>
    vector(source),
  ),
  ...ofTimes(),
];
