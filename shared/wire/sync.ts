import type { AccountId, ApprovalId, AttestationId, SidecarId } from '../model/ids.ts';
import { dayMs, type UnixMillis } from '../model/time.ts';

/**
 * Messages between the control plane and its sidecars (ARCHITECTURE.md, "The change feed" and
 * "Attestations"). Not a public interface; both programs are of the same version, or one minor version apart.
 *
 * version history
 *   1  2026-11  snapshot, changes, heartbeat, attestation batches, gates with the prices of their catalogs
 *   2  2026-11 leases and settlements, records that name the leases they took from, the end of an epoch;
 *      gates with the permissions that need an approval. A sidecar of version 1 would let them through
 *               unasked, and is turned away
 *   3  2026-11 gates with the version of their policy, to which approvals are bound; the answer
 *      pending_exceeded of settlements
 *   4  2026-11 digests instead of ids in the global feed, and days instead of moments: a sidecar must not
 *      learn whom other accounts revoke. One of version 3
 *               finds nobody in it, and is turned away; settlements in batches, and their voids in the spool
 *   5  2026-11  gates with their routes
 *   6  2026-11  records that leave out what a batch says once for many of them (SharedParts)
 *   7  2026-11  such records without the names of their members (RecordRow)
 */
export const syncVersion = 7;

const sidecarAgent = /^agent-trust-sidecar\/([0-9A-Za-z.+-]{1,64})$/;

/** The `User-Agent` of a sidecar. A header, so that it says nothing new to a control plane of before. */
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

/** `PassportStandingBody.expired_by_day` of a passport. */
export const expiredByDay = (expiresAtMs: UnixMillis | null): number | null =>
  expiresAtMs === null ? null : Math.ceil(expiresAtMs / dayMs);

/** A position in a feed. */
export interface FeedPosition {
  /** 0: nothing has changed yet. */
  readonly revision: number;
  /** The signature of the entry there, which identifies the history; empty at 0. */
  readonly mark: string;
}

/** In both feeds of a sidecar. */
export interface Position {
  readonly account: FeedPosition;
  readonly global: FeedPosition;
}

/**
 * Bus channel on which a control-plane replica notifies the others that a sidecar has acknowledged. It
 * carries no content: waiting revocations query the database.
 */
export const ackChannel = 'agent-trust:ack';

/**
 * A decision as a sidecar spools and ships it; what it means is in model/attestation.ts. `test` and
 * `resolution` are missing because a sidecar answers neither gate tests nor approvals; the source is the
 * sidecar itself. Nobody else's chain can be written into: `chain_id` is the passport where one verified,
 * else the gate, else the account (contract §9). A token whose signing key is unknown or compromised did not
 * verify: `passport_id` is null then.
 */
export interface SpooledRecord {
  readonly id: string;
  readonly chain_id: string;
  readonly passport_id: string | null;
  readonly gate_id: string | null;
  /** PERMIT or BLOCK; a PERMIT has no reason, everything else has one. */
  readonly decision: string;
  readonly reason: string | null;
  readonly request_hash: string;
  readonly permission_key: string | null;
  readonly amount_micro_usd: number | null;
  readonly constraints_evaluated: readonly string[];
  readonly pii: readonly { readonly pointer: string; readonly type: string }[];
  readonly timestamp_ms: number;
  /**
   * Hex SHA-256 of the passport's token, null where no passport verified. It shows that this sidecar has seen
   * the token, which is a bearer credential and is therefore neither spooled nor shipped; the control plane
   * kept the same hash when it issued it.
   */
  readonly token_hash: string | null;
  /**
   * Mode of the API key that asked (the gate's, where no key asked): who may read a record that names no
   * gate.
   */
  readonly caller_mode: string;
  /**
   * `lease_id` of each lease that a PERMIT took from: one unit of a lease of requests, `amount_micro_usd` of
   * a lease of money. Absent in a PERMIT: not known, so that nothing of its epoch's leases is ever given
   * back.
   */
  readonly took?: readonly number[];
}

/** Fields shared by all records of a passport. */
export type ChainPart = Pick<SpooledRecord, 'chain_id' | 'passport_id' | 'token_hash'>;

/** Fields shared by all records of one kind at a gate. */
export type OutcomePart = Pick<
  SpooledRecord,
  'gate_id' | 'decision' | 'reason' | 'permission_key' | 'constraints_evaluated' | 'pii' | 'caller_mode'
>;

/** Fields that differ per request. */
export type RequestPart = Omit<SpooledRecord, keyof ChainPart | keyof OutcomePart>;

