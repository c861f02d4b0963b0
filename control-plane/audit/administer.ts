/**
 * Room `control-plane/audit`: the transaction of every change through the API, and the audit entry that it
 * leaves (`append-entry.ts`).
 */

import { auditStates } from '../../shared/audit/states.ts';
import type { AuditedOperation, AuditState } from '../../shared/model/audit.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { type Beginning, changeTransaction, type WriteChange } from '../sync/change-transaction.ts';
import { appendAuditEntry } from './append-entry.ts';

/**
 * How the audit describes a change (contract §16). Both states are whole, as the API renders the resource,
 * without secrets.
 */
export interface AuditedChange {
  readonly operation: AuditedOperation;
  /** The id of what is changed. */
  readonly target: string;
  /** Null: it does not exist before. */
  readonly before: AuditState | null;
  /** Null: it does not exist after. */
  readonly after: AuditState | null;
}

/** What the audit keeps of whoever makes a change. */
export type AuditedCaller = Pick<Caller, 'accountId' | 'mode' | 'actor' | 'requestId'>;

export interface Changed<T> {
  readonly result: T;
  /**
   * Null: nothing was changed, such as by a repetition. Where the two states are equal nothing was changed
   * either.
   */
  readonly audited: AuditedChange | null;
}

/**
 * The transaction of every operation that changes something at a caller's request: what `work` writes, what
 * it publishes to the feeds and the audit entry are committed together or not at all. The type demands the
 * entry, so that no operation forgets it; test/api/audit-operations.test.ts calls them all.
 *
 * The entry comes last, behind the quota windows in the order of locks (ARCHITECTURE.md). The lock of its
 * chain is the one that all changes of an account and mode share: it is held for one statement and the
 * commit, and whoever holds it waits for nobody.
 */
export const administer = <T>(
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys'>,
  caller: AuditedCaller,
  work: (tx: Transaction, change: WriteChange) => Promise<Changed<T>>,
  beginning: Beginning = {},
): Promise<T> =>
  changeTransaction(
    deps,
    async (tx, change) => {
      const { result, audited } = await work(tx, change);
      const states = audited === null ? null : auditStates(audited);
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
