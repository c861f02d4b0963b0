import type { SidecarId } from '../../shared/model/ids.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import type { DecisionDeps } from './deps.ts';
import { decisionsLimits } from './limits.ts';
import { closeRefused, type RefusedSettlement } from './withdraw-settlements.ts';

/** A settlement of a call with its answer. */
interface Answered {
  readonly settlement: ArrivedSettlement;
  readonly answer: SettlementAnswer;
}

type Closable = Extract<SettlementAnswer, { readonly is_closed?: boolean }>;

/**
 * Closes settlements that were refused, so that their sidecar can give back at once what it reserved for them
 * (contract §5): what is in between may deliver the call once more. Best effort: what is not closed here the
 * sidecar voids through its spool. Answers are in the order of the settlements.
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
      await tx`SELECT set_config('lock_timeout', ${String(decisionsLimits.closeWaitMsMax)}, true)`;
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

/** Null: it may be true, or nothing was reserved for it. */
function refusalOf({ settlement, answer }: Answered): RefusedSettlement | null {
  if (settlement.kind !== 'permit' && settlement.kind !== 'suspend') return null;
  const id = settlement.kind === 'permit' ? settlement.shipped.record.id : settlement.approval_id;
  switch (answer.kind) {
    case 'conflict':
    case 'approval':
    case 'blocked':
      return { id, readerId: settlement.reader_id };
    // Otherwise the units that it names may not be its sidecar's: then they are nothing to give back.
    case 'refused':
      return answer.is_passing === true ? { id, readerId: settlement.reader_id } : null;
    // The key of a permit keeps other deliveries from coming true; a suspend takes none.
    case 'replayed':
      return settlement.kind === 'suspend' ? { id, readerId: null } : null;
    default:
      return null;
  }
}
