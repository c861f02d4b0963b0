import type { AccountStatus } from '../model/account.ts';
import type { IdDigest } from '../model/id-digest.ts';
import type { AccountId, ApiKeyId, ApprovalId, AttestationId, GateId, SidecarId } from '../model/ids.ts';
import type { IssuerStatus } from '../model/issuer.ts';
import type { Mode } from '../model/mode.ts';
import type { Scope } from '../model/scopes.ts';
import type { VerificationKey } from '../model/signing-key.ts';
import { dayMs, type UnixMillis } from '../model/time.ts';
import type { TrustTier } from '../model/trust-tier.ts';

/**
 * What the control plane and its sidecars say to each other (ARCHITECTURE.md, "The change feed" and
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
 */
export const syncVersion = 5;

/**
 * The global feed carries digests instead of ids (contract §11); an account's feed carries its gates and its
 * callers' keys.
 */
export const globalFeed = 'global';
export type FeedId = typeof globalFeed | AccountId;

/** Bus channel of a feed: entries and heartbeats. */
export const feedChannel = (feedId: FeedId): string => `agent-trust:feed:${feedId}`;

/** A gate as its sidecars need it; `constraints` in the public wire shape, normalised. */
export interface GateBody {
  readonly gate_id: GateId;
  readonly account_id: AccountId;
  readonly mode: Mode;
  readonly version: number;
  /** What approvals are bound to (contract §8). From version 3. */
  readonly policy_version: number;
  readonly trust_level: TrustTier;
  readonly constraints: Readonly<Record<string, unknown>>;
  /** In the public wire shape. Absent or null: none. From version 5. */
  readonly routes?: readonly unknown[] | null;
  /**
   * Every permission of the newest catalog, with its price per call in micro-USD or null. Absent or null: no
   * catalog is published.
   */
  readonly catalog?: Readonly<Record<string, number | null>> | null;
  /** Those of its permissions that need an approval. Absent: none. From version 2. */
  readonly catalog_approvals?: readonly string[];
}

export interface ApiKeyBody {
  readonly key_id: ApiKeyId;
  /** Lower-case hex SHA-256. */
  readonly key_hash: string;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
  readonly expires_at_ms: UnixMillis | null;
}

export interface PassportStandingBody {
  readonly passport: IdDigest;
  readonly standing: 'active' | 'suspended' | 'revoked';
  /**
   * The first UTC day, counted from 1970-01-01, that begins with the passport expired; null: it never
   * expires. `limits.standingKeptMs` into that day the entry may be forgotten, because the passport is
   * expired anyway. A whole day, because the moment itself would tell passports apart.
   */
  readonly expired_by_day: number | null;
}

export const expiredByDay = (expiresAtMs: UnixMillis | null): number | null =>
  expiresAtMs === null ? null : Math.ceil(expiresAtMs / dayMs);

/**
 * The kinds of change, by feed. Each `put` carries the whole new state, so that applying one twice changes
 * nothing.
 */
export type Change =
  // account feed
  | { readonly kind: 'gate.put'; readonly body: GateBody }
  | { readonly kind: 'gate.delete'; readonly body: { readonly gate_id: GateId } }
  | { readonly kind: 'api_key.put'; readonly body: ApiKeyBody }
  | { readonly kind: 'api_key.delete'; readonly body: { readonly key_id: ApiKeyId } }
  // global feed
  | { readonly kind: 'passport.standing'; readonly body: PassportStandingBody }
  | {
      readonly kind: 'issuer.standing';
      readonly body: { readonly issuer: IdDigest; readonly standing: IssuerStatus };
    }
  | {
      readonly kind: 'account.standing';
      readonly body: { readonly account: IdDigest; readonly standing: AccountStatus };
    }
  | { readonly kind: 'signing_key.put'; readonly body: VerificationKey };

export type ChangeKind = Change['kind'];

/**
 * One change in its feed. Revisions of a feed run 1, 2, 3 … without holes, in commit order. Each entry names
 * the one before it, so that it fits only onto the history on which it was written: a restored database gives
 * out the same numbers once more, for other changes. `signature`: base64url Ed25519 by the sync key
 * `signing_key_id` over `agent-trust.change.v1:` + content hash of `{ feed_id, revision, previous, kind, body
 * }`.
 */
export type ChangeEntry = Change & {
  readonly feed_id: FeedId;
  readonly revision: number;
  /** The signature of the entry before it; empty for the first. */
  readonly previous: string;
  readonly signing_key_id: string;
  readonly signature: string;
};

/** How far somebody has come in a feed. */
export interface FeedPosition {
  /** 0: nothing has changed yet. */
  readonly revision: number;
  /** The signature of the entry there, which says in which history; empty at 0. */
  readonly mark: string;
}

/** In both feeds of a sidecar. */
export interface Position {
  readonly account: FeedPosition;
  readonly global: FeedPosition;
}

/**
 * Published on every feed's channel by every replica, once a second: "this was the head, read within that
 * second".
 */
export interface Heartbeat {
  readonly kind: 'heartbeat';
  readonly feed_id: FeedId;
  readonly head: number;
  /** Who says so, and when by its own clock: a repeat or an older one of the same replica is ignored. */
  readonly replica: string;
  readonly at_ms: UnixMillis;
  readonly signing_key_id: string;
  /**
   * base64url Ed25519 over `agent-trust.heartbeat.v1:` + content hash of `{ feed_id, head, replica, at_ms }`.
   */
  readonly signature: string;
}

