import { describe, expect, it } from 'vitest';
import { readMessages, refusalText } from '../../../mcp-proxy/read-messages.ts';
import { splitLines } from '../../../mcp-proxy/split-lines.ts';
import { idAtAnEnd, writtenIds } from '../../../mcp-proxy/written-ids.ts';

const snowflake = '1312345678901234561';
const refusal = (text: string): string => {
  const read = readMessages(Buffer.from(text));
  return read.kind === 'unreadable' ? (refusalText(read) ?? 'none') : 'passed';
};

describe('the answer to a message refused as a whole', () => {
  const call = (id: string, args: string) =>
    `{"method":"tools/call","params":{"name":"pay","arguments":${args}},"jsonrpc":"2.0","id":${id}}`;

  it.each<[string, string, string]>([
    ['a number that is no double', call('7', `{"account_id":${snowflake}}`), '7'],
    ['an id that is no double', call(snowflake, '{}').replace('"pay"', '""'), snowflake],
    ['an id of text with escapes', call('"a\\"\\u0062,}"', `[${snowflake}]`), '"a\\"\\u0062,}"'],
    ['members of one name', call('1', '{"a":1,"a":2,"id":9}'), '1'],
    ['an id below', call('-2', `{"id":5,"a":[{"id":6}],"b":${snowflake}}`), '-2'],
    ['a prototype', call('4', '{"__proto__":{}}'), '4'],
    ['white space', call('6', `{"a":${snowflake}}`).replaceAll(/([:,])/g, ' $1 \t'), '6'],
    ['two ids', call('1', '{}').replace('"jsonrpc"', '"id":2,"jsonrpc"'), 'null'],
    ['an object as an id', call('{"id":1}', `{"a":${snowflake}}`), 'null'],
    ['a method that is none', '{"jsonrpc":"2.0","id":3,"method":7}', '3'],
    ['an id in other letters', '{"jsonrpc":"2.0","ID":3,"method":"a"}', 'null'],
    ['what is no message', '5', 'null'],
  ])('carries the id beside %s', (_what, text, id) => {
    expect(refusal(text)).toMatch(/^\{"jsonrpc":"2.0","id":/);
    expect(refusal(text)).toContain(`"id":${id},"error":{"code":-32`);
    expect(() => JSON.parse(refusal(text))).not.toThrow();
  });

  it.each([
    ['a number that is no double', `{"jsonrpc":"2.0","method":"a","params":{"a":${snowflake}}}`],
    ['two members of one name', '{"jsonrpc":"2.0","method":"a","method":"b"}'],
    ['a tool that is called', '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"pay"}}'],
    ['an answer to the server', `{"jsonrpc":"2.0","id":5,"result":{"a":${snowflake}}}`],
    ['an error for the server', `{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"a","data":1e999}}`],
    ['a batch of both', `[{"method":"a","params":{"a":${snowflake}}},{"id":5,"result":{}}]`],
  ])('is none to a notification or an answer with %s', (_what, text) => {
    expect(refusal(text)).toBe('none');
  });

  it('carries the id beside bytes that are not UTF-8', () => {
    const bytes = Buffer.from(call('8', '{"a":"?"}').replace('?', '\u00ff'), 'latin1');
    const read = readMessages(bytes);
    expect(read).toMatchObject({ kind: 'unreadable', written: { ids: ['8'] } });
  });

  it('carries every id of a batch, and none of one that is too long', () => {
    const batch = `[${call('1', '{}')},5,{"a":[{"id":9}]},${call('"b"', `{"a":${snowflake}}`)},{"id":3}]`;
    const errors = JSON.parse(refusal(batch));
    expect(errors.map(({ id }: { id: unknown }) => id)).toEqual([1, 'b']);
    const long = `[${Array.from({ length: 65 }, (_, at) => call(String(at), '{}')).join()}]`;
    expect(JSON.parse(refusal(long))).toMatchObject({ id: null });
  });
});

describe('a line that is too long', () => {
  const lines = async (text: string, chunkBytes: number) => {
    const bytes = Buffer.from(text);
    async function* chunks() {
      for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
    }
    const found: unknown[] = [];
    for await (const line of splitLines(chunks(), 1_000)) {
      if (Buffer.isBuffer(line)) found.push(line.toString());
      else {
        const { ids, isAwaited } = idAtAnEnd(line.head, line.tail);
        found.push(isAwaited ? ids : 'none');
      }
    }
    return found;
  };

  it.each([7, 300, 100_000])('has its id at an end, in chunks of %i', async (chunkBytes) => {
    const long = 'x'.repeat(1_200);
    const text = [
      `{"method":"tools/call","params":{"a":"${long}"},"jsonrpc":"2.0","id":17}`,
      'short',
      `{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"id":5,"a":"${long}"}}`,
      `{"method":"tools/call","params":{"a":"${long}","id":5}}`,
      'x'.repeat(1_000),
      `{"id":${snowflake},"a":"${long}"}`,
      `{"a":"${long},\\"id\\":5}"}`,
      `{"jsonrpc":"2.0","method":"a","id":7,"params":{"a":"${long}"}}`,
      `{"a":"${long}","id":8,"jsonrpc":"2.0","method":"a"}`,
      `${long}`,
    ].join('\n');
    const ids = [['17'], 'short', ['"a-1"'], 'none', 'x'.repeat(1_000), [snowflake], 'none'];
    const expected = [...ids, ['7'], ['8'], []];
    expect(await lines(text, chunkBytes)).toEqual(expected);
  });
});

it('takes time in proportion to the text', () => {
  const text = `{"method":"a","params":${'['.repeat(30_000)}${']'.repeat(30_000)},"x":"${'\\"'.repeat(30_000)}","id":1}`;
  const before = performance.now();
  expect(writtenIds(Buffer.from(text)).ids).toEqual(['1']);
  expect(performance.now() - before).toBeLessThan(2_000);
});
