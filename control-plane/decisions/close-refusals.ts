import type { SidecarId } from '../../shared/model/ids.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import type { DecisionDeps } from './deps.ts';
import { decisionsLimits } from './limits.ts';
import { closeRefused, type RefusedSettlement } from './withdraw-settlements.ts';

/** One settlement of a call, with its answer. */
interface Answered {
  readonly settlement: ArrivedSettlement;
  readonly answer: SettlementAnswer;
}

type Closable = Extract<SettlementAnswer, { readonly is_closed?: boolean }>;

/**
 * Closes refused settlements, so that the sidecar can return its reservation at once (contract §5): without
 * this, a proxy that repeats the call could still make one take effect. Best effort: the sidecar voids the
 * others through its spool. Answers are in the order of the settlements.
 */
export async function closeRefusals(
  deps: Pick<DecisionDeps, 'sql' | 'clock' | 'logger'>,
  sidecarId: SidecarId,
  answered: readonly Answered[],
): Promise<readonly SettlementAnswer[]> {
  const answers = answered.map(({ answer }) => answer);
  const refused = answered.map(refusalOf);
  const closing = refused.filter((each) => each !== null);
  if (closing.length === 0) return answers;
  try {
    const closed = await deps.sql.begin(async (tx) => {
      await boundWaits(tx, { lockMsMax: decisionsLimits.closeWaitMsMax });
      return closeRefused(tx, sidecarId, closing, deps.clock.now());
    });
    return answers.map((answer, place) => {
      const each = refused[place];
      return each && closed.has(each.id) ? ({ ...answer, is_closed: true } as Closable) : answer;
    });
  } catch (error) {
    deps.logger.debug({ err: error }, 'refused settlements could not be closed: their sidecar voids them');
    return answers;
  }
}

/** Null: it may be in effect, or nothing was reserved for it. */
function refusalOf({ settlement, answer }: Answered): RefusedSettlement | null {
  if (settlement.kind !== 'permit' && settlement.kind !== 'suspend') return null;
  const id = settlement.kind === 'permit' ? settlement.shipped.record.id : settlement.approval_id;
  switch (answer.kind) {
    case 'conflict':
    case 'approval':
    case 'blocked':
      return { id, readerId: settlement.reader_id };
    // Otherwise the units it names may not belong to its sidecar, which then has nothing to return.
    case 'refused':
      return answer.is_passing === true ? { id, readerId: settlement.reader_id } : null;
    // A permit's key keeps other deliveries from taking effect; a suspend claims no key.
    case 'replayed':
      return settlement.kind === 'suspend' ? { id, readerId: null } : null;
    default:
      return null;
  }
}
