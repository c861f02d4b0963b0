import type { CarriedMembers } from '../../model/attestation.ts';
import type { ServiceOutcome } from '../../model/hold.ts';
import type { AccountId, ApprovalId, AttestationId, SidecarId } from '../../model/ids.ts';
import type { Mode } from '../../model/mode.ts';
import { dayMs, type UnixMillis } from '../../model/time.ts';
import type { ShippedFact } from '../evidence/fact.ts';
import type { Receipt } from './receipt.ts';

/**
 * Messages between the control plane and its sidecars (ARCHITECTURE.md, "The change feed" and
 * "Attestations"). Not a public interface; both programs are of the same release, or of two that follow each
 * other. The version goes up where the other program must not ignore what is new. A release that raises it
 * speaks the one before as well: `npm run upgrade-test` has both sides of either release.
 *
 * version history
 *   1  2026-11  snapshot, changes, heartbeat, attestation batches, gates with the prices of their catalogs
 *   2  2026-11  leases and settlements, records that name the leases they took from, the end of an epoch;
 *               gates with the permissions that need an approval, which a sidecar of version 1 would permit
 *               without one: it is turned away
 *   3  2026-11  gates with the version of their policy, to which approvals are bound; the answer
 *               pending_exceeded of settlements
 *   4  2026-11  digests instead of ids in the global feed, and days instead of moments: a sidecar must not
 *               learn whom other accounts revoke. One of version 3 finds no id in it and is turned away;
 *               settlements in batches, and their voids in the spool
 *   5  2026-11  gates with their routes
 *   6  2026-11  records without the members that many of a batch share (SharedParts)
 *   7  2026-11  such records without the names of their members (RecordRow)
 */
export const syncVersion = 7;

/**
 * Header of each call of a sidecar: its version. Of each call, because behind a balancer another control
 * plane may answer than the one that it connected to. Without it: 7, as of 0.2.0.
 */
export const syncVersionHeader = 'x-agent-trust-sync-version';
const unstatedSyncVersion = '7';

/** Whether this release speaks the version of that header. */
export const speaksSyncVersion = (text: string | readonly string[] | undefined): boolean =>
  (text ?? unstatedSyncVersion) === String(syncVersion);

/** The code of the refusal of a version. It is answered before anything is done. */
export const syncVersionUnsupported = 'sync_version_unsupported';

const sidecarAgent = /^agent-trust-sidecar\/([0-9A-Za-z.+-]{1,64})$/;

/** The `User-Agent` of a sidecar. A header, because older control planes ignore it. */
export const renderSidecarAgent = (version: string): string => `agent-trust-sidecar/${version}`;

/** The version of the sidecar; null if not stated. */
export const parseSidecarAgent = (text: string | undefined): string | null =>
  sidecarAgent.exec(text ?? '')?.[1] ?? null;

/**
 * The global feed carries digests instead of ids (contract §11); an account's feed carries its gates and its
 * callers' keys.
 */
export const globalFeed = 'global';
export type FeedId = typeof globalFeed | AccountId;

/** Bus channel of a feed: entries and heartbeats. */
export const feedChannel = (feedId: FeedId): string => `agent-trust:feed:${feedId}`;

/** The `expired_by_day` of a passport. */
export const expiredByDay = (expiresAtMs: UnixMillis | null): number | null =>
  expiresAtMs === null ? null : Math.ceil(expiresAtMs / dayMs);

/** A position in a feed. */
export interface FeedPosition {
  /** 0: nothing has changed yet. */
  readonly revision: number;
  /** The signature of the entry there, which identifies the history; empty at 0. */
  readonly mark: string;
}

/** The positions in both feeds of a sidecar. */
export interface Position {
  readonly account: FeedPosition;
  readonly global: FeedPosition;
}

/**
 * Bus channel on which a control-plane replica notifies the others that a sidecar has acknowledged. Without
 * content: waiting revocations query the database.
 */
export const ackChannel = 'agent-trust:ack';

/**
 * A decision as a sidecar spools and ships it; model/attestation.ts has the meaning of its members. It lacks
 * `test` and `resolution`, because a sidecar answers neither gate tests nor approvals, and `source`, which is
 * the sidecar. It cannot write to the chain of another account: `chain_id` is the passport if one verified,
 * else the gate, else the account (contract §9). A token whose signing key is unknown or compromised did not
 * verify: `passport_id` is null.
 */
