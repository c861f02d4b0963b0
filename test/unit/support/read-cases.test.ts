import { describe, expect, it } from 'vitest';
import { parseCases } from '../../support/cases/read-cases.ts';

const good = `
- name: permits
  request: { note: { $repeat: ab, times: 3 } }
  want:
    decision: PERMIT
    reason: null
    constraints_evaluated: [ passport ]
`;
const faultOf = (text: string): string => {
  try {
    parseCases(text, 'a.yaml');
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};

describe('a file of cases', () => {
  it('is read as written', () => {
    expect(parseCases(good, 'a.yaml')).toEqual([
      {
        name: 'permits',
        request: { note: 'ababab' },
        want: { decision: 'PERMIT', reason: null, constraints_evaluated: ['passport'] },
      },
    ]);
  });

  it.each([
    ['a decision that does not exist', good.replace('PERMIT', 'MAYBE'), 'a.yaml:5: /0/want/decision'],
    ['a member that does not exist', good.replace('request:', 'requests:'), 'a.yaml:2: /0'],
    ['a member that is missing', good.replace(/ {4}reason.*\n/, ''), 'a.yaml:5: /0/want'],
    ['a key twice', good.replace('reason: null', 'decision: BLOCK'), 'a.yaml:6: Map keys must be unique'],
    ['broken YAML', good.replace('[ passport ]', '[ passport'), 'a.yaml:'],
    ['no list', 'name: x', 'a.yaml:1: '],
    ['nothing', '', 'a.yaml:1: '],
  ])('with %s is refused with the line', (_what, text, said) => {
    expect(faultOf(text)).toContain(said);
  });
});
