import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { parseSettlementAnswer, type SettlementAnswer } from '../../../shared/wire/sync/settlement.ts';
import { sampleId } from '../../support/data/sample-chains.ts';

const answers: readonly SettlementAnswer[] = [
  { kind: 'committed' },
  {
    kind: 'replayed',
    first: {
      attestation_id: sampleId('att', 1),
      constraints_evaluated: ['passport', 'permission'],
      pii: [{ pointer: '/note', type: 'email' }],
    },
  },
  { kind: 'conflict' },
  { kind: 'none', may_change: true },
  { kind: 'none', may_change: false },
  { kind: 'approval', standing: 'mismatch', expires_at_ms: null },
  { kind: 'approval', standing: 'approved', expires_at_ms: 1_000 as never },
  { kind: 'suspended', approval_id: sampleId('appr', 1), expires_at_ms: 1_000 as never, is_new: true },
  { kind: 'blocked', reason: 'passport_revoked' },
  { kind: 'late' },
  { kind: 'voided' },
  { kind: 'refused', message: 'no' },
];

const textOf = (...given: readonly unknown[]) => JSON.stringify({ answers: given });

describe('parseSettlementAnswer', () => {
  it.each(answers)('reads $kind', (answer) => {
    expect(parseSettlementAnswer(textOf(answer))).toEqual({ answers: [answer] });
  });

  it('reads no more answers than a call has settlements', () => {
    const full = Array.from({ length: limits.settlementsPerCallMax }, () => ({ kind: 'committed' }));
    expect(parseSettlementAnswer(textOf(...full))?.answers).toHaveLength(limits.settlementsPerCallMax);
    expect(parseSettlementAnswer(textOf(...full, { kind: 'committed' }))).toBeNull();
  });

  it('passes over what a newer control plane says besides', () => {
    expect(parseSettlementAnswer('{"answers":[{"kind":"committed","at_ms":1}],"more":1}')).toMatchObject({
      answers: [{ kind: 'committed' }],
    });
  });

  it.each(['nonsense', '', 'null', '{}', '{"answers":{}}', '{"kind":"committed"}'])(
    'takes %j for no answer',
    (text) => {
      expect(parseSettlementAnswer(text)).toBeNull();
    },
  );

  it.each([
    { kind: 'replayed', first: { attestation_id: 'att_1', constraints_evaluated: [], pii: [] } },
    { kind: 'approval', standing: 'unasked', expires_at_ms: null },
    { kind: 'blocked', reason: 'domain_missing' },
    { kind: 'suspended', approval_id: null, expires_at_ms: 1, is_new: true },
  ])('takes a call with %j among its answers for not answered', (answer) => {
    expect(parseSettlementAnswer(textOf({ kind: 'committed' }, answer))).toBeNull();
  });
});
