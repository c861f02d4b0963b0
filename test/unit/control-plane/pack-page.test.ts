import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PackCheck } from '../../../cli/evidence/check-pack.ts';
import { renderPackPage } from '../../../cli/evidence/pack-page.ts';
import { type PackScope, packFormat } from '../../../cli/evidence/pack-scope.ts';
import { PackTotals, pageLimits } from '../../../cli/evidence/pack-totals.ts';
import type { AttestationAnswer } from '../../../shared/wire/evidence/attestation.ts';
import { runs } from '../../support/base/runs.ts';

const scope: PackScope = {
  ...{ format: packFormat, since: '2026-11-01T00:00:00.000Z', until: '2026-12-01T00:00:00.000Z' },
  ...{ gate_id: null, passport_id: null, as_of: '2026-12-01T00:02:00.000Z', made_with: '0.0.0' },
};

let place = 0;
const record = (change: Partial<AttestationAnswer> = {}): AttestationAnswer => ({
  ...{ amount_micro_usd: 1_000_000, approval_id: null, asserted: false, chain_id: 'pass_a' },
  ...{ constraints_evaluated: [], decision: 'PERMIT', domain: null, gate_id: 'gate_a', hash: 'sha256:0' },
  ...{ hold_expires_at: null, id: `att_${++place}`, passport_id: 'pass_a', permission_key: 'orders:create' },
  ...{ pii: [], policy_hash: 'sha256:1', previous_attestation_hash: null, proof: null, reason: null },
  ...{ refers_to: null, request_hash: 'sha256:2', resolution: null, sequence: 1, signature: '', test: false },
  ...{ signing_key_id: '', source: 'control-plane', source_account: 'acct_a', state_age_ms: null },
  ...{ timestamp: '2026-11-10T00:00:00.000Z', trust_level: 'L1', wallet_id: null },
  ...change,
});

function totalsOf(records: readonly AttestationAnswer[], of: PackScope = scope): PackTotals {
  const totals = new PackTotals(of);
  for (const each of records) totals.note(each);
  for (const each of records) totals.add(each);
  totals.finish();
  return totals;
}

/** What an agent, an operator and a person may have chosen is this text, everywhere. */
function pageOf(text: string, records: readonly AttestationAnswer[]): string {
  const check: PackCheck = {
    scope: { ...scope, gate_id: text, passport_id: text, made_with: text },
    verdict: { valid: false, fault: text, line: 1, chain_id: text, sequence: 1 },
    log: { origin: text, size: 1, witnesses: [text], fault: null },
    replay: {
      decisions: {
        PERMIT: { agrees: 1, contradicted: 1, unjudged: 1 },
        SUSPEND: { agrees: 0, contradicted: 0, unjudged: 0 },
        BLOCK: { agrees: 0, contradicted: 0, unjudged: 0 },
      },
      ...{ statements: 0, unjudged: { form_1: 1 }, contradictions_unnamed: 0 },
      ...{ over_limits: [], over_limits_unnamed: 0 },
      contradictions: [
        {
          ...{ chain_id: text, sequence: 1, id: text, decision: 'PERMIT', reason: text, fault: text },
          expected: null,
        },
      ],
    },
    chains: { all: 1, proven: 1, cut: 1 },
    unproven: 1,
    totals: totalsOf(records),
    policies: new Map([
      [
        'sha256:1',
        {
          ...{ trust_level: text, catalog_version: text, routes: [text], newer: text },
          constraints: {
            ...{ trusted_issuers: [text], allowed_domains: [text] },
            pii_controls: { mode: text, types: [text] },
            approvals: { above_usd: 1, permissions: [text], approvers: { roles: [text] } },
            newer: { [text]: text },
          },
        },
      ],
    ]),
    passports: new Map([[text, { passport_id: text, agent_name: text, agent_id: text }]]),
    approvals: [
      {
        ...{ approval_id: text, passport_id: text, permission_key: text, amount_micro_usd: 1 },
        ...{ created_at: text, resolved_at: text, resolved_by: text },
        answers: [{ user_id: text, answer: 'approved', at: text, undone_at: text, assertion: null }],
      },
      {
        ...{ approval_id: text, passport_id: text, permission_key: text, each_micro_usd: 1 },
        ...{ total_micro_usd: 1, owner: text, created_by: text, created_at: text, expires_at: text },
        ...{ ended_at: text, ended_by: text },
      },
    ],
    approvalsUnnamed: 1,
    broken: { broken: [{ chain_id: text, fault: text, sequence: 1 }] },
  };
  return renderPackPage(check);
}

