import { beforeAll, expect, it } from 'vitest';
import { replayText } from '../support/data/replay.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';
import { recordWithheld } from '../support/service/withheld-records.ts';

const api = useApi(startOwnApi);
let records: readonly Reply['body'][];
let text: string;
beforeAll(async () => {
  goToNoon(api);
  records = await recordWithheld(api);
  text = await exportText(api);
});

it('a record lacks a permission and a domain with personal data, also where nothing says that it was found', () => {
  const left = records.map(({ permission_key: key, domain, reason, pii }) => [
    reason,
    key === null,
    domain === null,
    pii.some(({ pointer }: { pointer: string }) => pointer === '/domain'),
  ]);
  expect(left).toEqual([
    [null, false, true, true],
    [null, false, true, false],
    [null, false, true, false],
    ['domain_not_allowed', false, true, false],
    ['permission_not_granted', true, false, false],
    [null, false, false, false],
    ['domain_not_allowed', false, false, false],
    ['domain_missing', false, true, false],
    ['permission_missing', true, false, false],
  ]);
});

it('a replay leaves unjudged what is decided on what it lacks, and nothing else', () => {
  expect(replayText(text)).toMatchObject({
    decisions: {
      PERMIT: { agrees: 1, contradicted: 0, unjudged: 3 },
      BLOCK: { agrees: 3, contradicted: 0, unjudged: 2 },
    },
    unjudged: { withheld: 5 },
    contradictions: [],
  });
});

it('and contradicts a record that lacks what nothing has searched, or what nothing was decided on', () => {
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const replayed = (change: (line: Reply['body']) => Reply['body']) =>
    replayText(lines.map((line) => JSON.stringify(change(structuredClone(line)))).join('\n'));
  const withoutControls = replayed((line) => {
    if ('policy' in line) delete line.policy.body.constraints.pii_controls;
    return line;
  });
  // The checks of those that were permitted have the controls, too.
  const lacking = records.slice(0, 5).map(({ id }) => id);
  expect(withoutControls.contradictions.map(({ id }) => id)).toEqual(expect.arrayContaining(lacking));
  expect(withoutControls.unjudged).toEqual({});
  const { id } = records[3];
  const checks = ['passport', 'trust_level', 'issuer', 'permission'];
  const unreached = replayed((line) => (line.id === id ? { ...line, constraints_evaluated: checks } : line));
  expect(unreached.contradictions).toMatchObject([{ id, fault: 'decision' }]);
});
