import type { AuditedOperation, AuditFacts } from '../../shared/model/audit.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Hint } from '../events/note-hints.ts';

const typeOf: Readonly<Partial<Record<AuditedOperation, Hint['type']>>> = {
  issuePassport: 'passport',
  issuePassportUnattended: 'passport',
  suspendPassport: 'passport',
  reactivatePassport: 'passport',
  revokePassport: 'revocation',
  createGate: 'gate',
  updateGate: 'gate',
  deleteGate: 'gate',
  publishCatalog: 'gate',
  approveApproval: 'approval',
  denyApproval: 'approval',
  undoApproval: 'approval',
  acceptMcpPin: 'mcp_pin',
  rejectMcpPin: 'mcp_pin',
  createStandingApproval: 'approval',
  endStandingApproval: 'approval',
  createWebhook: 'delivery',
  updateWebhook: 'delivery',
  deleteWebhook: 'delivery',
  testWebhook: 'delivery',
  resendDelivery: 'delivery',
  recoverWebhook: 'delivery',
  // These may end access, and with it open streams.
  rollApiKey: 'access',
  deleteApiKey: 'access',
  logIn: 'access',
  logOut: 'access',
  endSession: 'access',
  updateUser: 'access',
  deleteUser: 'access',
  changePassword: 'access',
  updateAccount: 'access',
};

/** Hints of a change through the API; empty if no stream follows such changes. */
export function hintsOfChange({
  accountId,
  mode,
  operation,
  target,
}: Pick<AuditFacts, 'accountId' | 'mode' | 'operation' | 'target'>): readonly Hint[] {
  const type = typeOf[operation as AuditedOperation];
  if (type === undefined) return [];
  if (type !== 'access') return [{ accountId, mode, type, id: target }];
  // The operator changes an account, but its own people and keys are affected.
  return [{ accountId: isId('acct', target) ? target : accountId, mode: null, type, id: null }];
}
