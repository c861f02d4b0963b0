import { must } from '../../shared/errors/assert.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  type Malformed,
  parseBatchItem,
  type ShippedBatch,
  type ShippedRecord,
  type ShippedSettlementVoid,
  type ShippedVoid,
} from '../../shared/wire/spooled-record.ts';
import type { RefusedRecord, ShipAnswer } from '../../shared/wire/sync.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { freeUnits } from '../quota/hold.ts';
import { readConnectionStatus } from '../sync/sidecar-store.ts';
import { appendRecords, type NewRecord } from './append-records.ts';
import type { AppendingDeps } from './deps.ts';
import { type EndOutcome, endEpoch } from './end-epoch.ts';
import { judgeRecords, type RecordSender } from './judge-records.ts';
import { attestationsLimits } from './limits.ts';

/** An element of a batch with its place in the epoch. */
type NumberedItem = (ShippedRecord | ShippedSettlementVoid | ShippedVoid | Malformed) & {
  readonly seq: number;
};
type NumberedRecord = Extract<NumberedItem, { kind: 'record' }>;

export interface IngestedBatch {
  readonly answer: ShipAnswer;
  /** Records that went into their chains just now. */
  readonly appended: number;
  /** Numbers that the sidecar gave up in what was new of the batch. */
  readonly voided: readonly (ShippedVoid & { readonly seq: number })[];
  /** What became of the epoch's leases, where the batch ended it. */
  readonly end: EndOutcome | null;
}

/**
 * What the voids of a batch bring about: records that go into their chains with the others, then units that
 * go back.
 */
export type VoidSettlements = (
  tx: Transaction,
  voids: readonly ShippedSettlementVoid[],
  by: { readonly source: SidecarId; readonly sourceAccount: AccountId; readonly nowMs: UnixMillis },
) => Promise<{ readonly records: readonly NewRecord[]; readonly units: readonly HeldUnits[] }>;

type TakenBatch = Omit<IngestedBatch, 'end'>;

type IngestDeps = Pick<AppendingDeps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending'> & {
  /** Of a room above this one: handed in by whoever builds the routes. */
  readonly voidSettlements: VoidSettlements;
};

/**
 * Takes the records of a batch exactly once (contract §9), all or none, in one transaction:
 *
 *   1. The sender must be the newest connection of its sidecar id. It is read without a lock, because a lock
 *      would hold up the sidecar's acknowledgements of revocations; a batch that passes just before another
 *      process connects counts as having come before.
 *   2. The row of the epoch is locked: two senders of one epoch, and a batch and its repetition, go one after
 *      the other from here on. It says up to which number everything was taken. What is not above it was
 *      delivered before: it is passed over, unread.
 *   3. Every new record is checked; one that may not be taken refuses the batch, and so does a hole before
 *      it. One that a settlement has put into its chain already is passed over.
 *   4. Records are appended to their chains (see appendRecords), and the row of the epoch moves to the last
 *      number.
 *   5. The commit makes both true at once. A crash before it: nothing happened, the sidecar sends again. A
 *      crash after it, or an answer that gets lost: the sidecar sends again, and step 2 finds that all of it
 *      is delivered.
 *   6. A batch may end the epoch: in a second transaction, what its holders were leased and no record took
 *      goes back (see endEpoch). A crash before its commit: the sidecar sends again, and the end is still
 *      due.
 *
 * So the number of the epoch and the chains never disagree, and whatever a network does to the messages, a
 * record is appended once.
 */
export async function ingestBatch(
  deps: IngestDeps,
  accountId: AccountId,
  batch: ShippedBatch,
): Promise<IngestedBatch> {
  const items = numberItems(batch, accountId);
  const nextSeq = nextSeqOf(batch.firstSeq, items);
  const take = async (tx: Transaction): Promise<TakenBatch> => {
    const sender = await readConnectionStatus(tx, { ...batch, accountId });
    if (sender !== 'newest') throw new BatchRejected({ kind: sender === 'unknown' ? 'reconnect' : sender });
    const lastSeq = await lockEpoch(tx, batch);
    if (batch.firstSeq > lastSeq + 1) throw new BatchRejected({ kind: 'gap', expectedSeq: lastSeq + 1 });
    const fresh = items.filter(({ seq }) => seq > lastSeq);
    const nowMs = deps.clock.now();
    const { accepted, refused } = await checkRecords(tx, { accountId, nowMs }, fresh);
    if (refused.length > 0) throw new BatchRejected({ kind: 'refused', refused });
    const by = { source: batch.sidecarId, sourceAccount: accountId, nowMs };
    const undone = await deps.voidSettlements(tx, fresh.filter(isSettlementVoid), by);
    await appendRecords(tx, deps, [...accepted, ...undone.records]);
    // Voids may reach over what was taken before; the number never goes back.
    if (nextSeq - 1 > lastSeq)
      await moveEpoch(tx, batch, { lastSeq: nextSeq - 1, isWhole: fresh.every(namesUnits) });
    if (undone.units.length > 0) await freeUnits(tx, undone.units, nowMs);
    const answer: ShipAnswer = { kind: 'taken', nextSeq: Math.max(nextSeq, lastSeq + 1) };
    return { answer, appended: accepted.length, voided: fresh.filter((item) => item.kind === 'void') };
  };
  try {
    const taken = await deps.sql.begin(take);
    if (batch.end === null) return { ...taken, end: null };
    // An end before what was taken is that of another state of the folder, in which more may be missing:
    // then `lastSeq` is not that of the row.
    const ended = { ...batch, lastSeq: nextSeq - 1, nothingLost: batch.end.nothingLost };
    return { ...taken, end: await endEpoch(deps.sql, ended, deps.clock.now()) };
  } catch (error) {
    if (!(error instanceof BatchRejected)) throw error;
    return { answer: error.answer, appended: 0, voided: [], end: null };
  }
}

