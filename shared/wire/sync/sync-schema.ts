import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { accountStatuses } from '../../model/account.ts';
import { type IdDigest, idDigestChars } from '../../model/id-digest.ts';
import type { Id, IdPrefix } from '../../model/ids.ts';
import { issuerStatuses } from '../../model/issuer.ts';
import { limits } from '../../model/limits.ts';
import { modes } from '../../model/mode.ts';
import type { MicroUsd } from '../../model/money.ts';
import type { PermissionKey } from '../../model/permission.ts';
import type { Scope } from '../../model/scopes.ts';
import { type KeyPurpose, keyPurposes } from '../../model/signing-key.ts';
import { dayMs, latestUnixMs, type UnixMillis } from '../../model/time.ts';
import { trustTiers } from '../../model/trust-tier.ts';
import { nullable } from '../api/fields.ts';
import type { Wire } from '../api/shape.ts';
import { SidecarKeyAnswer } from '../evidence/decision-receipt.ts';
import { HistoryAnswer, Receipt, reportReceiptsMax } from './receipt.ts';
import type { FeedId, ShipAnswer } from './sync.ts';

/**
 * Messages between the control plane and its sidecars about feeds and connections, each as schema and type.
 * sync.ts has the history of versions. Unknown fields are ignored, because the other program may be one minor
 * version ahead. An unknown kind of change is refused, because it may revoke something.
 */

const idPattern = (prefix: IdPrefix): string => `${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}`;

export const IdOf = <P extends IdPrefix>(prefix: P) =>
  Type.Unsafe<Id<P>>(Type.String({ pattern: `^${idPattern(prefix)}$` }));

export const Millis = Type.Unsafe<UnixMillis>(Type.Integer({ minimum: 0, maximum: latestUnixMs }));
/** 0: nothing has changed yet. */
const Revision = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Feed = Type.Unsafe<FeedId>(Type.String({ pattern: `^(?:global|${idPattern('acct')})$` }));
const ShortText = Type.String({ maxLength: 128 });
const MicroUsdCount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/**
 * The checked forms of the conditions, in their order (docs/condition-form.md). Absent, or of another number:
 * they are made of the expressions.
 */
const conditionForms = {
  condition_forms: Type.Optional(Type.Array(Type.Unknown(), { maxItems: limits.conditionsMax })),
};

const StandingApprovalBody = Type.Object({
  standing_approval_id: IdOf('sappr'),
  /** One of the two. */
  passport_id: Type.Optional(IdOf('pass')),
  owner: Type.Optional(Type.String({ minLength: 1, maxLength: limits.ownerCharsMax })),
  permission_key: Type.Unsafe<PermissionKey>(ShortText),
  each_micro_usd: Type.Unsafe<MicroUsd>(MicroUsdCount),
  total_micro_usd: Type.Unsafe<MicroUsd>(MicroUsdCount),
  expires_at_ms: Millis,
});
export type StandingApprovalBody = Wire<typeof StandingApprovalBody>;

const ShadowBody = Type.Object({
  policy_hash: Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }),
  expires_at_ms: Millis,
  trust_level: Type.Enum(trustTiers),
  /** As those of a gate. */
  constraints: Type.Record(Type.String(), Type.Unknown()),
  routes: Type.Optional(nullable(Type.Array(Type.Unknown()))),
});
export type ShadowBody = Wire<typeof ShadowBody>;