export interface SpooledRecord {
  readonly id: string;
  readonly chain_id: string;
  readonly passport_id: string | null;
  readonly gate_id: string | null;
  /** PERMIT or BLOCK; only a BLOCK has a reason. */
  readonly decision: string;
  readonly reason: string | null;
  readonly request_hash: string;
  readonly permission_key: string | null;
  readonly amount_micro_usd: number | null;
  readonly constraints_evaluated: readonly string[];
  readonly pii: readonly { readonly pointer: string; readonly type: string }[];
  readonly timestamp_ms: number;
  /**
   * Hex SHA-256 of the passport's token, null if no passport verified. It proves that this sidecar has seen
   * the token, a bearer credential that is neither spooled nor shipped. The control plane stored the same
   * hash at issue.
   */
  readonly token_hash: string | null;
  /**
   * Of a passport of another issuer: whose it is, and so which id it has. The control plane may see the
   * record before the token. Else absent.
   */
  readonly federated?: FederatedSubject;
  /**
   * Mode of the caller's API key, or of the gate if no key was presented. It decides who may read a record
   * without a gate.
   */
  readonly caller_mode: string;
  /**
   * `lease_id` of each lease that a PERMIT took from: one unit of a lease of requests, `amount_micro_usd` of
   * a lease of money. Absent in a PERMIT: unknown, so units of its epoch's leases are never given back.
   */
  readonly took?: readonly number[];
  /**
   * The members of form 2: all of them, or none. A sidecar writes them once the control plane has said that
   * it takes them (ConnectAnswer). `wallet_path` may be absent all the same: null.
   */
  readonly policy_hash?: string | null;
  readonly trust_level?: string | null;
  readonly wallet_path?: readonly string[] | null;
  /** Whole milliseconds. Null: not known. */
  readonly state_age_ms?: number | null;
  /** Null: none of them. */
  readonly extras?: SpooledExtras | null;
}

/** What few records have. Absent: null, and `asserted` false. A newer sidecar has the carried ones. */
export interface SpooledExtras extends Partial<CarriedMembers> {
  readonly domain?: string;
  readonly hold_expires_at_ms?: number;
  readonly proof?: string;
  readonly asserted?: true;
  /**
   * What opens the commitments in `facts` and `user`, where it is to be kept. Only to a control plane that
   * has said that it takes it (ConnectAnswer).
   */
  readonly fact_values?: readonly ShippedFact[];
}

export interface FederatedSubject {
  readonly issuer_id: string;
  readonly subject: string;
}

/** Fields shared by all records of a passport. */
export type ChainPart = Pick<
  SpooledRecord,
  'chain_id' | 'passport_id' | 'token_hash' | 'federated' | 'wallet_path'
>;

/** Fields shared by all records of one kind at a gate. */
export type OutcomePart = Pick<
  SpooledRecord,
  | 'gate_id'
  | 'decision'
  | 'reason'
  | 'permission_key'
  | 'constraints_evaluated'
  | 'pii'
  | 'caller_mode'
  | 'policy_hash'
  | 'trust_level'
>;

/** Fields that differ per request. */
export type RequestPart = Omit<SpooledRecord, keyof ChainPart | keyof OutcomePart>;

/**
 * Precedes RecordRows in a batch and holds the members they omit, up to the next SharedParts. It has no
 * sequence number.
 */
export interface SharedParts {
  readonly chains: readonly ChainPart[];
  readonly outcomes: readonly OutcomePart[];
}

/**
 * A SpooledRecord as the values of its RequestPart and the indices of its other parts in the SharedParts
 * before it. `took` null: absent.
 */
export type RecordRow = RecordRow1 | RecordRow2;

type RecordRow1 = readonly [
  id: RequestPart['id'],
  request_hash: RequestPart['request_hash'],
  amount_micro_usd: RequestPart['amount_micro_usd'],
  timestamp_ms: RequestPart['timestamp_ms'],
  took: readonly number[] | null,
  /** Index in `chains`. */
  chain: number,
  /** Index in `outcomes`. */
  outcome: number,
];

/** In form 2. Its outcome has the members of that form. */
type RecordRow2 = readonly [
  id: RequestPart['id'],
  request_hash: RequestPart['request_hash'],
  amount_micro_usd: RequestPart['amount_micro_usd'],
  timestamp_ms: RequestPart['timestamp_ms'],
  took: readonly number[] | null,
  state_age_ms: number | null,
  extras: SpooledExtras | null,
  chain: number,
  outcome: number,
];

/**
 * Voids a settlement whose client was answered before its outcome was known. It travels through the spool, so
 * that no crash loses it. A settlement that has not committed never will. A committed one is undone once no
 * other request reads it (SettledRequest.reader_id): a record with `resolution` voided follows in its chain,
 * its key and units are free, and its approval is as before.
 */
