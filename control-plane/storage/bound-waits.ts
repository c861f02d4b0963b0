import type { Transaction } from '../base/database.ts';
import { storageLimits } from './limits.ts';

interface WaitBounds {
  /** For each lock, in milliseconds: then the statement fails, with SQLSTATE 55P03. */
  readonly lockMsMax: number;
}

/**
 * Bounds the waits of a transaction that locks rows which many draw on, such as the windows of a root wallet:
 * sent first. It waits for each lock for only so long, and where its control plane stands still, PostgreSQL
 * ends the session after `storageLimits.lockingPauseMsMax`: then nothing of the transaction has happened.
 */
export const boundWaits = (tx: Transaction, bounds: WaitBounds) => tx`SELECT ${waitBounds(tx, bounds)}`;

/** The same as items of a SELECT that sets more. */
export const waitBounds = (tx: Transaction, { lockMsMax }: WaitBounds) => tx`
  set_config('lock_timeout', ${String(lockMsMax)}, true),
  set_config('idle_in_transaction_session_timeout', ${lockingPause}, true)`;

const lockingPause = String(storageLimits.lockingPauseMsMax);