/** A gate as its sidecars need it; `constraints` in the public wire shape, normalised. */
const GateBody = Type.Object({
  gate_id: IdOf('gate'),
  account_id: IdOf('acct'),
  mode: Type.Enum(modes),
  version: Type.Integer({ minimum: 1 }),
  /** The version that approvals are bound to (contract §8). From version 3. */
  policy_version: Type.Integer({ minimum: 1 }),
  /** Of that version. Absent or null: not kept yet, as of 0.2.0. */
  policy_hash: Type.Optional(nullable(Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }))),
  trust_level: Type.Enum(trustTiers),
  constraints: Type.Record(Type.String(), Type.Unknown()),
  /** What they are in truth, as a merge patch over them (`hideFromOlder`). Absent: they say it all. */
  constraints_patch: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  /** Another one after it, which version 0.3.0 passes over. */
  conditions_patch: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  ...conditionForms,
  /**
   * Whether a suspend says whose key has asked. Absent: no. One that does not say is answered by no person.
   */
  names_asker: Type.Optional(Type.Boolean()),
  /**
   * How long money is held for a request that does not say (contract §19). Absent: the default. Version 0.2.0
   * holds none.
   */
  hold_expires_in_ms: Type.Optional(
    Type.Integer({ minimum: limits.holdExpiryMsMin, maximum: limits.holdExpiryMsMax }),
  ),
  /** In the public wire shape. Absent or null: none. From version 5. */
  routes: Type.Optional(nullable(Type.Array(Type.Unknown()))),
  /**
   * Every permission of the newest catalog, with its price per call in micro-USD or null. Absent or null: no
   * catalog.
   */
  catalog: Type.Optional(nullable(Type.Record(Type.String(), nullable(MicroUsdCount)))),
  /** The permissions that need an approval. Absent: none. From version 2. */
  catalog_approvals: Type.Optional(Type.Array(Type.String())),
  /**
   * The standing approvals in force under this policy (contract §8). Absent: none. Version 0.2.0 ignores
   * them, and asks a person.
   */
  standing_approvals: Type.Optional(Type.Array(StandingApprovalBody)),
  /**
   * A ShadowBody: a policy to try beside this one. One that cannot be read is none: it decides nothing.
   * Absent: none. Version 0.3.0 ignores it.
   */
  shadow: Type.Optional(Type.Unknown()),
});
export type GateBody = Wire<typeof GateBody>;

/**
 * An issuer of others with its keys; `settings` in the public wire shape, normalised. Of the account of the
 * feed, or of another one where a gate names it.
 */
const FederationInFeed = Type.Object({
  issuer_id: IdOf('iss'),
  account_id: IdOf('acct'),
  mode: Type.Enum(modes),
  /** Counts the changes of settings and keys: with the same one, only `keys_at_ms` has changed. */
  version: Type.Integer({ minimum: 1 }),
  /** A suspended one fits no token. */
  is_active: Type.Boolean(),
  settings: Type.Record(Type.String(), Type.Unknown()),
  keys: Type.Array(
    Type.Object({
      kid: nullable(Type.String({ maxLength: limits.foreignKidCharsMax })),
      algorithm: ShortText,
      /** base64url of its SubjectPublicKeyInfo. */
      public_key: Type.String({ maxLength: 1024 }),
    }),
    { maxItems: limits.foreignKeysMax },
  ),
  /** When the keys were last read where they are published; null: pasted, and never too old. */
  keys_at_ms: nullable(Millis),
  /** Absent: no passport of it came into a wallet by its default. */
  has_wallets: Type.Optional(Type.Boolean()),
  ...conditionForms,
});
export type FederationInFeed = Wire<typeof FederationInFeed>;

/**
 * A gate that is gone. With `federation`: the gate never was, and an issuer of others has changed. A kind of
 * its own would be refused by a sidecar of 0.2.0, which ignores this.
 */
const GateEnd = Type.Object({
  gate_id: IdOf('gate'),
  federation: Type.Optional(FederationInFeed),
});

const ApiKeyBody = Type.Object({
  key_id: IdOf('key'),
  /** Lower-case hex SHA-256. */
  key_hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  mode: Type.Enum(modes),
  // A scope of a later version is unknown here and grants nothing.
  scopes: Type.Array(Type.Unsafe<Scope>(Type.String())),
  expires_at_ms: nullable(Millis),
});
export type ApiKeyBody = Wire<typeof ApiKeyBody>;

