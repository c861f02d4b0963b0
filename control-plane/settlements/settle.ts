import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { Deps, Transaction } from '../deps.ts';
import { awaitKey, lockKey } from '../enforcement/permit-claims.ts';
import { isLockTimeout } from '../http/database-away.ts';
import { readConnectionStanding } from '../sync/sidecar-store.ts';
import { lookUp } from './look-up.ts';
import { NothingSettled } from './nothing-settled.ts';
import { settlePermit } from './settle-permit.ts';
import { settleSuspend } from './settle-suspend.ts';
import { keyOf } from './settled-request.ts';

/** What the sidecar is told; `superseded` and `reconnect` as at ingest (shared/wire/sync.ts). */
export type SettlementOutcome =
  | SettlementAnswer
  | { readonly kind: 'superseded' }
  | { readonly kind: 'reconnect' };

/**
 * Settles a decision of a sidecar that must be true for all of them before it is answered (decisions §5 and §8), in one transaction. The sender
 * must be the newest connection of its sidecar id, read without a lock as at ingest.
 *
 * The order of the locks is in approval-store.ts. Where the outcome of the commit is unknown this throws, and the sidecar asks again.
 *
 * A call may come any number of times. Its copies go one after the other, and each finds what the one before it has done: a sidecar that is told that
 * nothing was taken uses the units of the call for something else, so no other copy may be about to take them. `arrivedAtMs`: when the call came, on
 * the monotonic clock.
 */
export async function settle(
  deps: Pick<Deps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'turns'>,
  accountId: AccountId,
  call: ArrivedSettlement,
  arrivedAtMs: number = deps.clock.monotonic(),
): Promise<SettlementOutcome> {
  try {
    return await deps.turns(accountId, () =>
      deps.sql.begin(async (tx): Promise<SettlementOutcome> => {
        const connection = { sidecarId: call.sidecar_id, connectionId: call.connection_id, accountId };
        const sender = await readConnectionStanding(tx, connection);
        if (sender !== 'newest') return { kind: sender === 'unknown' ? 'reconnect' : sender };
        await lockCall(tx, accountId, call);
        refuseStale(deps.clock.monotonic() - arrivedAtMs);
        return settleCall(tx, deps, call, { accountId, nowMs: deps.clock.now() });
      }),
    );
  } catch (error) {
    if (error instanceof NothingSettled) return error.answer;
    throw error;
  }
}

/** A number that nothing else in the database uses: sets these locks apart from others that are made of a hash. */
const callSeed = 5_302_118;

/**
 * By the id that the sidecar made for what it decided; a look-up changes nothing, and its copies need no order. A call that waits as long as a request
 * may has nobody to answer any more: it gets `overloaded`, which says nothing of the call, so that the copies of a slow one do not take up all connections.
 *
 * A permit has its key besides, from before it claims it. Whoever looks that up waits for the outcome: without it a request would be refused for good by the
 * limit whose last unit its own copy, at another sidecar, is just using.
 */
async function lockCall(tx: Transaction, accountId: AccountId, call: ArrivedSettlement): Promise<void> {
  const id = call.kind === 'permit' ? call.shipped.record.id : call.approval_id;
  const key = keyOf(call, accountId);
  if (call.kind === 'look_up' && key === null) return;
  try {
    await Promise.all([
      tx`SELECT set_config('lock_timeout', ${String(limits.quotaWaitMsMax)}, true)`,
      call.kind === 'look_up' && key !== null
        ? awaitKey(tx, key)
        : tx`SELECT pg_advisory_xact_lock(hashtextextended(${id}, ${callSeed}))`,
      tx`SET LOCAL lock_timeout TO DEFAULT`,
      call.kind === 'permit' && key !== null && lockKey(tx, key),
    ]);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    throw new ApiError('overloaded', {
      message: 'What this call is about is being worked on. Send it again.',
      cause: error,
    });
  }
}

/**
 * A copy that waited for its turn, for the key of its caller to be read or for a connection, longer than its sidecar waits for an attempt is not begun:
 * it would come true long after others of its kind were told otherwise. Once begun it holds the lock, and the others hear of it.
 */
function refuseStale(waitedMs: number): void {
  if (waitedMs > limits.quotaCallMsMax) {
    throw new ApiError('overloaded', {
      message: 'This call has waited too long to be begun. Send it again.',
    });
  }
}

function settleCall(
  tx: Transaction,
  deps: Pick<Deps, 'random' | 'signingKeys' | 'appending'>,
  call: ArrivedSettlement,
  sender: RecordSender,
): Promise<SettlementAnswer> {
  switch (call.kind) {
    case 'permit':
      return settlePermit(tx, deps, call, sender);
    case 'suspend':
      return settleSuspend(tx, deps, call, sender);
    case 'look_up':
      return lookUp(tx, call, sender);
  }
}
