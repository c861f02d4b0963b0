import { assert, must } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  isSharedParts,
  type Malformed,
  parseBatchItem,
  type ReadParts,
  readSharedParts,
  type ShippedBatch,
  type ShippedOutcome,
  type ShippedRecord,
  type ShippedSettlementVoid,
  type ShippedVoid,
} from '../../shared/wire/sync/attestation-batch.ts';
import type { RefusedRecord, ShipAnswer } from '../../shared/wire/sync/sync.ts';
import type { Database, Transaction } from '../base/database.ts';
import { type Book, keepBook } from '../book/post.ts';
import { nameSubjects } from '../federation/see-passports.ts';
import { historyOf } from '../history/history.ts';
import { chainReceipts } from '../history/receipts.ts';
import {
  drawsOnOwn,
  type HeldLeases,
  holdLeases,
  judgeTakes,
  moneyLeases,
  type Take,
} from '../quota/judge-takes.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { distinct } from '../storage/distinct.ts';
import { beginReading, together } from '../storage/together.ts';
import { isUniqueViolation } from '../storage/unique-violation.ts';
import { readConnectionStatus } from '../sync/sidecar-store.ts';
import { appendRecords, type NewRecord, RepeatedRecord } from './append-records.ts';
import { readChainTips } from './chain-store.ts';
import type { AppendingDeps } from './deps.ts';
import { type EndOutcome, endEpoch } from './end-epoch.ts';
import type { BatchDraft, IngestPlace, IngestQueue } from './ingest-queue.ts';
import { judgeRecords, type RecordSender } from './judge-records.ts';
import { attestationsLimits } from './limits.ts';
import { type ChainTip, linkRecords } from './link-records.ts';

/** An element of a batch with its number in the epoch. */
type NumberedItem = (ShippedRecord | ShippedOutcome | ShippedSettlementVoid | ShippedVoid | Malformed) & {
  readonly seq: number;
};
type NumberedRecord = Extract<NumberedItem, { kind: 'record' }>;

interface NumberedBatch extends Omit<ShippedBatch, 'items'> {
  readonly accountId: AccountId;
  readonly items: readonly NumberedItem[];
  /** Number of the element after the batch. */
  readonly nextSeq: number;
}

export interface IngestedBatch {
  readonly answer: ShipAnswer;
  /** Records appended by this call. */
  readonly appended: number;
  /** Numbers that the sidecar gave up in the new part of the batch. */
  readonly voided: readonly (ShippedVoid & { readonly seq: number })[];
  /** Outcome for the epoch's leases, if the batch ended it. */
  readonly end: EndOutcome | null;
}

/** Effects of a batch's voids: records to append with the others. */
export type VoidSettlements = (
  tx: Transaction,
  book: Book,
  voids: readonly ShippedSettlementVoid[],
  by: { readonly source: SidecarId; readonly sourceAccount: AccountId; readonly nowMs: UnixMillis },
  /** Leases that the records take from, locked together with those of the voids. */
  alsoLock: readonly number[],
) => Promise<readonly NewRecord[]>;

/** Stores the outcomes of a batch, to be applied after it. */
export type TakeOutcomes = (
  tx: Transaction,
  outcomes: readonly ShippedOutcome[],
  by: { readonly source: SidecarId; readonly sourceAccount: AccountId; readonly nowMs: UnixMillis },
) => Promise<void>;

type TakenBatch = Omit<IngestedBatch, 'end'>;

/** What belongs to rooms above this one, so the builder of the routes injects it. */
export interface IngestHooks {
  readonly voidSettlements: VoidSettlements;
  readonly takeOutcomes: TakeOutcomes;
}

type IngestDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'bus' | 'signingKeys' | 'appending' | 'sealer'
> &
  IngestHooks & {
    /** Shared by all batches of this process. Default: link and sign under the locks. */
    readonly ingestQueue?: IngestQueue;
  };