/** The last character has four padding bits. */
const Digest = Type.Unsafe<IdDigest>(Type.String({ pattern: `^[\\w-]{${idDigestChars - 1}}[AQgw]$` }));
/**
 * The first UTC day, counted from 1970-01-01, that begins with the passport expired; null: it never expires.
 * `limits.standingKeptMs` into that day the entry may be dropped, because the passport is expired anyway. A
 * whole day, because the exact moment would identify passports.
 */
const ExpiredByDay = nullable(Type.Integer({ minimum: 0, maximum: Math.ceil(latestUnixMs / dayMs) }));

const PassportStandingBody = Type.Object({
  passport: Digest,
  standing: Type.Enum(['active', 'suspended', 'revoked']),
  expired_by_day: ExpiredByDay,
  /**
   * With `suspended`: it is active, and came into a wallet after it was issued. Version 0.2.0, which knows no
   * wallets, takes it for suspended.
   */
  in_wallet: Type.Optional(Type.Boolean()),
});
export type PassportStandingBody = Wire<typeof PassportStandingBody>;

/**
 * All passports of one standing and day in one text, so that a million are read without a million strings.
 */
const PassportStandingGroup = Type.Object({
  standing: Type.Enum(['suspended', 'revoked']),
  expired_by_day: ExpiredByDay,
  /**
   * base64url of their 16-byte digests, concatenated and sorted by their bytes, because the order of issue
   * would reveal something. No pattern, which would take longer than the reader: that one refuses partial
   * digests.
   */
  passports: Type.String(),
  /** As in PassportStandingBody. */
  in_wallet: Type.Optional(Type.Boolean()),
});
export type PassportStandingGroup = Wire<typeof PassportStandingGroup>;

/** Sidecars verify nothing of the log, and those of the version before refuse its purpose. */
const purposes: readonly KeyPurpose[] = keyPurposes.filter((purpose) => purpose !== 'log');

const IssuerStandingBody = Type.Object({
  issuer: Digest,
  standing: Type.Enum(issuerStatuses),
  /**
   * The digest is that of a wallet, which is frozen if `suspended`; whatever else is known of it has to be
   * asked anew. For version 0.2.0 it is an issuer that no passport has.
   */
  of: Type.Optional(Type.Literal('wallet')),
});

const SigningKeyBody = Type.Object({
  kid: ShortText,
  purpose: Type.Enum([...purposes]),
  publicKey: ShortText,
  notBeforeMs: Millis,
  retiredAtMs: nullable(Millis),
  compromised: Type.Boolean(),
});

/**
 * One change in its feed. Revisions of a feed run 1, 2, 3 … without holes, in commit order. Each entry names
 * its predecessor, so it fits only the history it was written on: a restored database reuses numbers for
 * other changes.
 */
const entryOf = <K extends string, Body extends TSchema>(kind: K, body: Body) =>
  Type.Object({
    feed_id: Feed,
    revision: Revision,
    /** The signature of the entry before it; empty for the first. */
    previous: ShortText,
    kind: Type.Literal(kind),
    body,
    signing_key_id: ShortText,
    /**
     * base64url Ed25519 by the sync key `signing_key_id` over `agent-trust.change.v1:` + content hash of `{
     * feed_id, revision, previous, kind, body }`.
     */
    signature: ShortText,
  });

/**
 * Gates and API keys are in the feed of an account, other kinds in the global feed. Each `put` carries the
 * whole new state, so it is idempotent.
 */
const ChangeEntry = Type.Union([
  entryOf('gate.put', GateBody),
  entryOf('gate.delete', GateEnd),
  entryOf('api_key.put', ApiKeyBody),
  entryOf('api_key.delete', Type.Object({ key_id: IdOf('key') })),
  entryOf('passport.standing', PassportStandingBody),
  entryOf('issuer.standing', IssuerStandingBody),
  entryOf('account.standing', Type.Object({ account: Digest, standing: Type.Enum(accountStatuses) })),
  entryOf('signing_key.put', SigningKeyBody),
]);
export type ChangeEntry = Wire<typeof ChangeEntry>;
type ContentOf<Entry> = Entry extends ChangeEntry ? Pick<Entry, 'kind' | 'body'> : never;
/** An entry without its place in a feed. */
export type Change = ContentOf<ChangeEntry>;
export type ChangeKind = Change['kind'];

