import type { NewSettlement } from '../../../control-plane/decisions/settlement.ts';
import type { AttestationId, GateId, PassportId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';

/** One of the control plane itself, that took nothing. `id` and `key` are made of these names. */
export const newSettlement = (name: string, key: string): NewSettlement => ({
  id: `att_${name}` as AttestationId,
  key: {
    passportId: 'pass_1' as PassportId,
    scopeId: 'gate_1' as GateId,
    idempotencyKey: `key ${key}`,
  },
  requestHash: 'the same',
  answer: { constraintsEvaluated: [], pii: [], amountMicroUsd: null, holdExpiresAtMs: null },
  source: 'control-plane',
  readerId: `att_reader_${name}` as AttestationId,
  askedAtMs: Date.now() as UnixMillis,
  took: [],
  held: [],
});
