import type { Approval } from '../../clients/node/src/generated/api.ts';
import type { Columns } from '../base/print.ts';

/** What a person reads of an approval. */
export const approvalColumns: Columns<Approval> = {
  approval: 'approval_id',
  status: 'status',
  agent: 'agent_id',
  for: 'user',
  permission: 'permission_key',
  usd: 'amount_usd',
  gate: 'gate_id',
  expires: 'expires_at',
};