/**
 * Published on every feed's channel by every replica, once a second: "this was the head, read within that
 * second".
 */
const Heartbeat = Type.Object({
  kind: Type.Literal('heartbeat'),
  feed_id: Feed,
  head: Revision,
  /** The sender and its clock: a repeated or older heartbeat of the same replica is ignored. */
  replica: ShortText,
  at_ms: Millis,
  signing_key_id: ShortText,
  /**
   * base64url Ed25519 over `agent-trust.heartbeat.v1:` + content hash of `{ feed_id, head, replica, at_ms }`.
   */
  signature: ShortText,
});
export type Heartbeat = Wire<typeof Heartbeat>;

/**
 * The whole state of both feeds as of their revisions, from one database snapshot. `GET /v1/sync/snapshot`.
 */
const Snapshot = Type.Object({
  sync_version: Type.Integer(),
  account_id: IdOf('acct'),
  account_revision: Revision,
  account_mark: ShortText,
  global_revision: Revision,
  global_mark: ShortText,
  /** The history that this is a state of, and those that it goes on from, newest first (contract §17). */
  generation: Type.Optional(ShortText),
  earlier_generations: Type.Optional(Type.Array(ShortText)),
  account_status: Type.Enum(accountStatuses),
  gates: Type.Array(GateBody),
  /** Absent: none, as of 0.2.0. */
  federations: Type.Optional(Type.Array(FederationInFeed)),
  api_keys: Type.Array(ApiKeyBody),
  /** Revoked or suspended, and not expired for longer than `limits.standingKeptMs`. All others are active. */
  passport_standings: Type.Array(PassportStandingGroup),
  /** The suspended issuers of all accounts. */
  suspended_issuers: Type.Array(Digest),
  suspended_accounts: Type.Array(Digest),
  /** The frozen wallets of all accounts. Absent: of version 0.2.0, which has none. */
  frozen_wallets: Type.Optional(Type.Array(Digest)),
  /**
   * All purposes; current, coming and retired. Keys of purpose `sync` verify the entries after this snapshot.
   */
  signing_keys: Type.Array(SigningKeyBody),
  /** PUBLIC_URL, for links that people follow. Absent, as of 0.2.0: not known. */
  public_url: Type.Optional(Type.String()),
  taken_at_ms: Millis,
});
export type Snapshot = Wire<typeof Snapshot>;

/** A snapshot in transit and on disk: signed as text, so nothing needs canonicalising. */
export const SignedSnapshot = Type.Object({
  /** JSON of a Snapshot. */
  snapshot: Type.String(),
  /**
   * By the current sync key and each retired one that is not compromised, because a sidecar that was away for
   * long trusts only an old one. base64url Ed25519 over `agent-trust.snapshot.v1:` + `sha256:` + hex SHA-256
   * of the UTF-8 of `snapshot`.
   */
  signatures: Type.Array(Type.Object({ signing_key_id: ShortText, signature: ShortText }), { minItems: 1 }),
  /** About its position. */
  receipt: Type.Optional(Receipt),
});
export type SignedSnapshot = Wire<typeof SignedSnapshot>;

/** `POST /v1/sync/connect`: registers a sidecar. Only the newest connection of a sidecar id may ship. */
export const ConnectRequest = Type.Object({
  sync_version: Type.Integer(),
  sidecar_id: IdOf('side'),
  /** The clock of the sidecar, for the offset in `/readyz`. */
  now_ms: Millis,
  /**
   * 16 random bytes of this process, in hex, kept to itself. A call that arrives late or twice then opens a
   * connection of the same process, which supersedes none. Absent, as of 0.2.0: each call is another process.
   */
  process: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
});
export type ConnectRequest = Wire<typeof ConnectRequest>;