/**
 * Stands in a batch before RecordRows, and says for them what they leave out; it holds up to the next of
 * its kind. It has no number of its own.
 */
export interface SharedParts {
  readonly chains: readonly ChainPart[];
  readonly outcomes: readonly OutcomePart[];
}

/**
 * A SpooledRecord as its RequestPart, without the names of its members, and the places of its other parts in
 * the SharedParts before it. `took` null: absent.
 */
export type RecordRow = readonly [
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

/**
 * The next word of a sidecar about a settlement whose client it answered without knowing the outcome. It
 * travels through the spool, so that no crash loses it. What was not committed never will be. What was
 * committed is undone as soon as no other request reads it (SettledRequest.reader_id): a record with
 * `resolution` voided follows in its chain, its key is free, its approval as before, and its units are free.
 */
export interface SettlementVoid {
  /** The id of the permit's record, the approval_id of the suspend, or the `reader_id` of any settlement. */
  readonly voids: AttestationId | ApprovalId;
  /** Of the settlement that is voided, where it may have read something. */
  readonly reader_id?: AttestationId;
  /**
   * As in SpooledRecord: the leases that the charge was taken from, in any case. Absent: not known; its units
   * stay counted.
   */
  readonly took?: readonly number[];
  /** What each lease of money was charged. */
  readonly amount_micro_usd: number | null;
  readonly timestamp_ms: UnixMillis;
}

/**
 * Stands in a batch for records that cannot be delivered, so that the numbers of an epoch stay without holes
 * and the loss is known at both ends: `refused` by the control plane and kept in a file at the sidecar,
 * `damaged` in the spool and set aside there, or `missing` there although the control plane never took them
 * (its database was restored).
 */
export interface VoidRun {
  readonly void: 'refused' | 'damaged' | 'missing';
  /** How many sequence numbers it stands for, from 1. */
  readonly count: number;
}

export type BatchItem = SpooledRecord | RecordRow | SharedParts | SettlementVoid | VoidRun;

/** `POST /v1/sync/attestations`. Taken as a whole or not at all; what comes back is at `ShipAnswer`. */
export interface AttestationBatch {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  /** 32 hex characters, random per start of the sidecar. */
  readonly epoch: string;
  /** Sequence number of the first record; the others follow without holes. From 1 in each epoch. */
  readonly first_seq: number;
  readonly records: readonly BatchItem[];
  /** No record of this epoch follows, now or later. Only here `records` may be empty. */
  readonly end?: EpochEnd;
}

/** The sidecar's statement about the end of an epoch. */
export interface EpochEnd {
  /**
   * Every PERMIT that was answered in this epoch is in its records: the machine has not stopped since, or
   * each record was on disk before its answer. Then what its holders were leased and no record took goes back
   * to the ledger.
   */
  readonly nothing_lost: boolean;
  /** Behind the last whole record: the remains of a write that a crash cut off. */
  readonly torn_bytes: number;
}

/** Why one record of a batch is not taken. The message names the field, never its value. */
export interface RefusedRecord {
  readonly seq: number;
  readonly message: string;
}

/**
 * What a batch is answered. Five answers mean something to the shipper; every other status, and no answer at
 * all, is the world's fault and is tried again: `ControlPlaneClient.shipAttestations(body: Uint8Array)`
 * throws then. `body` is the UTF-8 JSON of an AttestationBatch, which the shipper puts together from spooled
 * bytes without parsing them.
 *
 *   200 { next_seq }                                             taken: all before it is durable, come now or
 *                                                                earlier
 *   409 { error: { code: 'sequence_gap', ..., expected_seq } }   gap: a hole would arise; nothing was taken
 *   409 { error: { code: 'connection_superseded', ... } }        superseded: a newer connection of this
 *                                                                sidecar id has taken over
 *   409 { error: { code: 'connection_unknown', ... } }           reconnect: the database was restored and
 *                                                                lacks this connection
 *   400 { error: { code: 'record_refused', ..., refused } }      refused: these records, so nothing was taken
 *
 * The four codes exist on internal endpoints only and are therefore no rows of the public catalogue.
 */
export type ShipAnswer =
  | { readonly kind: 'taken'; readonly nextSeq: number }
  | { readonly kind: 'gap'; readonly expectedSeq: number }
  | { readonly kind: 'superseded' }
  | { readonly kind: 'reconnect' }
  | { readonly kind: 'refused'; readonly refused: readonly RefusedRecord[] };
