import { checkCondition } from '../../../shared/condition/check-condition.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { isGrantablePermission } from '../../../shared/model/permission.ts';
import { commitmentOf } from '../../../shared/wire/evidence/fact.ts';

/** A decision with conditions as an export has it, and how a replay judges it: the judgement and its word. */
export interface JudgedRecord {
  readonly name: string;
  readonly gate?: readonly ConditionOf[];
  readonly passport?: readonly ConditionOf[];
  /** Over a PERMIT of 2 USD that has all of its conditions met. */
  readonly record?: Readonly<Record<string, unknown>>;
  /** By path; undefined: it was absent. */
  readonly facts?: Facts;
  /** Approved before it, and presented with it. */
  readonly isPresented?: true;
  readonly judged: 'agrees' | readonly ['contradicted' | 'unjudged', string];
}

type Facts = readonly (readonly [path: string, value: unknown])[];

interface ConditionOf {
  readonly id: string;
  readonly require: string;
  readonly permissions?: readonly string[];
  readonly otherwise?: 'approve';
}

const below: ConditionOf = {
  id: 'below-workspace',
  require: "request.arguments.path.startsWith('/workspace/') && request.amount_micro_usd <= 5000000",
};
const hours: ConditionOf = {
  id: 'hours',
  require: "now.getHours('Europe/Berlin') == 9",
  otherwise: 'approve',
};
const team: ConditionOf = { id: 'team', require: 'request.team == passport.owner && user == null' };
const tier: ConditionOf = { id: 'tier', require: 'passport.trust_tier == "L2"', permissions: ['files:*'] };
const spelled: ConditionOf = {
  id: 'loop',
  require: 'request.rows.all(a, request.rows.all(b, a >= b || true))',
};

const path = '/request/arguments/path';
const within: Facts = [
  [path, '/workspace/a'],
  ['/request/amount_micro_usd', 2_000_000],
];
const outside: Facts = [[path, '/etc/passwd'], ...within.slice(1)];
const blocked = (reason: string, ...conditions: string[]) => ({ decision: 'BLOCK', reason, conditions });
const before = ['passport', 'trust_level', 'issuer', 'permission'];
const asked = [...before, 'conditions'];
const suspended = {
  ...{
    decision: 'BLOCK',
    reason: 'approval_required',
    conditions: ['hours'],
    constraints_evaluated: [...asked, 'approval'],
  },
};
const rows = (count: number): Facts => [['/request/rows', Array.from({ length: count }, (_, at) => at)]];

export const judgedRecords: readonly JudgedRecord[] = [
  { name: 'met', gate: [below], facts: within, judged: 'agrees' },
  { name: 'no facts', gate: [below], judged: ['unjudged', 'facts'] },
  { name: 'one fact of two', gate: [below], facts: within.slice(1), judged: ['unjudged', 'facts'] },
  {
    ...{ name: 'no facts, and what blocked before conditions', gate: [below], judged: 'agrees' },
    record: {
      ...blocked('permission_not_granted'),
      permission_key: 'pages:read',
      constraints_evaluated: before,
    },
  },
  { name: 'permitted, not met', gate: [below], facts: outside, judged: ['contradicted', 'decision'] },
  {
    ...{ name: 'blocked, not met', gate: [below], facts: outside, judged: 'agrees' },
    record: blocked('condition_not_met', 'below-workspace'),
  },
  {
    ...{ name: 'blocked, met', gate: [below], facts: within, judged: ['contradicted', 'decision'] },
    record: blocked('condition_not_met', 'below-workspace'),
  },
  {
    ...{ name: 'a failure that another one is said to be', gate: [below], facts: outside },
    record: blocked('condition_not_met', 'hours'),
    judged: ['contradicted', 'conditions'],
  },
  {
    ...{ name: 'a failure that is not told', gate: [{ ...below, otherwise: 'approve' }], facts: outside },
    ...{ record: blocked('condition_not_met', 'below-workspace'), judged: ['contradicted', 'decision'] },
  },
  {
    ...{ name: 'none failed, and null', gate: [below], facts: within, record: { conditions: null } },
    judged: ['contradicted', 'conditions'],
  },
  {
    name: 'no conditions, and a list',
    record: { constraints_evaluated: before },
    judged: ['contradicted', 'conditions'],
  },
  { name: 'no conditions', record: { constraints_evaluated: before, conditions: null }, judged: 'agrees' },
  {
    ...{
      name: 'absent, which errs',
      gate: [below],
      facts: [[path, undefined], ...within.slice(1)],
      judged: 'agrees',
    },
    record: blocked('condition_error', 'below-workspace'),
  },
  {
    ...{ name: 'absent, and permitted', gate: [below], facts: [[path, undefined], ...within.slice(1)] },
    judged: ['contradicted', 'decision'],
  },
  {
    ...{ name: 'another amount than the record has', gate: [below], judged: ['contradicted', 'facts'] },
    facts: [...within.slice(0, 1), ['/request/amount_micro_usd', 1]],
  },
  {
    name: 'another tier',
    gate: [tier],
    facts: [['/passport/trust_tier', 'L3']],
    judged: ['contradicted', 'decision'],
  },
  { name: 'its tier', gate: [tier], facts: [['/passport/trust_tier', 'L2']], judged: 'agrees' },
  { name: 'of other permissions', gate: [{ ...tier, permissions: ['orders:*'] }], judged: 'agrees' },
  {
    name: 'a person in time',
    gate: [hours],
    record: { timestamp: '2026-06-15T07:30:00.000Z' },
    judged: 'agrees',
  },
  { name: 'a person, not asked', gate: [hours], judged: ['contradicted', 'decision'] },
  {
    name: 'a person, presented',
    gate: [hours],
    isPresented: true,
    record: suspendedWithout(),
    judged: 'agrees',
  },
  {
    ...{ name: 'of the passport', passport: [team], judged: 'agrees' },
    facts: [
      ['/request/team', 'blue'],
      ['/passport/owner', 'blue'],
    ],
  },
  {
    ...{ name: 'of gate and passport, in their order', gate: [hours], passport: [team], judged: 'agrees' },
    facts: [
      ['/request/team', 'red'],
      ['/passport/owner', 'blue'],
    ],
    record: blocked('condition_not_met', 'hours', 'team'),
  },
  {
    ...{ name: 'a user that only its commitment names', passport: [team], judged: ['unjudged', 'facts'] },
    ...{
      facts: [
        ['/request/team', 'blue'],
        ['/passport/owner', 'blue'],
      ],
      record: { user: `sha256:${'0'.repeat(64)}` },
    },
  },
  { name: 'within the budget', gate: [spelled], facts: rows(99), judged: 'agrees' },
  { name: 'above the budget', gate: [spelled], facts: rows(101), judged: ['contradicted', 'decision'] },
  {
    ...{
      name: 'one budget for all',
      gate: [spelled, { ...spelled, id: 'again' }],
      facts: rows(80),
      judged: 'agrees',
    },
    record: blocked('condition_error', 'again'),
  },
  {
    name: 'a newer member',
    gate: [below],
    facts: within,
    record: { units: { x: 1 } },
    judged: ['unjudged', 'members'],
  },
];