/** The form in which the control plane wants records (RecordForm). Absent, as of 0.2.0: 1. */
const RecordFormTaken = Type.Optional(Type.Union([Type.Literal(1), Type.Literal(2)]));

const ConnectAnswer = Type.Object({
  account_id: IdOf('acct'),
  connection_id: ShortText,
  /** The owner of `now_ms`: the name with which this replica of the control plane signs its heartbeats. */
  replica: ShortText,
  /** The control plane's clock, read while answering. */
  now_ms: Millis,
  record_form: RecordFormTaken,
});
export type ConnectAnswer = Wire<typeof ConnectAnswer>;

/**
 * Query of `GET /v1/sync/changes`: the next entries of both feeds, in order and without holes. `after` is the
 * position that the sidecar has applied, so every pull acknowledges. Waits up to `wait_ms` for news.
 */
export const ChangesQuery = Type.Object({
  sidecar_id: IdOf('side'),
  connection_id: ShortText,
  account_after: Revision,
  account_mark: ShortText,
  global_after: Revision,
  global_mark: ShortText,
  wait_ms: Type.Integer({ minimum: 0, maximum: limits.longPollMsMax }),
});

/**
 * An entry with its place and signature parsed and its body not yet: a bad or unknown body must not make the
 * whole answer unreadable.
 */
export const SealedEntry = Type.Object({
  feed_id: Feed,
  revision: Revision,
  previous: ShortText,
  kind: Type.String({ maxLength: 64 }),
  body: Type.Unknown(),
  signing_key_id: ShortText,
  signature: ShortText,
});
export type SealedEntry = Wire<typeof SealedEntry>;

const ChangesAnswer = Type.Object({
  entries: Type.Array(ChangeEntry, { maxItems: limits.changesPerPullMax }),
  account_head: Revision,
  global_head: Revision,
  /** Age of the heads: how long before this answer they were read from PostgreSQL. */
  heads_age_ms: Type.Number({ minimum: 0 }),
  /**
   * How long the request was held for news. It tells the sender how late after its request the heads were
   * read.
   */
  held_ms: Type.Number({ minimum: 0 }),
  /** The owner of `now_ms`, as in ConnectAnswer. */
  replica: ShortText,
  /** The control plane's clock, read while answering. */
  now_ms: Millis,
  /**
   * The sidecar's position is too old, or not in the history of this database: load a snapshot. `entries` is
   * then empty.
   */
  snapshot_needed: Type.Boolean(),
  record_form: RecordFormTaken,
  /** The history of this database; another one than that of the sidecar's state: load a snapshot. */
  generation: Type.Optional(ShortText),
  /** About the position after `entries`; absent where a snapshot is needed. */
  receipt: Type.Optional(Receipt),
});
export type ChangesAnswer = Wire<typeof ChangesAnswer>;

const SealedChangesAnswer = Type.Object({
  ...ChangesAnswer.properties,
  entries: Type.Array(SealedEntry, { maxItems: limits.changesPerPullMax }),
});
export type SealedChangesAnswer = Wire<typeof SealedChangesAnswer>;

/**
 * `POST /v1/sync/ack`: the position in force at this sidecar; an unknown position is ignored. Answers 200
 * `{}`. Here and at `changes`, a superseded connection gets 412 `precondition_failed`, and an unknown one 409
 * `connection_unknown`: reconnect.
 */
export const AckRequest = Type.Object({
  sidecar_id: IdOf('side'),
  connection_id: ShortText,
  account_revision: Revision,
  account_mark: ShortText,
  global_revision: Revision,
  global_mark: ShortText,
});
export type AckRequest = Wire<typeof AckRequest>;

