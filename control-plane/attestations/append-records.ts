/**
 * Room `control-plane/attestations`: records: the only way into the store is here. `ingest-batch.ts` takes
 * batches of sidecars, `ingest-queue.ts` links and signs ahead, `find-contradiction.ts` refuses what the
 * database contradicts; `list-attestations.ts` and `export-attestations.ts` read.
 */

import type { DrawnWindows } from '../../shared/decision/windows-of.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, InvariantError, must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { ShippedFact } from '../../shared/wire/evidence/fact.ts';
import type { Transaction } from '../base/database.ts';
import type { UnitsSource } from '../book/held-units.ts';
import type { Posting } from '../book/post.ts';
import { chainGoesOnElsewhere } from '../history/history.ts';
import type { WalletPath } from '../quota/wallet-paths.ts';
import { together } from '../storage/together.ts';
import { lockChainHeads, moveChainHeads } from './chain-store.ts';
import type { AppendedRecord, AppendingDeps, Projection } from './deps.ts';
import { earliestOf, uuidOfId } from './id-uuid.ts';
import { insertAttestations, type NewAttestation, namesOf } from './insert-attestations.ts';
import { isLinkedTo, type LinkedRecords, linkRecords } from './link-records.ts';
import { findNumbers, numberNames, type RecordNames } from './record-names.ts';

/** A decision to be appended to its chain. */
export interface NewRecord {
  readonly record: AttestationRecord;
  /** Owner of the passport; null if no passport verified. */
  readonly passportOwner: Owner | null;
  /** Owner of the gate, or of the requesting key if the request named no gate. */
  readonly gateOwner: Owner;
  /**
   * Sidecar leases that the decision took from; null: not stated. Absent for the control plane's decisions,
   * which use no lease.
   */
  readonly took?: readonly number[] | null;
  /** If a sidecar decided (Take). */
  readonly ownWindows?: DrawnWindows | undefined;
  /**
   * A sidecar's PERMIT without the approval that the passport asks for: it must have taken from a standing
   * one.
   */
  readonly needsApproval?: boolean;
  /** Where a PERMIT took its money, as the ledger has it. Absent: nowhere. */
  readonly moneyFrom?: readonly UnitsSource[];
  /** Money that moves with a record that says what became of a PERMIT. Absent: none. */
  readonly postings?: readonly Posting[];
  /** The passport's wallets now, if a sidecar decided; absent: it is and was in none. */
  readonly walletPath?: WalletPath | undefined;
  /** What opens commitments of the record, to be kept beside it. Absent: nothing. */
  readonly facts?: readonly ShippedFact[];
}

/** The same records, linked and signed before the chains were locked. */
interface RecordDraft {
  readonly links: LinkedRecords;
  /** The chains are locked from here to the end of the transaction. */
  readonly onLocked: () => void;
  /** The chains had moved: the records are linked and signed again. */
  readonly onStale: () => void;
}

/**
 * Appends records to their chains: links, signs, stores and counts them in the order given, within the
 * caller's transaction. The only way into the attestation store. The caller has checked that the records are
 * valid and not stored yet.
 *
 * The steps, and what a crash or a broken connection leaves behind:
 *   1. The heads of all chains are locked. From here to the commit no other transaction adds to them, on any
 *      replica.
 *   2. Records are linked and signed in memory, unless `draft` has that and the heads are those that it
 *      follows. A signature that is never published has no effect.
 *   3. Records and heads are written, then what hangs on them (`projections`: events for webhooks, counters).
 *      Until the commit none of them is visible, and a crash undoes all.
 *   4. The caller commits: everything is there at once. Where the outcome of the commit is unknown, the
 *      caller must find out by the record's id or the epoch's sequence number before it appends the same
 *      again; the unique id is the last line of defence.
 *
 * Hot rows come last and in the order of ids, so that they are locked briefly and cannot deadlock.
 *
 * Resolves to the new heads of the chains. Throws `service_unavailable` for a chain that goes on elsewhere
 * (contract §17).
 *
 * After a broken invariant of a chain this process appends nothing until a restart, because a signature
 * cannot be revoked. From then on it throws `service_unavailable`, and `/readyz` reports it.
 */
