import { expect, it } from 'vitest';
import { overTcp } from '../../bench/rows/over-tcp.ts';

it.each([
  { words: ['--quik'], code: 2, says: /bench -- tcp/ },
  { words: ['keyed'], code: 2, says: /bench -- tcp/ },
  { words: ['--dist'], code: 2, says: /bench -- tcp/ },
  { words: ['--dist', '/nowhere', 'more'], code: 2, says: /bench -- tcp/ },
  { words: ['--dist', '/nowhere'], code: 1, says: /There is no \/nowhere\/deploy\/agent-trust\.js/ },
])('the bench over TCP refuses $words', async ({ words, code, says }) => {
  const said: string[] = [];
  const say = (line: string) => void said.push(line);

  expect(await overTcp(words, { say, print: say })).toBe(code);
  expect(said.join('\n')).toMatch(says);
});