/**
 * Takes the records of a batch exactly once (contract §9), all or none, in one transaction:
 *
 *   0. With `ingestQueue`, before the transaction: what is new of the batch is looked at, linked and signed
 *      as if all batches before it in this process were stored already (`draftBatch`). The result is used in
 *      steps 3 and 4 if it is still true there.
 *   1. The sender must be the newest connection of its sidecar id. It is read without a lock, because a lock
 *      would hold up the sidecar's acknowledgements of revocations; a batch that passes just before another
 *      process connects counts as having come before.
 *   2. The row of the epoch is locked: two senders of one epoch, and a batch and its repetition, go one after
 *      the other from here on. It says up to which number everything was taken. What is not above it was
 *      delivered before: it is passed over, unread.
 *   3. Every new record is checked; an invalid one refuses the batch, and so does a hole before
 *      it. One that a settlement has put into its chain already is passed over. What PERMITs took is looked
 *      up in their leases, which are locked from there on.
 *   4. Records are appended to their chains (see appendRecords), and the row of the epoch moves to the last
 *      number.
 *   5. The commit makes both true at once. A crash before it: nothing happened, the sidecar sends again. A
 *      crash after it, or an answer that gets lost: the sidecar sends again, and step 2 finds that all of it
 *      is delivered.
 *   6. A batch may end the epoch: in a second transaction, units leased to its holders and never recorded
 *      are returned (see endEpoch). A crash before its commit: the sidecar sends again, and the end is still
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
  const numbered = numberItems(batch, accountId);
  const named = numbered.items.flatMap((item) => (item.kind === 'record' ? (item.federated ?? []) : []));
  await nameSubjects(deps, accountId, named);
  const place = deps.ingestQueue?.begin(`${accountId} ${batch.sidecarId} ${batch.epoch}`) ?? null;
  try {
    const draft = place === null ? null : await place.draft(() => draftBatch(deps, numbered, place));
    await place?.untilNext();
    const taken = await takeBatch(deps, numbered, { draft, place });
    if (batch.end === null) return { ...taken, end: null };
    // An end below the stored number comes from another state of the folder, in which more may be missing;
    // then `lastSeq` differs from the row's.
    const ended = { ...batch, lastSeq: numbered.nextSeq - 1, nothingLost: batch.end.nothingLost };
    return { ...taken, end: await endEpoch(deps.sql, ended, deps.clock.now()) };
  } catch (error) {
    if (!(error instanceof BatchRejected)) throw error;
    return { answer: error.answer, appended: 0, voided: [], end: null };
  } finally {
    place?.end();
  }
}

/**
 * Drafts what the batch will append, assuming that all earlier batches of this process are stored as drafted.
 * Null if that is unknown or not worth it: the batch is refused, repeated, or voids settlements.
 */
async function draftBatch(
  { sql, clock, signingKeys, appending }: IngestDeps,
  batch: NumberedBatch,
  place: IngestPlace,
): Promise<BatchDraft | null> {
  const earlier = await draftOf(place.earlier);
  const takenSeq = earlier === null ? await readEpoch(sql, batch) : earlier.nextSeq - 1;
  const fresh = batch.items.filter(({ seq }) => seq > takenSeq);
  if (batch.firstSeq > takenSeq + 1 || fresh.length === 0 || fresh.some(isSettlementVoid)) return null;
  const { accepted, refused } = await checkRecords(
    sql,
    { accountId: batch.accountId, nowMs: clock.now() },
    fresh,
  );
  if (refused.length > 0) return null;
  // From here on later batches of these chains follow this one.
  const chainIds = distinct(accepted.map(({ record }) => record.chainId));
  const before = place.follow(chainIds);
  const tips = new Map<ChainId, ChainTip>();
  for (const [chainId, other] of before) {
    const tip = (await draftOf(other))?.links.after.get(chainId);
    if (tip !== undefined) tips.set(chainId, tip);
  }
  const others = await readChainTips(
    sql,
    chainIds.filter((chainId) => !tips.has(chainId)),
  );
  const links = linkRecords(
    accepted.map(({ record }) => record),
    new Map([...others, ...tips]),
    { key: signingKeys.current('attestation'), form: appending.recordForm() },
  );
  return { takenSeq, nextSeq: batch.nextSeq, accepted, links };
}

/** A batch without a draft has to end first; then the database has its result. */
async function draftOf(place: IngestPlace | null): Promise<BatchDraft | null> {
  const draft = (await place?.drafted) ?? null;
  if (draft === null) await place?.ended;
  return draft;
}

async function takeBatch(
  deps: IngestDeps,
  batch: NumberedBatch,
  { draft, place }: { readonly draft: BatchDraft | null; readonly place: IngestPlace | null },
): Promise<TakenBatch> {
  try {
    return await beginReading(deps.sql, (tx) => storeBatch(tx, deps, batch, { draft, place }));
  } catch (error) {
    // A settlement has stored one of the records since the check.
    if (draft === null || !isTakenId(error)) throw error;
    return beginReading(deps.sql, (tx) => storeBatch(tx, deps, batch, { draft: null, place }));
  }
}

