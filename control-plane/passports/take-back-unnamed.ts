import { globalFeed } from '../../shared/wire/sync/sync.ts';
import { appendAuditEntry } from '../audit/append-entry.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { putUnnamedEnd, type UnnamedEnd } from './unnamed-end-store.ts';

/** Ends once more what only its digest is known of (contract §17). */
export const takeBackUnnamed = (deps: SigningDeps, caller: Caller, end: UnnamedEnd): Promise<void> =>
  changeTransaction(deps, async (tx, change) => {
    const { digest, standing, expiredByDay } = end;
    await putUnnamedEnd(tx, end);
    await change(globalFeed, {
      kind: 'passport.standing',
      body: { passport: digest, standing, expired_by_day: expiredByDay },
    });
    const after = { digest, status: standing };
    await appendAuditEntry(tx, deps, caller, {
      operation: 'recoverHistory',
      target: digest,
      before: null,
      after,
    });
  });