function suspendedWithout() {
  return { ...suspended, decision: 'PERMIT', reason: null };
}

const id = (prefix: string, digit: number) => `${prefix}_0${String(digit).repeat(25)}`;
const hash = (char: string) => `sha256:${char.repeat(64)}`;
const signed = { signature: 'A'.repeat(86), signing_key_id: 'A'.repeat(43) };
const salt = 'A'.repeat(22);

/** The lines of an export, whose hashes and signatures are none: what a replay reads of one that verifies. */
export function linesWith(each: JudgedRecord): readonly string[] {
  const { gate = [], passport = [], facts = [] } = each;
  const [gateId, passportId, account] = [id('gate', 1), id('pass', 2), id('acct', 3)];
  const opened = facts.map(([at, value]) => {
    const fact = { path: at, salt, ...(value !== undefined && { value }) };
    return {
      ...fact,
      value: value ?? null,
      commitment: commitmentOf(fact),
      ...(value === undefined && { absent: true }),
    };
  });
  const record = {
    ...{
      amount_micro_usd: 2_000_000,
      approval_id: null,
      asserted: false,
      chain_id: passportId,
      conditions: [],
    },
    ...{ constraints_evaluated: asked, decision: 'PERMIT', domain: null, external: null, gate_id: gateId },
    ...{
      facts: facts.length === 0 ? null : opened.map(({ path: at, commitment }) => ({ path: at, commitment })),
    },
    ...{ hash: hash('1'), hold_expires_at: null, id: id('att', 4), passport_id: passportId },
    ...{ permission_key: 'files:write', permit_token: null, pii: [], policy_hash: hash('2') },
    ...{
      previous_attestation_hash: null,
      proof: null,
      reason: null,
      refers_to: null,
      request_hash: hash('3'),
    },
    ...{
      resolution: null,
      sequence: 2,
      shadow: null,
      ...signed,
      source: 'control-plane',
      source_account: account,
    },
    ...{
      state_age_ms: null,
      test: false,
      timestamp: '2026-06-15T12:00:00.000Z',
      trust_level: 'L1',
      units: null,
    },
    ...{ user: null, wallet_id: null, wallet_path: null, ...each.record },
  };
  const approval = id('appr', 5);
  const presented = each.isPresented === true;
  const approved = {
    ...{ ...record, approval_id: approval, conditions: null, constraints_evaluated: [], facts: null },
    ...{ id: id('att', 6), refers_to: approval, resolution: 'approved', sequence: 1 },
    ...{ decision: 'SUSPEND', reason: null, timestamp: '2026-06-15T11:00:00.000Z' },
  };
  const policy = {
    ...{
      catalog_hash: null,
      catalog_version: null,
      constraints: { ...(gate.length > 0 && { conditions: gate }) },
    },
    ...{ routes: [], trust_level: 'L1' },
  };
  const body = {
    ...{
      account_id: account,
      agent_id: 'agent',
      agent_name: 'Agent',
      expires_at: null,
      issuer_id: id('iss', 7),
    },
    constraints: { ...(passport.length > 0 && { conditions: passport }) },
    ...{ issued_at: '2026-01-01T00:00:00.000Z', mode: 'live', owner: 'blue', passport_id: passportId },
    ...{ permissions: ['files:*'].filter(isGrantablePermission), public_key: '', status_changes: [] },
    ...{ status_changes_omitted: 0, token_hash: '4'.repeat(64), token_signing_key_id: '', trust_tier: 'L2' },
  };
  const approvalBody = { approval_id: approval, gate_id: gateId, passport_id: passportId };
  const forms = [...gate, ...passport].map(({ require }) => {
    const checked = checkCondition(require);
    return {
      condition: {
        body: { form: 'form' in checked ? checked.form : null, require },
        hash: hash('5'),
        ...signed,
      },
    };
  });
  return [
    ...(presented ? [approved] : []),
    presented ? { ...record, approval_id: approval } : record,
    ...(facts.length > 0 ? [{ attestation_id: record.id, facts: opened }] : []),
    { policy: { body: policy, policy_hash: hash('2'), ...signed } },
    { passport: { body, hash: hash('6'), ...signed } },
    ...(presented ? [{ approval: { body: approvalBody, hash: hash('7'), ...signed } }] : []),
    ...forms,
  ].map((line) => canonicalJson(line));
}
