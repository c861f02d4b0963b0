import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../cli/base/call-api.ts';
import { readYaml, writeYaml } from '../../../cli/base/read-yaml.ts';
import { runs } from '../../support/base/runs.ts';

const read = (text: string): unknown => readYaml('f.yaml', text).value;
function refusalOf(text: string): string {
  try {
    return `read as ${JSON.stringify(read(text))}`;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}
const nested = (depth: number): string => `a: ${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('YAML', () => {
  it.each([
    ['%YAML 1.1\n---\na: yes', 'f.yaml:1:1: This is YAML 1.1'],
    ['# x\n%YAML 1.1\n---\na: 010', 'f.yaml:2:1: This is YAML 1.1'],
    ['a: 1\nb: 1312345678901234561', 'f.yaml:2:4: A number'],
    ['a: 0.12345678901234567', 'f.yaml:1:4: A number'],
    ['a: 0x20000000000001', 'f.yaml:1:4: A number'],
    ['a: 1e400', 'f.yaml:1:4: A number'],
    ['a: -.inf', 'f.yaml:1:4: A number'],
    ['a: .NaN', 'f.yaml:1:4: A number'],
    ['a: 1\na: 2', 'f.yaml:2:1: Two members'],
    ['{"a": 1, "\\u0061": 2}', 'f.yaml:1:10: Two members'],
    ['a: &x 1\n? *x\n: 2', 'f.yaml:2:3: '],
    ['? {x: 1}\n: 2', 'f.yaml:1:'],
    ['__proto__: 1', 'f.yaml:1:1: The member name __proto__'],
    ['a: "\\uD800"', 'f.yaml:1:4: A string contains a lone surrogate'],
    ['a: &x { b: *x }', 'f.yaml:1:12: *x is inside of itself.'],
    ['a: &x [[*x]]', 'f.yaml:1:9: *x is inside of itself.'],
    ['a: *y', 'f.yaml:1:4: '],
    ['a: !!binary aGk=', 'f.yaml:1:4: '],
    ['a: !mine b', 'f.yaml:1:4: '],
    ['a: 1\n---\nb: 2', 'f.yaml:2:1: The file holds a second document.'],
    ['a: [1', 'f.yaml:1:'],
    [nested(32), 'f.yaml:1:35: Nesting is deeper than 32.'],
    ['a: b\rc: d', 'f.yaml:1:5: A character'],
    ['a: "b\rc"', 'f.yaml:1:6: A character'],
    ['a: 1\n\u001b[2K: 2', 'f.yaml:2:1: A character'],
    ['', 'f.yaml: The file is empty.'],
    ['# nothing\n', 'f.yaml: The file is empty.'],
    ['---\n', 'f.yaml: The file is empty.'],
  ])('%j is refused, with its line', (text, expected) => {
    const said = refusalOf(text);
    expect(said.startsWith(expected), said).toBe(true);
    expect(said.length).toBeLessThan(200);
  });

  it('is refused where it is deeper than any value, at once', () => {
    const depths = [nested(100_000), '- '.repeat(100_000), `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`];
    for (const text of depths)
      expect(refusalOf(text)).toMatch(/^f\.yaml:1:\d+: Nesting is deeper than 32\.$/);
  });

  it('is refused where aliases make more of it than a file holds', () => {
    const lines = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (const [at, name] of ['b', 'c', 'd', 'e', 'f', 'g'].entries())
      lines.push(`${name}: &${name} [${Array(10).fill(`*${'abcdef'[at]}`).join(', ')}]`);
    expect(refusalOf(lines.join('\n'))).toMatch(/^f.yaml:\d+:\d+: There are more than 1000000 values/);
  });

  it.each([
    ['a: -0', { a: 0 }],
    [
      'a: +5\nb: .5\nc: 5.\nd: 1.10\ne: 0x1F\nf: 0o17\ng: 1E2\nh: -.5',
      { a: 5, b: 0.5, c: 5, d: 1.1, e: 31, f: 15, g: 100, h: -0.5 },
    ],
    ['%YAML 1.2\n---\na: yes\nb: 1_000', { a: 'yes', b: '1_000' }],
    ['a: &x { b: 1 }\nc: *x\nd: &x 2\ne: *x', { a: { b: 1 }, c: { b: 1 }, d: 2, e: 2 }],
    ['1: 2\ntrue: ~', { 1: 2, true: null }],
    ['\ufeff{"a": "\\ud83d\\ude00"}', { a: '😀' }],
    ['a: |+\n\n\n\nb: ">"', { a: '\n\n\n', b: '>' }],
    [nested(31).replace('[]', '[1]'), expect.anything()],
  ])('%j is read', (text, value) => {
    expect(read(text.replace('\ufeff', ''))).toEqual(value);
    expect(Object.is((read(text.replace('\ufeff', '')) as { a: unknown }).a, -0)).toBe(false);
  });

  it('names the place of a fault by its line', () => {
    const { fault } = readYaml('f.yaml', 'gates:\n  - name: A\n  - name: B\n');
    expect(fault('gates.1.name', 'Wrong.\n\u001b[2J').message).toBe('f.yaml:3:11: Wrong.\\n\\u001b[2J');
    expect(fault('gates.1.trust_level', 'Missing.').message).toBe('f.yaml:3:5: Missing.');
    expect(fault(null, 'All.').message).toBe('f.yaml:1:1: All.');
  });

  it('takes no longer than its length allows, whatever is in it', () => {
    const many = (line: (at: number) => string) =>
      Array.from({ length: 20_000 }, (_, at) => line(at)).join('\n');
    const began = performance.now();
    for (const text of [
      many((at) => `- &a${at} x`),
      `- &a x\n${many(() => '- *a')}`,
      many((at) => `k${at}: 1`),
    ])
      read(text);
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});

describe('what is written', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({
      unit: fc.constantFrom(
        '\n',
        ' ',
        '\t',
        'a',
        '#',
        ':',
        '-',
        '"',
        "'",
        '\\',
        '\u200b',
        '\u2028',
        '\u0085',
        '\ufeff',
        '\u{e0041}',
      ),
    }),
    fc.constantFrom(
      'yes',
      'null',
      '~',
      '0x1',
      '1_000',
      '-',
      '? a',
      '<<',
      '.inf',
      '2026-11-30',
      '%YAML 1.1',
      '---',
      '...',
    ),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      fc.constantFrom(null, true, false, 0, 9007199254740991),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(
        text.filter((name) => name !== '__proto__'),
        tie('value'),
        { maxKeys: 4, noNullPrototype: true },
      ),
    ),
  }));

  it('is read again as it was, and shows a terminal nothing that disguises it', () => {
    fc.assert(
      fc.property(fc.record({ it: value, next: text }), (object) => {
        const written = writeYaml(object);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal must not get
        expect(written).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u2028\u{e0041}]/u);
        expect(read(written)).toEqual(object);
        expect(read(JSON.stringify(object))).toEqual(object);
      }),
      { numRuns: runs({ short: 300, long: 20_000 }) },
    );
  });
});