export async function appendRecords(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'signingKeys' | 'appending'>,
  records: readonly NewRecord[],
  draft: RecordDraft | null = null,
  locked: LockedChains | null = null,
): Promise<LinkedRecords['after']> {
  if (deps.appending.isStopped) {
    throw new ApiError('service_unavailable', {
      message: 'No records are accepted until this program is restarted: a chain was inconsistent.',
    });
  }
  if (records.length === 0) return new Map();
  const { linked, heads, store, projections } = await onChains(deps, () =>
    putInPlace(tx, deps, records, { draft, locked }),
  );
  const appended = linked.map((each, place): AppendedRecord => {
    const { attestation, chain, latestMs, reader, otherReader, moneyFrom, facts } = each;
    const took = records[place]?.took ?? [];
    const isInWallet = records[place]?.record.walletId != null;
    const postings = records[place]?.postings ?? [];
    const counts = countsForPassport(each);
    const money = { moneyFrom, isInWallet, postings };
    return { attestation, chain, latestMs, reader, otherReader, facts, counts, took, ...money };
  });
  // Each sends its first statements before it waits, so they share a round trip and run in this order.
  await together([
    () => store(tx),
    () => moveChainHeads(tx, heads),
    ...projections.map((project) => () => project(tx, deps, appended)),
  ]);
  return heads;
}

/**
 * A record counts if its gate is known, or if it comes from the passport's own account (contract §9). Another
 * account's record without a gate is stored and counts nowhere.
 */
const countsForPassport = ({ attestation, reader }: NewAttestation): boolean =>
  attestation.gateId !== null || attestation.sourceAccount === reader.accountId;

type Readers = Pick<NewAttestation, 'reader' | 'otherReader'>;

/** Chains, locked from here to the end of the transaction. */
export interface LockedChains {
  readonly heads: Awaited<ReturnType<typeof lockChainHeads>>;
  /** Known numbers of names that records repeat. */
  readonly numbers: RecordNames;
  readonly projections: readonly Projection[];
}

interface Ahead {
  readonly draft: RecordDraft | null;
  readonly locked: LockedChains | null;
}

interface RecordsInPlace {
  readonly linked: readonly NewAttestation[];
  /** The new heads of their chains. */
  readonly heads: LinkedRecords['after'];
  /** Stores the records. */
  readonly store: ReturnType<typeof insertAttestations>;
  readonly projections: readonly Projection[];
}

/**
 * A broken invariant in here is one of chains, and stops all appending. What else hangs on a record fails its
 * own transaction alone.
 */
async function onChains<Result>(
  { appending }: Pick<AppendingDeps, 'appending'>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof InvariantError) appending.isStopped = true;
    throw error;
  }
}

async function putInPlace(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'signingKeys' | 'appending'>,
  records: readonly NewRecord[],
  { draft, locked }: Ahead,
): Promise<RecordsInPlace> {
  const key = deps.signingKeys.current('attestation');
  const readers = records.map(readersOf);
  const names = namesOf(records, readers, key.kid);
  const { heads, numbers: known, projections } = locked ?? (await lockChains(tx, deps, records));
  draft?.onLocked();
  for (const [chainId, { isAhead }] of heads) if (isAhead) throw chainGoesOnElsewhere(chainId);
  const isTrue = draft !== null && isLinkedTo(draft.links, heads, key);
  if (draft !== null && !isTrue) draft.onStale();
  const links = isTrue
    ? draft.links
    : linkRecords(
        records.map(({ record }) => record),
        heads,
        { key, form: deps.appending.recordForm() },
      );
  assert(links.placed.length === records.length, 'each record has its place in a chain');
  const linked = links.placed.map(({ attestation, latestMs }, place): NewAttestation => {
    assert(attestation.id === records[place]?.record.id, 'what was linked is what is stored');
    const head = must(heads.get(attestation.chainId), 'a chain that was begun has a head');
    const of = must(readers[place], 'each record was linked');
    const moneyFrom = records[place]?.moneyFrom ?? nowhere;
    const facts = records[place]?.facts ?? noFacts;
    return { attestation, chain: head.number, latestMs, moneyFrom, facts, ...of };
  });
  const numbers = await numberNames(tx, names, known);
  if ([...heads.values()].some(({ isMonthTurning }) => isMonthTurning)) await refuseRepeated(tx, records);
  const store = insertAttestations(linked, { signatures: await links.signatures, numbers });
  return { linked, heads: links.after, store, projections };
}

