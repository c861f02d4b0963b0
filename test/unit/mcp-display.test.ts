import { describe, expect, it } from 'vitest';
import { displayOf, parsePointer } from '../../mcp-proxy/display.ts';
import { must } from '../../shared/errors/assert.ts';
import { parseDisplay } from '../../shared/wire/api/display.ts';

const hidden = (...texts: string[]) => texts.map((text) => must(parsePointer(text), 'a pointer'));

describe('what an approver sees of a call', () => {
  it('is the tool and its arguments, in one order', () => {
    const shown = displayOf('pay', { to: 'Ada', amount: 200, why: { b: 1, a: [true, null] } }, []);
    expect(shown).toEqual({
      title: 'Call the tool pay',
      lines: [
        { label: 'amount', value: '200' },
        { label: 'to', value: 'Ada' },
        { label: 'why', value: '{"a":[true,null],"b":1}' },
      ],
    });
    expect(displayOf('pay', { why: { a: [true, null], b: 1 }, amount: 200, to: 'Ada' }, [])).toEqual(shown);
  });

  it('leaves out what is hidden, at any depth, and nothing else', () => {
    const args = { card: { number: '4111', owner: 'Ada' }, 'a/b': 'secret', number: 'seen' };
    expect(displayOf('pay', args, hidden('/card/number', '/a~1b', '/absent/x')).lines).toEqual([
      { label: 'a/b', value: '[hidden]' },
      { label: 'card', value: '{"number":"[hidden]","owner":"Ada"}' },
      { label: 'number', value: 'seen' },
    ]);
  });

  it('shows that a value was cut, and how many arguments are not shown', () => {
    const [line] = displayOf('write', { text: `fine ${'x'.repeat(5_000)} rm -rf /` }, []).lines;
    expect(line?.value).toMatch(/^fine x{195}… \(5014 characters\)$/);
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`a${n}`, 'b'.repeat(50)]));
    const { lines } = displayOf('write', many, []);
    expect(lines.at(-1)).toEqual({ label: 'Not shown', value: `${101 - lines.length} more arguments` });
  });

  it.each([
    ['bidirectional text', { to: 'abc\u202egnp.exe', 'l\u2066': 'x' }],
    ['control characters', { to: 'a\u001b[2Jb\n', '': '' }],
    [
      'many long names',
      Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`${'é'.repeat(300)}${n}`, '\\'])),
    ],
    ['nothing', {}],
  ])('is a display that the service takes, with %s', (_what, args) => {
    expect(() => parseDisplay(displayOf('x'.repeat(128), args, []), 'display')).not.toThrow();
  });

  it.each(['', 'a', 'a/b', '/a~2', '/a~'])('%j is no pointer to an argument', (text) => {
    expect(parsePointer(text)).toBeNull();
  });
});