async function storeBatch(
  tx: Transaction,
  deps: IngestDeps,
  batch: NumberedBatch,
  ahead: { readonly draft: BatchDraft | null; readonly place: IngestPlace | null },
): Promise<TakenBatch> {
  const { accountId, items, nextSeq } = batch;
  const [, sender, known] = await together([
    () => boundWaits(tx, { lockMsMax: attestationsLimits.ingestLockMsMax }),
    () => readConnectionStatus(tx, batch),
    () => lockKnownEpoch(tx, batch),
  ]);
  if (sender !== 'newest') throw new BatchRejected({ kind: sender === 'unknown' ? 'reconnect' : sender });
  const lastSeq = known ?? (await lockNewEpoch(tx, batch));
  if (batch.firstSeq > lastSeq + 1) throw new BatchRejected({ kind: 'gap', expectedSeq: lastSeq + 1 });
  const fresh = items.filter(({ seq }) => seq > lastSeq);
  const nowMs = deps.clock.now();
  const draft = ahead.draft?.takenSeq === lastSeq ? ahead.draft : null;
  // Later batches of this epoch wait for its row now.
  if (draft === null) ahead.place?.noteLocked();
  const { accepted, refused } = draft
    ? { accepted: draft.accepted, refused: [] }
    : await checkRecords(tx, { accountId, nowMs }, fresh);
  if (refused.length > 0) throw new BatchRejected({ kind: 'refused', refused });
  const by = { source: batch.sidecarId, sourceAccount: accountId, nowMs };
  const taking = accepted.filter(takesUnits).map(takeOf);
  const named = taking.flatMap(({ took }) => took ?? []);
  const heads = await keepBook(tx, nowMs, async (book) => {
    const undone = await deps.voidSettlements(tx, book, fresh.filter(isSettlementVoid), by, named);
    const leases = await holdLeases(tx, taking);
    refuseUntrueTakes(leases, taking, fresh);
    const after = await appendRecords(
      tx,
      deps,
      [...accepted.map((each) => withMoney(each, leases)), ...undone],
      draft && {
        links: draft.links,
        onLocked: () => ahead.place?.noteLocked(),
        onStale: () => deps.ingestQueue?.noteStale(),
      },
    );
    await deps.takeOutcomes(tx, fresh.filter(isOutcome), by);
    // Void runs may overlap stored numbers; the number never decreases.
    if (nextSeq - 1 > lastSeq)
      await moveEpoch(tx, batch, { lastSeq: nextSeq - 1, isWhole: fresh.every(namesUnits) });
    return after;
  });
  const { current: generation } = await historyOf(deps.sql).generations(tx);
  const answer: ShipAnswer = {
    kind: 'taken',
    nextSeq: Math.max(nextSeq, lastSeq + 1),
    receipts: chainReceipts(deps.sealer, { accountId, generation }, heads),
  };
  return { answer, appended: accepted.length, voided: fresh.filter((item) => item.kind === 'void') };
}

type ShippedTake = Take & Pick<NewRecord, 'record'>;

/** A PERMIT that names leases, or must. Most BLOCKs do not. */
const takesUnits = (of: NewRecord): boolean =>
  of.record.decision === 'PERMIT' &&
  (drawsOnOwn(of) || (of.took ?? []).length > 0 || of.needsApproval === true || of.walletPath !== undefined);

const takeOf = (of: NewRecord): ShippedTake => {
  const { record, passportOwner, took = null, ownWindows, needsApproval = false, walletPath } = of;
  return { record, passportOwner, took, ownWindows, walletPath, holder: null, isPaid: false, needsApproval };
};

const withMoney = (of: NewRecord, leases: HeldLeases): NewRecord =>
  takesUnits(of) ? { ...of, moneyFrom: moneyLeases(leases, takeOf(of)) } : of;

/** Units that a void of the same batch returns count as free, because the leases are read after it. */
function refuseUntrueTakes(
  leases: HeldLeases,
  takes: readonly ShippedTake[],
  items: readonly NumberedItem[],
): void {
  const faults = judgeTakes(leases, takes, 'believe');
  if (faults.every((fault) => fault === null)) return;
  const byId = new Map(takes.map(({ record }, place) => [record.id, faults[place] ?? null]));
  const refused = items.flatMap((item) => {
    const message = item.kind === 'record' ? (byId.get(item.record.id) ?? null) : null;
    return message === null ? [] : [{ seq: item.seq, message }];
  });
  throw new BatchRejected({ kind: 'refused', refused });
}