const nowhere: readonly UnitsSource[] = Object.freeze([]);
const noFacts: readonly ShippedFact[] = Object.freeze([]);

/** A record was stored since it was looked for. As the unique id of a partition says it, for all of them. */
export class RepeatedRecord extends Error {
  override readonly name = 'RepeatedRecord';
}

/**
 * Ids are unique within a month. A record that another transaction stored in the last moments of the month
 * before is found here, because both are in one chain, which is locked by now.
 */
async function refuseRepeated(tx: Transaction, records: readonly NewRecord[]): Promise<void> {
  const ids = records.map(({ record }) => record.id);
  const repeated = await tx`
    SELECT FROM records WHERE attestation_id = ANY(${ids.map(uuidOfId)}::uuid[])
      AND position >= records_from(${earliestOf(ids)}) LIMIT 1`;
  if (repeated.count > 0) throw new RepeatedRecord('a record with one of these ids is stored already');
}

/**
 * Locks the chains of these records and reads the names they need, for a caller that sends other statements
 * along and then appends these records, or some of them, in the same transaction.
 */
export async function lockChains(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'signingKeys' | 'appending'>,
  records: readonly NewRecord[],
): Promise<LockedChains> {
  const { signingKeys, appending } = deps;
  // Sent together: names are only read here.
  const [[heads, numbers], projections] = await together([
    () =>
      onChains(deps, () => {
        const names = namesOf(records, records.map(readersOf), signingKeys.current('attestation').kid);
        const owners = new Map(records.map((each) => [each.record.chainId, chainOwner(each)]));
        return together([() => lockChainHeads(tx, owners), () => findNumbers(tx, names)]);
      }),
    () => prepare(tx, appending.projections, records),
  ]);
  return { heads, numbers, projections };
}

/** In the order of the records. */
const prepare = (
  tx: Transaction,
  projections: AppendingDeps['appending']['projections'],
  records: readonly NewRecord[],
): Promise<readonly Projection[]> => {
  const appended = records.map(({ record }) => record);
  return together(
    projections.map((each) => async () => (typeof each === 'function' ? each : each.prepare(tx, appended))),
  );
};

/**
 * Readers of the record (contract §9): the owners of its passport and of its gate. Without a gate, the
 * requesting account reads it only if no passport verified: otherwise it belongs to the passport's owner.
 */
function readersOf({ record, passportOwner, gateOwner }: NewRecord): Readers {
  if (passportOwner === null) return { reader: gateOwner, otherReader: null };
  const isOther = gateOwner.accountId !== passportOwner.accountId || gateOwner.mode !== passportOwner.mode;
  return { reader: passportOwner, otherReader: record.gateId !== null && isOther ? gateOwner : null };
}

/**
 * Who may export the chain: the owner of its passport or gate. An account's chain holds records of both modes
 * and is exported with live keys; each of its records is readable by keys of the mode that asked.
 */
function chainOwner({ record, passportOwner, gateOwner }: NewRecord): Owner {
  if (passportOwner !== null) return passportOwner;
  return record.gateId !== null ? gateOwner : { accountId: gateOwner.accountId, mode: 'live' };
}
