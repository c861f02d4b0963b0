import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import type { WebhookDeps } from './deps.ts';
import { emitTo, findSubscribers, type NewEvent } from './emit-events.ts';

/**
 * A decision whose record goes into its chain in this transaction, with those who may read the record: the
 * same are notified of it.
 */
interface ReadableRecord {
  readonly attestation: AttestationRecord;
  readonly reader: Owner;
  readonly otherReader: Owner | null;
}

/**
 * `passport.verified` for each PERMIT and `passport.denied` for each BLOCK (contract §14), for a whole batch
 * at once. Gate tests cause none, and neither does a record that resolves or voids another: an approval has
 * events of its own. Without subscribers it costs one look-up per batch.
 */
export async function emitDecisions(
  tx: Transaction,
  deps: Pick<WebhookDeps, 'random'>,
  records: readonly ReadableRecord[],
): Promise<void> {
  const told = records.filter(
    ({ attestation: { test, decision, resolution } }) =>
      !test && decision !== 'SUSPEND' && resolution === null,
  );
  const subscribers = await findSubscribers(tx, {
    // Most records of a batch share the objects of their readers.
    owners: [...new Set(told.flatMap(readersOf))],
    events: ['passport.verified', 'passport.denied'],
  });
  if (subscribers === null) return;
  const agents = await findAgents(
    tx,
    told.map(({ attestation }) => attestation.passportId),
  );
  await emitTo(
    tx,
    deps,
    subscribers,
    told.map((each) => decisionEvent(each, agents)),
  );
}

const readersOf = ({ reader, otherReader }: ReadableRecord): readonly Owner[] =>
  otherReader === null ? [reader] : [reader, otherReader];

function decisionEvent(each: ReadableRecord, agents: ReadonlyMap<PassportId, string>): NewEvent {
  const { attestation } = each;
  const { passportId } = attestation;
  const isPermit = attestation.decision === 'PERMIT';
  return {
    event: isPermit ? 'passport.verified' : 'passport.denied',
    to: readersOf(each),
    data: {
      passport_id: passportId,
      // Null for a passport without a row as well: the records are worth more than a name in a message about
      // them.
      agent_id: passportId === null ? null : (agents.get(passportId) ?? null),
      gate_id: attestation.gateId,
      // In the lower-case words of the gate test (contract §14).
      decision: isPermit ? 'allow' : 'block',
      reason: attestation.reason,
      attestation_id: attestation.id,
    },
    timestampMs: attestation.timestampMs,
  };
}

async function findAgents(
  tx: Transaction,
  passportIds: readonly (PassportId | null)[],
): Promise<ReadonlyMap<PassportId, string>> {
  const ids = [...new Set(passportIds.filter((id) => id !== null))];
  const rows = await tx<{ passportId: PassportId; agentId: string }[]>`
    SELECT passport_id AS "passportId", agent_id AS "agentId" FROM passports WHERE passport_id = ANY(${ids}::text[])`;
  return new Map(rows.map(({ passportId, agentId }) => [passportId, agentId]));
}
