import type { Gate } from '../../shared/model/gate.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { historyOf } from '../history/history.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { lockGate } from './gate-store.ts';
import { findUnkeptGates, keepPolicy } from './policy-store.ts';
import { putGate } from './put-gate.ts';

/** A look for gates reads all of them. */
const lookEveryMs = 5 * minuteMs;
/** Each is a change in the feed of its account, which the changes of its administrators wait for. */
const gatesPerRoundMax = 20;
const betweenRoundsMs = 100;

/**
 * Keeps the policies of gates that a replica of the version before, or a recovery, has published, and
 * publishes these gates once more with the hash. Until then their records have no `policy_hash`. Never
 * throws.
 */
export function startKeepingPolicies(deps: SigningDeps): Repetition {
  const { sql, logger } = deps;
  return repeat(async (state) => {
    if (historyOf(sql).isRegressed) return lookEveryMs;
    try {
      const gates = await findUnkeptGates(sql, gatesPerRoundMax);
      for (const gate of gates) if (!state.isStopped) await keepPolicyOf(deps, gate);
      return gates.length < gatesPerRoundMax ? lookEveryMs : betweenRoundsMs;
    } catch (error) {
      logger.warn({ err: error }, 'policies of gates could not be kept, which is tried again');
      return lookEveryMs;
    }
  });
}

/** Nothing if the gate is gone, or another replica was quicker. */
export async function keepPolicyOf(
  deps: SigningDeps,
  { gateId, ...owner }: Pick<Gate, 'gateId' | 'accountId' | 'mode'>,
): Promise<void> {
  await changeTransaction(deps, async (tx, change) => {
    const gate = await lockGate(tx, owner, gateId);
    if (gate === null || gate.policyHash !== null) return;
    const policyHash = await keepPolicy(tx, deps, gate);
    await putGate(tx, change, { ...gate, policyHash }, deps.clock.now());
  });
}
