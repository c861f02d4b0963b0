import { describe, expect, it } from 'vitest';
import { parseSettlementAnswer, type SettlementAnswer } from '../../../shared/wire/settlement.ts';
import { sampleId } from '../../support/sample-chains.ts';

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
  { kind: 'approval', standing: 'none', expires_at_ms: null },
  { kind: 'approval', standing: 'approved', expires_at_ms: 1_000 as never },
  {
    kind: 'suspended',
    approval_id: sampleId('appr', 1),
    expires_at_ms: 1_000 as never,
    is_new: true,
  },
  { kind: 'refused', message: 'no' },
];

describe('parseSettlementAnswer', () => {
  it.each(answers)('reads $kind', (answer) => {
    expect(parseSettlementAnswer(JSON.stringify(answer))).toEqual(answer);
  });

  it('passes over what a newer control plane says besides', () => {
    expect(parseSettlementAnswer('{"kind":"committed","at_ms":1}')).toMatchObject({ kind: 'committed' });
  });

  it.each([
    'nonsense',
    '',
    'null',
    '{}',
    '{"kind":"COMMITTED"}',
    '{"kind":"replayed"}',
    '{"kind":"replayed","first":{"attestation_id":"att_1","constraints_evaluated":[],"pii":[]}}',
    '{"kind":"approval","standing":"unasked","expires_at_ms":null}',
    '{"kind":"suspended","approval_id":null,"expires_at_ms":1,"is_new":true}',
  ])('takes %j for no answer', (text) => {
    expect(parseSettlementAnswer(text)).toBeNull();
  });
});
