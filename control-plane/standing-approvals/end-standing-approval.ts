import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { StandingApprovalId } from '../../shared/model/ids.ts';
import {
  type CountedStandingApproval,
  renderStandingApproval,
} from '../../shared/wire/api/standing-approval.ts';
import {
  countStandingApprovals,
  findStandingApproval,
  writeEnd,
} from '../approvals/standing-approval-store.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import { lockGate } from '../gates/gate-store.ts';
import { putGate } from '../gates/put-gate.ts';
import type { Caller } from '../http/caller.ts';

/**
 * Ends a standing approval at once: sidecars permit nothing by it from the push on. One that has ended
 * already is answered as it is. What was permitted stays permitted.
 */
export async function endStandingApproval(
  deps: AppendingDeps,
  caller: Caller,
  id: StandingApprovalId,
): Promise<CountedStandingApproval> {
  await administer(deps, caller, async (tx, change) => {
    const known = await findStandingApproval(tx, caller, id);
    if (known === null) throw new ApiError('approval_not_found');
    const gate = await lockGate(tx, caller, known.gateId);
    const nowMs = deps.clock.now();
    const isEnded = gate !== null && (await writeEnd(tx, id, { endedAtMs: nowMs, endedBy: caller.actor.id }));
    if (!isEnded) return { result: null, audited: null };
    await putGate(tx, change, gate, nowMs);
    const ended = must(await findStandingApproval(tx, caller, id), 'it was there a moment ago');
    const [before, after] = await countStandingApprovals(tx, [known, ended], nowMs);
    return {
      result: null,
      audited: {
        operation: 'endStandingApproval',
        target: id,
        before: renderStandingApproval(must(before, 'each row is counted')),
        after: renderStandingApproval(must(after, 'each row is counted')),
      },
    };
  });
  return readStandingApproval(deps, caller, id);
}

/** Throws `approval_not_found`. */
export async function readStandingApproval(
  { sql, clock }: Pick<AppendingDeps, 'sql' | 'clock'>,
  caller: Caller,
  id: StandingApprovalId,
): Promise<CountedStandingApproval> {
  const row = await findStandingApproval(sql, caller, id);
  if (row === null) throw new ApiError('approval_not_found');
  const [counted] = await countStandingApprovals(sql, [row], clock.now());
  return must(counted, 'each row is counted');
}