/**
 * `POST /v1/sync/goodbye`: this process stops in order and does not count as missing. Answers 200 `{}`, even
 * for an unknown connection.
 */
export const GoodbyeRequest = Type.Object({ sidecar_id: IdOf('side'), connection_id: ShortText });

/**
 * `POST /v1/sync/history`: what a sidecar was told. `entries`: the last ones that it applied, of which there
 * is no receipt yet. Answers a HistoryAnswer.
 */
export const HistoryReport = Type.Object({
  receipts: Type.Array(Receipt, { maxItems: reportReceiptsMax }),
  entries: Type.Array(SealedEntry, { maxItems: 2 }),
});
export type HistoryReport = Wire<typeof HistoryReport>;

/** The schemas of feeds and connections, for the test that keeps `syncVersion` in step. */
export const syncShapes = {
  Entry: ChangeEntry,
  Beat: Heartbeat,
  SnapshotState: Snapshot,
  Signed: SignedSnapshot,
  Connected: ConnectAnswer,
  Changes: ChangesAnswer,
  ConnectBody: ConnectRequest,
  AckBody: AckRequest,
  ChangesQuery,
} as const;

/** Reads text; null for any other shape, also for text that is not JSON. */
const parserOf = <Schema extends TSchema>(schema: Schema): ((text: string) => Wire<Schema> | null) => {
  const read = readerOf(schema);
  return (text) => read(parseJson(text));
};

// None of them verifies a signature.
export const parseFeedMessage = parserOf(Type.Union([ChangeEntry, Heartbeat]));
export const parseChangeEntry = parserOf(ChangeEntry);
export const parseSealedEntry = parserOf(SealedEntry);
export const parseSnapshot = parserOf(Snapshot);
export const parseSignedSnapshot = parserOf(SignedSnapshot);
export const parseSigningKeys = parserOf(Type.Array(SigningKeyBody));
export const parseConnectAnswer = parserOf(ConnectAnswer);
export const parseChangesAnswer = parserOf(SealedChangesAnswer);
export const parseHistoryAnswer = parserOf(HistoryAnswer);
export const parseReceipt = parserOf(Receipt);
export const parseSidecarKeyAnswer = parserOf(SidecarKeyAnswer);

const bodies = {
  'gate.put': Compile(GateBody),
  'gate.delete': Compile(GateEnd),
  'api_key.put': Compile(ApiKeyBody),
  'api_key.delete': Compile(Type.Object({ key_id: IdOf('key') })),
  'passport.standing': Compile(PassportStandingBody),
  'issuer.standing': Compile(IssuerStandingBody),
  'account.standing': Compile(Type.Object({ account: Digest, standing: Type.Enum(accountStatuses) })),
  'signing_key.put': Compile(SigningKeyBody),
} satisfies Record<ChangeKind, unknown>;

export const readShadowBody = readerOf(ShadowBody);

const federation = Compile(FederationInFeed);

/** The change in an entry. Throws an error that names the unreadable member. */
export function openEntry(entry: SealedEntry): ChangeEntry {
  const { kind, body } = entry;
  if (!Object.hasOwn(bodies, kind))
    throw new Error(`${JSON.stringify(kind)} is no kind of change that is known here`);
  const validator = bodies[kind as ChangeKind];
  if (validator.Check(body)) return entry as ChangeEntry;
  throw new Error(`${kind} ${wrongWith(validator, body)}`);
}

/** An unusable row of a snapshot. It does not affect the others. */
export interface BadRow {
  readonly of: 'gate' | 'api_key' | 'signing_key' | 'federation';
  /** Null: the id is unreadable too. */
  readonly id: string | null;
  readonly reason: string;
}

const LooseSnapshot = Type.Object({
  ...Snapshot.properties,
  gates: Type.Array(Type.Unknown()),
  api_keys: Type.Array(Type.Unknown()),
  signing_keys: Type.Array(Type.Unknown()),
  federations: Type.Optional(Type.Array(Type.Unknown())),
});
const looseSnapshot = Compile(LooseSnapshot);