/** The id of a record is taken, in its partition or in another. */
const isTakenId = (error: unknown): boolean =>
  error instanceof RepeatedRecord || isUniqueViolation(error, /^records_(?:before|\d+_\d+)_pkey$/);

/**
 * Thrown to roll back and return `answer`, so that a refused batch leaves no row; control flow, not a
 * failure.
 */
class BatchRejected extends Error {
  override readonly name = 'NothingTaken';
  readonly answer: ShipAnswer;

  constructor(answer: ShipAnswer) {
    super('nothing of this batch was taken');
    this.answer = answer;
  }
}

/** A record or void that names its leases. */
const namesUnits = (item: NumberedItem): boolean =>
  item.kind === 'outcome' ||
  ((item.kind === 'record' || item.kind === 'settlement_void') && item.took !== null);

const isOutcome = (item: NumberedItem): item is NumberedItem & ShippedOutcome => item.kind === 'outcome';

const isSettlementVoid = (item: NumberedItem): item is NumberedItem & ShippedSettlementVoid =>
  item.kind === 'settlement_void';

function numberItems(batch: ShippedBatch, accountId: AccountId): NumberedBatch {
  const source = { sidecarId: batch.sidecarId, accountId };
  const items: NumberedItem[] = [];
  let next = batch.firstSeq;
  let shared: ReadParts | undefined;
  for (const value of batch.items) {
    if (isSharedParts(value)) {
      shared = readSharedParts(value);
      continue;
    }
    const item = parseBatchItem(value, source, shared);
    // A void run has the number of its last element, which shows whether any part is new.
    next += item.kind === 'void' ? item.count : 1;
    items.push(Object.assign(item, { seq: next - 1 }));
  }
  return { ...batch, accountId, items, nextSeq: next };
}

/** Like `lockKnownEpoch`, without the lock. */
async function readEpoch(sql: Database, { sidecarId, epoch }: NumberedBatch): Promise<number> {
  const [row] = await sql<{ last_seq: number }[]>`
    SELECT last_seq FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch}`;
  return row?.last_seq ?? 0;
}

/** The last stored number of this epoch; null for a new one. */
async function lockKnownEpoch(tx: Transaction, { sidecarId, epoch }: NumberedBatch): Promise<number | null> {
  const [known] = await tx<{ last_seq: number }[]>`
    SELECT last_seq FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch} FOR UPDATE`;
  return known?.last_seq ?? null;
}

/**
 * As above, creating the row if needed. A sidecar ships older epochs first, so an old row is useless after
 * several newer ones, and is removed.
 */
async function lockNewEpoch(tx: Transaction, batch: NumberedBatch): Promise<number> {
  const { sidecarId, epoch } = batch;
  const begun = await tx`
    INSERT INTO sidecar_epochs (sidecar_id, epoch, last_seq) VALUES (${sidecarId}, ${epoch}, 0)
    ON CONFLICT (sidecar_id, epoch) DO NOTHING`;
  if (begun.count > 0) {
    await tx`
      DELETE FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND place <= (
        SELECT place FROM sidecar_epochs WHERE sidecar_id = ${sidecarId}
        ORDER BY place DESC OFFSET ${attestationsLimits.epochsPerSidecarMax} LIMIT 1)`;
  }
  return must(await lockKnownEpoch(tx, batch), 'the row was just put there');
}

async function moveEpoch(
  tx: Transaction,
  { sidecarId, epoch }: NumberedBatch,
  to: { readonly lastSeq: number; readonly isWhole: boolean },
): Promise<void> {
  const moved = await tx`
    UPDATE sidecar_epochs SET last_seq = ${to.lastSeq}, is_whole = is_whole AND ${to.isWhole}
    WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch}`;
  assert(moved.count === 1, 'the epoch that is locked has its row');
}

interface CheckedRecords {
  readonly accepted: readonly NewRecord[];
  readonly refused: readonly RefusedRecord[];
}

/** A stored record is neither: a second copy is skipped silently (contract §5). */
async function checkRecords(
  sql: Database | Transaction,
  sender: RecordSender,
  items: readonly NumberedItem[],
): Promise<CheckedRecords> {
  const records = items.filter((item): item is NumberedRecord => item.kind === 'record');
  const verdicts = await judgeRecords(sql, sender, records);
  assert(verdicts.length === records.length, 'each record has its verdict');
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
