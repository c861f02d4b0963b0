import type { Attestation } from '../../clients/node/src/generated/api.ts';
import type { Column } from '../base/print.ts';

/** What a person reads of a record. */
export const recordColumns: readonly Column<Attestation>[] = [
  { title: 'time', of: ({ timestamp }) => timestamp },
  { title: 'decision', of: ({ decision }) => decision.padEnd('SUSPEND'.length) },
  { title: 'reason', of: ({ reason, resolution }) => reason ?? resolution },
  { title: 'permission', of: ({ permission_key }) => permission_key },
  { title: 'usd', of: ({ amount_micro_usd }) => (amount_micro_usd === null ? null : amount_micro_usd / 1e6) },
  { title: 'passport', of: ({ passport_id }) => passport_id },
  { title: 'gate', of: ({ gate_id }) => gate_id },
  { title: 'record', of: ({ id }) => id },
];
