import { checkCondition } from '../../../shared/condition/check-condition.ts';
import { compileForm } from '../../../shared/condition/compile-form.ts';
import { type CheckedForm, parseForm } from '../../../shared/condition/form.ts';
import { conditionLimits } from '../../../shared/condition/limits.ts';
import type { Variables } from '../../../shared/condition/variables.ts';
import { must } from '../../../shared/errors/assert.ts';

/** What the tests of conditions share. */
export const variables: Variables = {
  request: {
    permission_key: 'tools:write_file',
    domain: 'files.example',
    amount_micro_usd: 2_500_000,
    arguments: {
      path: '/workspace/a.txt',
      limit: 5,
      ratio: 0.5,
      big: 2 ** 53,
      tags: ['a', 'b'],
      nothing: null,
      emoji: '😀é',
      'odd key': 1,
      nested: { deep: { value: true } },
      rows: [{ id: 1 }, { id: 2, team: 'blue' }],
    },
  },
  passport: {
    id: 'pp_1',
    agent_id: 'agent-1',
    permissions: ['tools:write_file', 'data:read'],
    trust_tier: 'L2',
    issuer: null,
    owner: null,
    wallet_id: null,
  },
  claims: { team: 'blue', 'https://issuer.example/level': 3, zero: -0 },
  gate: { id: 'gt_1', trust_level: 'L1' },
  user: 'ada@example.com',
  /** 2026-06-15T06:30:45.678Z, a Monday. */
  nowMs: Date.UTC(2026, 5, 15, 6, 30, 45, 678),
};

/** The form as it arrives by the wire. */
export function formOf(source: string): CheckedForm {
  const checked = checkCondition(source);
  if (!('form' in checked)) throw new Error(`${source}: ${JSON.stringify(checked)}`);
  return must(parseForm(JSON.parse(JSON.stringify(checked.form))), 'a checked form is a form');
}

/** True, false, or the detail of the error. */
export function evaluate(source: string, of: Partial<Variables> = {}): boolean | string {
  const truth = compileForm(formOf(source))({ ...variables, ...of }, { left: conditionLimits.stepsMax });
  return typeof truth === 'boolean' ? truth : truth.detail;
}

/** Steps that it takes. */
export function stepsOf(source: string, of: Partial<Variables> = {}): number {
  const budget = { left: conditionLimits.stepsMax };
  compileForm(formOf(source))({ ...variables, ...of }, budget);
  return conditionLimits.stepsMax - budget.left;
}
