import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { amountOf, readAmounts } from '../../../mcp-proxy/amounts.ts';

function amountsIn(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'amounts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'amounts.json');
  writeFileSync(file, text);
  return readAmounts(file);
}

it('a tool costs the same in upper case, as it needs the same permission', () => {
  const amounts = amountsIn('{"Pay": 2, "search": "/usd"}');
  expect([
    amountOf(amounts, 'pay', {}),
    amountOf(amounts, 'PAY', {}),
    amountOf(amounts, 'SEARCH', { usd: 3 }),
    amountOf(amounts, 'other', {}),
  ]).toEqual([2, 2, 3, undefined]);
});

it('a file with two amounts of one tool is refused', () => {
  expect(() => amountsIn('{"pay": 2, "PAY": 0}')).toThrow(/names "PAY" twice/);
});
