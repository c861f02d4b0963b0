import type { Approval } from '../../clients/node/src/generated/api.ts';
import type { Column } from '../base/print.ts';

/** What a person reads of an approval. */
export const approvalColumns: readonly Column<Approval>[] = [
  { title: 'approval', of: ({ approval_id }) => approval_id },
  { title: 'status', of: ({ status }) => status },
  { title: 'agent', of: ({ agent_id }) => agent_id },
  { title: 'permission', of: ({ permission_key }) => permission_key },
  { title: 'usd', of: ({ amount_usd }) => amount_usd },
  { title: 'gate', of: ({ gate_id }) => gate_id },
  { title: 'expires', of: ({ expires_at }) => expires_at },
];