/**
 * Reads a snapshot. Bad gates and keys are set aside, because a missing one permits nothing. A bad list of
 * revoked or suspended ids makes the snapshot bad, because a missing one would permit. Throws an error that
 * names the unreadable member.
 */
export function readSnapshot(text: string): {
  readonly snapshot: Snapshot;
  readonly badRows: readonly BadRow[];
} {
  const value = parseJson(text);
  if (!looseSnapshot.Check(value)) throw new Error(`it ${wrongWith(looseSnapshot, value)}`);
  const badRows: BadRow[] = [];
  const good = (of: BadRow['of'], rows: readonly unknown[], idName: string): unknown[] => {
    const validator = of === 'federation' ? federation : bodies[`${of}.put`];
    return rows.filter((row) => {
      if (validator.Check(row)) return true;
      badRows.push({ of, id: idIn(row, idName), reason: wrongWith(validator, row) });
      return false;
    });
  };
  const snapshot = {
    ...value,
    gates: good('gate', value.gates, 'gate_id'),
    api_keys: good('api_key', value.api_keys, 'key_id'),
    signing_keys: good('signing_key', value.signing_keys, 'kid'),
    federations: good('federation', value.federations ?? [], 'issuer_id'),
  } as Snapshot;
  return { snapshot, badRows };
}

const shownIdCharsMax = 64;

function idIn(row: unknown, name: string): string | null {
  const id =
    typeof row === 'object' && row !== null && name in row ? (row as Record<string, unknown>)[name] : null;
  return typeof id === 'string' ? id.slice(0, shownIdCharsMax) : null;
}

/** Names the place and never the value. */
function wrongWith(
  validator: { Errors(value: unknown): readonly { instancePath: string; message: string }[] },
  value: unknown,
): string {
  const [first] = validator.Errors(value);
  if (first === undefined) return 'cannot be read';
  return `has a member ${first.instancePath === '' ? '/' : first.instancePath} that ${first.message}`;
}

/** The answer to a batch; null: none that the shipper can use. */
export const parseShipAnswer = (status: number, text: string): ShipAnswer | null => {
  const body = parseJson(text);
  const taken = status === 200 ? takenAnswer(body) : null;
  if (taken !== null) {
    const { next_seq: nextSeq, receipts } = taken;
    return { kind: 'taken', nextSeq, ...(receipts !== undefined && { receipts }) };
  }
  const error = errorAnswer(body)?.error;
  if (status === 400 && error?.code === 'record_refused') return { kind: 'refused', refused: error.refused };
  if (status === 409 && error?.code === 'sequence_gap')
    return { kind: 'gap', expectedSeq: error.expected_seq };
  if (status === 409 && error?.code === 'connection_superseded') return { kind: 'superseded' };
  if (status === 409 && error?.code === 'connection_unknown') return { kind: 'reconnect' };
  return null;
};

const Sequence = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const takenAnswer = readerOf(
  Type.Object({ next_seq: Sequence, receipts: Type.Optional(Type.Array(Receipt)) }),
);
const errorAnswer = readerOf(
  Type.Object({
    error: Type.Union([
      Type.Object({ code: Type.Literal('sequence_gap'), expected_seq: Sequence }),
      Type.Object({ code: Type.Enum(['connection_superseded', 'connection_unknown']) }),
      Type.Object({
        code: Type.Literal('record_refused'),
        refused: Type.Array(Type.Object({ seq: Sequence, message: Type.String() })),
      }),
    ]),
  }),
);

/** Null for a value that does not have the shape. */
export function readerOf<Schema extends TSchema>(schema: Schema): (value: unknown) => Wire<Schema> | null {
  const validator = Compile(schema);
  return (value) => (validator.Check(value) ? (value as Wire<Schema>) : null);
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // No schema accepts undefined.
    return undefined;
  }
}
