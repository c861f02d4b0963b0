/**
 * Room `control-plane/audit`: the transaction of every change through the API, and its audit entry
 * (`append-entry.ts`).
 */

import { auditStates } from '../../shared/audit/states.ts';
import type { AuditedOperation, AuditState } from '../../shared/model/audit.ts';
import type { Transaction } from '../base/database.ts';
import { historyOf } from '../history/history.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { noteChange } from '../storage/replica-reads.ts';
import { type Beginning, changeTransaction, type WriteChange } from '../sync/change-transaction.ts';
import { appendAuditEntry } from './append-entry.ts';

/**
 * A change as the audit describes it (contract §16). Both states are complete, as the API renders the
 * resource, without secrets.
 */
export interface AuditedChange {
  readonly operation: AuditedOperation;
  /** The id of the changed resource. */
  readonly target: string;
  /** Null: it did not exist. */
  readonly before: AuditState | null;
  /** Null: it no longer exists. */
  readonly after: AuditState | null;
}

/** The caller's facts that the audit stores. */
export type AuditedCaller = Pick<Caller, 'accountId' | 'mode' | 'actor' | 'requestId'>;

export interface Changed<T> {
  readonly result: T;
  /** Null: nothing was changed, for example by a repeat. Equal states mean the same. */
  readonly audited: AuditedChange | null;
}

/**
 * What is served while history is known to have gone back: who leaves less to do, and who comes in to look.
 */
const servedWhileRegressed: ReadonlySet<AuditedOperation> = new Set<AuditedOperation>([
  'revokePassport',
  'suspendPassport',
  'suspendOwner',
  'revokeSubject',
  'deleteGate',
  'deleteApiKey',
  'deleteWebhook',
  'deleteChannel',
  'deleteUser',
  'denyApproval',
  'rejectMcpPin',
  'endStandingApproval',
  'freezeWallet',
  'rotateSigningKey',
  'revokeSidecarKey',
  'logIn',
  'logInWithOidc',
  'logInWithPasskey',
  'logOut',
  'endSession',
]);

const takesAway = ({ operation, after }: AuditedChange): boolean =>
  servedWhileRegressed.has(operation) ||
  (operation === 'receiveSecurityEvent' && after?.['reactivated'] === 0) ||
  ((operation === 'updateIssuer' || operation === 'updateAccount') && after?.['status'] === 'suspended');

/**
 * The transaction of every operation that changes something for a caller: the writes of `work`, its entries
 * in the feeds and the audit entry commit together. The type requires the audit entry, so that no operation
 * forgets it; test/api/audit-operations.test.ts calls them all.
 *
 * The entry comes last, after the quota windows in lock order (storage/locks.ts). All changes of an account
 * and mode share the lock of its chain: it is held for one statement and the commit, and its holder never
 * waits for another lock.
 */
export const administer = async <T>(
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys'>,
  caller: AuditedCaller,
  work: (tx: Transaction, change: WriteChange) => Promise<Changed<T>>,
  beginning: Beginning = {},
): Promise<T> => {
  const result = await changeTransaction(
    deps,
    async (tx, change) => {
      const { result, audited } = await work(tx, change);
      const states = audited === null ? null : auditStates(audited);
      if (audited !== null && !takesAway(audited)) historyOf(deps.sql).refuseChange();
      if (audited !== null && states !== null) {
        await appendAuditEntry(tx, deps, caller, {
          ...states,
          operation: audited.operation,
          target: audited.target,
        });
      }
      return result;
    },
    beginning,
  );
  noteChange(deps, caller.accountId);
  return result;
};