const hostileRecords = (text: string) => [
  record({ permission_key: text, domain: text, gate_id: text, passport_id: text, approval_id: text }),
  record({
    decision: 'BLOCK',
    reason: text as never,
    permission_key: text,
    gate_id: text,
    passport_id: text,
  }),
];

/** Tags with the names of their attributes, without what these hold. */
const tagsOf = (page: string): string[] =>
  [...page.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/="[^"]*"/g, '='));

describe('the page of a pack', () => {
  it('has the same elements whatever agents, people and services have chosen as text', () => {
    const plain = tagsOf(pageOf('name', hostileRecords('name'))).filter((tag) => !/bdi/.test(tag));
    expect(plain.join('')).not.toMatch(/<(?:script|img|link|iframe|form|object)| on\w+=| src=/);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary', minLength: 1 }),
          fc.constantFrom(
            ...[
              '<script>alert(1)</script>',
              '"><img src=x onerror=alert(1)>',
              "' onload='alert(1)",
              '</style>',
            ],
            ...[
              ...['&lt;b&gt;', '<!--', ']]>', 'javascript:alert(1)', '\u202egnp.exe', 'a\u200bb'],
              ...['\u{e0041}', '\ufeff'],
            ],
            ...['\u0000', '\u2028', '\ud800', '__proto__', 'BLOCK x', 'none'],
          ),
        ),
        (text) => {
          const page = pageOf(text, hostileRecords(text));
          expect(tagsOf(page).filter((tag) => !/bdi/.test(tag))).toEqual(plain);
          expect(page).not.toMatch(/[\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u);
          // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what the page must not hold
          expect(page).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
        },
      ),
      { numRuns: runs({ short: 30, long: 10_000 }) },
    );
  });

  it('names so many decisions, and counts the others', () => {
    const many = Array.from({ length: pageLimits.decisionsMax + 5 }, () => record());
    const page = pageOf('name', many);
    expect(page).toContain('5 permitted requests not named here are in <code>records.jsonl</code>');
    expect(page).toContain('205 requests permitted');
  });
});

describe('the totals of a pack', () => {
  const permit = record({ amount_micro_usd: 10_000_000, hold_expires_at: '2026-11-11T00:00:00.000Z' });
  const later = (resolution: string, amount: number, change: Partial<AttestationAnswer> = {}) =>
    record({ resolution: resolution as never, refers_to: permit.id, amount_micro_usd: amount, ...change });

  it.each([
    ['a hold that is open', [permit], { held: 10_000_000n, spent: 0n, refunded: 0n }],
    [
      'one settled for less',
      [permit, later('settled', 6_000_000)],
      { held: 0n, spent: 6_000_000n, refunded: 0n },
    ],
    ['one that was released', [permit, later('released', 0)], { held: 0n, spent: 0n, refunded: 0n }],
    [
      'one that expired',
      [permit, later('expired', 10_000_000)],
      { held: 0n, spent: 10_000_000n, refunded: 0n },
    ],
    [
      'one that was refunded twice',
      [permit, later('settled', 9_000_000), later('refunded', 5_000_000), later('refunded', 4_000_000)],
      { held: 0n, spent: 4_000_000n, refunded: 5_000_000n },
    ],
    ['one that was taken back', [permit, later('voided', 10_000_000)], { held: 0n, spent: 0n, takenBack: 1 }],
    [
      'one settled after the period',
      [permit, later('settled', 6_000_000, { timestamp: '2026-12-01T00:00:00.000Z' })],
      { held: 10_000_000n, spent: 0n },
    ],
    ['a gate test', [record({ test: true })], { permitted: 0, spent: 0n }],
  ])('count %s by the last record that refers to it', (_what, records, expected) => {
    expect(totalsOf(records).all).toMatchObject(expected);
  });

  it('leave out what settles a decision from before the period, and count it', () => {
    const totals = totalsOf([later('settled', 6_000_000)]);
    expect([totals.all.spent, totals.earlier]).toEqual([0n, 1]);
  });

  it('of gates, passports and permissions are each the totals of all', () => {
    const names = ['a', 'b', 'c'];
    const records = names.flatMap((one) =>
      names.map((other) =>
        record({ gate_id: `gate_${one}`, passport_id: `pass_${other}`, permission_key: `${one}:${other}` }),
      ),
    );
    const totals = totalsOf(records);
    for (const groups of [totals.gates, totals.passports, totals.permissions])
      expect([...groups.values()].reduce((sum, { spent }) => sum + spent, 0n)).toBe(totals.all.spent);
  });
});