export interface SettlementVoid {
  /** The id of the permit's record, the approval_id of the suspend, or the `reader_id` of any settlement. */
  readonly voids: AttestationId | ApprovalId;
  /** Of the voided settlement, if it may have read something. */
  readonly reader_id?: AttestationId;
  /**
   * The leases that the charge was taken from, as in SpooledRecord. Absent: unknown; its units stay counted.
   */
  readonly took?: readonly number[];
  /** The amount charged to each lease of money. */
  readonly amount_micro_usd: number | null;
  readonly timestamp_ms: UnixMillis;
}

/**
 * Replaces undeliverable records in a batch, so that the numbers of an epoch have no holes and both ends know
 * the loss: `refused` by the control plane and kept in a file at the sidecar, `damaged` in the spool and set
 * aside, or `missing` from the spool although the control plane lacks them (its database was restored).
 */
export interface VoidRun {
  readonly void: 'refused' | 'damaged' | 'missing';
  /** The sequence numbers it replaces, at least 1. */
  readonly count: number;
}

/**
 * The outcome of a PERMIT, as a caller of this sidecar has reported it (contract §19). It travels through the
 * spool, so that an answered one is shipped exactly once. Only to a control plane that takes records in form
 * 2.
 */
export interface SpooledOutcome {
  /** First, for `outcomeMark`. */
  readonly outcome: ServiceOutcome;
  readonly attestation_id: AttestationId;
  /** Null: all that is held. */
  readonly amount_micro_usd: number | null;
  readonly detail: string | null;
  /** Of the key that reported: it reports of gates of its own mode. */
  readonly caller_mode: Mode;
  readonly timestamp_ms: UnixMillis;
}

/** Begins a SpooledOutcome, and nothing else in a batch. In a text of JSON its quotes would be escaped. */
export const outcomeMark = '{"outcome":"';

export type BatchItem = SpooledRecord | RecordRow | SharedParts | SettlementVoid | SpooledOutcome | VoidRun;

/** `POST /v1/sync/attestations`. Accepted as a whole or not at all; see `ShipAnswer`. */
export interface AttestationBatch {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  /** 32 hex characters, random per start of the sidecar. */
  readonly epoch: string;
  /** Sequence number of the first record; the others follow without holes. From 1 in each epoch. */
  readonly first_seq: number;
  readonly records: readonly BatchItem[];
  /**
   * Present if a record is in form 2. A control plane that does not know the member refuses the batch as a
   * whole, with 400 `invalid_request` naming it, and no record of it.
   */
  readonly form?: 2;
  /** Present if a record has `fact_values`; a control plane that does not know them refuses it as `form`. */
  readonly facts?: true;
  /** No record of this epoch follows, ever. Only with `end` may `records` be empty. */
  readonly end?: EpochEnd;
}

/** The sidecar's statement about the end of an epoch. */
export interface EpochEnd {
  /**
   * Every PERMIT answered in this epoch has its record: the machine has not stopped since, or each record was
   * on disk before its answer. Units leased to its holders that no record took then go back to the ledger.
   */
  readonly nothing_lost: boolean;
  /** Bytes after the last whole record, left by a write that a crash cut off. */
  readonly torn_bytes: number;
}

/** Why a record of a batch is refused. The message names the field, never its value. */
export interface RefusedRecord {
  readonly seq: number;
  readonly message: string;
}

/**
 * The answer to a batch. The shipper acts on five answers; it retries after any other status and after no
 * answer, for which `ControlPlaneClient.shipAttestations(body: Uint8Array)` throws. `body` is the UTF-8 JSON
 * of an AttestationBatch, which the shipper assembles from spooled bytes without parsing them.
 *
 *   200 { next_seq, receipts? }                                  taken: all before it is durable, come now or
 *                                                                earlier
 *   409 { error: { code: 'sequence_gap', ..., expected_seq } }   gap: a hole would arise; nothing was taken
 *   409 { error: { code: 'connection_superseded', ... } }        superseded: a newer connection of this
 *                                                                sidecar id has taken over
 *   409 { error: { code: 'connection_unknown', ... } }           reconnect: the database was restored and
 *                                                                lacks this connection
 *   400 { error: { code: 'record_refused', ..., refused } }      refused: these records, so nothing was taken
 *
 * 400 `invalid_request` for `form` or `facts`: of a version before; the client sends the batch again without.
 * Every call: 400 `sync_version_unsupported`, for a version that the control plane does not speak.
 *
 * These codes exist on internal endpoints only, so the public catalogue of errors omits them.
 */
export type ShipAnswer =
  | {
      readonly kind: 'taken';
      readonly nextSeq: number;
      /** About the chains that the batch was appended to. */
      readonly receipts?: readonly Receipt[];
    }
  | { readonly kind: 'gap'; readonly expectedSeq: number }
  | { readonly kind: 'superseded' }
  | { readonly kind: 'reconnect' }
  | { readonly kind: 'refused'; readonly refused: readonly RefusedRecord[] };
