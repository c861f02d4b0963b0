import type { Attestation } from '../../clients/node/src/generated/api.ts';
import type { Columns } from '../base/print.ts';

/** What a person reads of a record. */
export const recordColumns: Columns<Attestation> = {
  time: 'timestamp',
  decision: ({ decision }) => decision.padEnd('SUSPEND'.length),
  reason: ({ reason, resolution }) => reason ?? resolution,
  permission: 'permission_key',
  usd: ({ amount_micro_usd }) => (amount_micro_usd === null ? null : amount_micro_usd / 1e6),
  passport: 'passport_id',
  gate: 'gate_id',
  record: 'id',
};
