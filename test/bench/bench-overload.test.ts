import { expect, it } from 'vitest';
import { mustHaveRecovered } from '../../bench/rows/keyed.ts';

const earlier = 'att_earlier';
const left = (of: { stands: readonly string[]; told: readonly string[]; recoveryMs?: number }) => () =>
  mustHaveRecovered({
    before: new Set([earlier]),
    after: new Set([earlier, ...of.stands]),
    permitted: new Set(of.told),
    recoveryMs: of.recoveryMs ?? 0,
  });

it('row `keyed` accepts an overload after which the records match the answers', () => {
  expect(left({ stands: ['att_1', 'att_2'], told: ['att_1', 'att_2'], recoveryMs: 2_000 })).not.toThrow();
});

it.each([
  [
    'a PERMIT stands that no client was told',
    { stands: ['att_1', 'att_2'], told: ['att_1'] },
    /^1 PERMITs stand/,
  ],
  ['a PERMIT that a client was told does not', { stands: [], told: ['att_1'] }, /^1 PERMITs that clients/],
  ['it takes longer than 2 s', { stands: [], told: [], recoveryMs: 2_001 }, /only 2001 ms after/],
])('fails the row of an overload where %s', (_, of, message) => {
  expect(left(of)).toThrow(message);
});