export type FeedMessage = ChangeEntry | Heartbeat;

/**
 * Bus channel on which a control-plane replica tells the others that a sidecar has acknowledged. It carries
 * no content: whoever waits for acknowledgements looks into the database.
 */
export const ackChannel = 'agent-trust:ack';

/**
 * The whole state of both feeds as of their revisions, from one database snapshot. `GET /v1/sync/snapshot`.
 */
export interface Snapshot {
  readonly sync_version: number;
  readonly account_id: AccountId;
  readonly account_revision: number;
  readonly account_mark: string;
  readonly global_revision: number;
  readonly global_mark: string;
  readonly account_status: AccountStatus;
  readonly gates: readonly GateBody[];
  readonly api_keys: readonly ApiKeyBody[];
  /**
   * Revoked or suspended, and not expired for longer than `limits.standingKeptMs`. Everything that is not in
   * here is active.
   */
  readonly passport_standings: readonly PassportStandingGroup[];
  /** Suspended ones only, of all accounts. */
  readonly suspended_issuers: readonly IdDigest[];
  readonly suspended_accounts: readonly IdDigest[];
  /**
   * Of all purposes, current, coming and retired; those of purpose `sync` verify what comes after this
   * snapshot.
   */
  readonly signing_keys: readonly VerificationKey[];
  readonly taken_at_ms: UnixMillis;
}

/**
 * All passports of one standing and day in one text: a million of them are read without a million strings.
 */
export interface PassportStandingGroup {
  readonly standing: 'suspended' | 'revoked';
  readonly expired_by_day: number | null;
  /**
   * base64url of their digests of 16 bytes, one after another, in the order of their bytes: the order of
   * issue would tell something.
   */
  readonly passports: string;
}

/** A snapshot as it travels and as it lies on disk: signed as text, so that nothing needs canonicalising. */
export interface SignedSnapshot {
  /** JSON of a Snapshot. */
  readonly snapshot: string;
  /**
   * By the current sync key and by each retired one that is not compromised: a sidecar that was away for long
   * trusts only an old one. base64url Ed25519 over `agent-trust.snapshot.v1:` + `sha256:` + hex SHA-256 of
   * the UTF-8 of `snapshot`.
   */
  readonly signatures: readonly { readonly signing_key_id: string; readonly signature: string }[];
}

/**
 * `POST /v1/sync/connect`: says who is there. The newest connection of a sidecar id is the only one that may
 * ship.
 */
export interface ConnectRequest {
  readonly sync_version: number;
  readonly sidecar_id: SidecarId;
  /** The clock of the sidecar, for the offset in `/readyz`. */
  readonly now_ms: UnixMillis;
}
export interface ConnectAnswer {
  readonly account_id: AccountId;
  readonly connection_id: string;
  /** Whose clock `now_ms` is: the name under which this replica of the control plane signs its heartbeats. */
  readonly replica: string;
  /** The control plane's clock, read while answering. */
  readonly now_ms: UnixMillis;
}

/**
 * `GET
 * /v1/sync/changes?sidecar_id=&connection_id=&account_after=&account_mark=&global_after=&global_mark=&wait_ms=`:
 * the next entries of both feeds, each in order and without holes. What comes `after` is what the sidecar has
 * applied: every pull acknowledges. Waits up to `wait_ms` for news.
 */
export interface ChangesAnswer {
  readonly entries: readonly ChangeEntry[];
  readonly account_head: number;
  readonly global_head: number;
  /** How old the heads are: read from PostgreSQL so long before this answer was written. */
  readonly heads_age_ms: number;
  /**
   * How long the request was held, waiting for news: its sender knows by that how late after its question the
   * heads were read.
   */
  readonly held_ms: number;
  /** Whose clock `now_ms` is, as in ConnectAnswer. */
  readonly replica: string;
  /** The control plane's clock, read while answering. */
  readonly now_ms: UnixMillis;
  /**
   * The sidecar's position is too old, or not in the history of this database: load a snapshot. `entries` is
   * empty then.
   */
  readonly snapshot_needed: boolean;
}

/**
 * `POST /v1/sync/ack`: this is in force at this sidecar; a position that the database does not know counts as
 * nothing. Answers 200 `{}`. Here and at `changes`, a connection that a newer one has taken over from is
 * answered 412 `precondition_failed`, and one that the database does not know (any more) 409
 * `connection_unknown`: connect anew.
 */
export interface AckRequest {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  readonly account_revision: number;
  readonly account_mark: string;
  readonly global_revision: number;
  readonly global_mark: string;
}

/**
 * A decision as a sidecar spools and ships it; what it means stands in model/attestation.ts. `test` and
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

/** `POST /v1/sync/attestations`. Taken as a whole or not at all; what comes back stands at `ShipAnswer`. */
export interface AttestationBatch {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  /** 32 hex characters, random per start of the sidecar. */
  readonly epoch: string;
  /** Sequence number of the first record; the others follow without holes. From 1 in each epoch. */
  readonly first_seq: number;
  readonly records: readonly (SpooledRecord | SettlementVoid | VoidRun)[];
  /** No record of this epoch follows, now or later. Only here `records` may be empty. */
  readonly end?: EpochEnd;
}

/** What the sidecar knows of the end of an epoch. */
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