/**
 * Thrown to roll back and return `answer`, so that a batch which is not taken leaves no row; control flow,
 * not a failure.
 */
class BatchRejected extends Error {
  override readonly name = 'NothingTaken';
  readonly answer: ShipAnswer;

  constructor(answer: ShipAnswer) {
    super('nothing of this batch was taken');
    this.answer = answer;
  }
}

/** It is a record or a void, and says what it took from leases. */
const namesUnits = (item: NumberedItem): boolean =>
  (item.kind === 'record' || item.kind === 'settlement_void') && item.took !== null;

const isSettlementVoid = (item: NumberedItem): item is NumberedItem & ShippedSettlementVoid =>
  item.kind === 'settlement_void';

function numberItems({ sidecarId, firstSeq, items }: ShippedBatch, accountId: AccountId): NumberedItem[] {
  let next = firstSeq;
  return items.map((value) => {
    const item = parseBatchItem(value, { sidecarId, accountId });
    // A void run is numbered by its last, which tells whether any of it is new.
    next += item.kind === 'void' ? item.count : 1;
    return { ...item, seq: next - 1 };
  });
}

const nextSeqOf = (firstSeq: number, items: readonly NumberedItem[]): number =>
  (items.at(-1)?.seq ?? firstSeq - 1) + 1;

/**
 * The last number that was taken of this epoch; 0 for a new one. A sidecar ships older epochs first, so once
 * it has begun several newer ones an old row says nothing more, and goes.
 */
async function lockEpoch(tx: Transaction, { sidecarId, epoch }: ShippedBatch): Promise<number> {
  const begun = await tx`
    INSERT INTO sidecar_epochs (sidecar_id, epoch, last_seq) VALUES (${sidecarId}, ${epoch}, 0)
    ON CONFLICT (sidecar_id, epoch) DO NOTHING`;
  const [row] = await tx<{ last_seq: number }[]>`
    SELECT last_seq FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch} FOR UPDATE`;
  if (begun.count > 0) {
    await tx`
      DELETE FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND place <= (
        SELECT place FROM sidecar_epochs WHERE sidecar_id = ${sidecarId}
        ORDER BY place DESC OFFSET ${attestationsLimits.epochsPerSidecarMax} LIMIT 1)`;
  }
  return must(row, 'the row was just put there').last_seq;
}

async function moveEpoch(
  tx: Transaction,
  { sidecarId, epoch }: ShippedBatch,
  to: { readonly lastSeq: number; readonly isWhole: boolean },
): Promise<void> {
  await tx`
    UPDATE sidecar_epochs SET last_seq = ${to.lastSeq}, is_whole = is_whole AND ${to.isWhole}
    WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch}`;
}

interface CheckedRecords {
  readonly accepted: readonly NewRecord[];
  readonly refused: readonly RefusedRecord[];
}

/** What is stored already is neither: a second copy is passed over in silence (contract §5). */
async function checkRecords(
  tx: Transaction,
  sender: RecordSender,
  items: readonly NumberedItem[],
): Promise<CheckedRecords> {
  const records = items.filter((item): item is NumberedRecord => item.kind === 'record');
  const verdicts = await judgeRecords(tx, sender, records);
  const refused = items.flatMap((item) =>
    item.kind === 'malformed' ? [{ seq: item.seq, message: item.message }] : [],
  );
  const accepted: NewRecord[] = [];
  verdicts.forEach((verdict, index) => {
    const { seq } = must(records[index], 'each verdict is about a record');
    if (verdict.kind === 'new') accepted.push(verdict.record);
    if (verdict.kind === 'refused') refused.push({ seq, message: verdict.message });
  });
  return { accepted, refused: refused.sort((one, other) => one.seq - other.seq) };
}
