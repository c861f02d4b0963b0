import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { accountStatuses } from '../model/account.ts';
import { type IdDigest, idDigestChars } from '../model/id-digest.ts';
import type { Id, IdPrefix } from '../model/ids.ts';
import { issuerStatuses } from '../model/issuer.ts';
import { limits } from '../model/limits.ts';
import { modes } from '../model/mode.ts';
import type { Scope } from '../model/scopes.ts';
import { keyPurposes } from '../model/signing-key.ts';
import { dayMs, latestUnixMs, type UnixMillis } from '../model/time.ts';
import { trustTiers } from '../model/trust-tier.ts';
import { nullable } from './fields.ts';
import type { Wire } from './shape.ts';
import type { FeedId, ShipAnswer } from './sync.ts';

/**
 * What the control plane and its sidecars exchange about feeds and connections, each as schema and type; the
 * history of versions is in sync.ts. Fields that are not named here are ignored, because the other program
 * may be one minor version ahead; a kind of change that is not named here is refused, because nobody can know
 * what it takes away.
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

/** A gate as its sidecars need it; `constraints` in the public wire shape, normalised. */
const GateBody = Type.Object({
  gate_id: IdOf('gate'),
  account_id: IdOf('acct'),
  mode: Type.Enum(modes),
  version: Type.Integer({ minimum: 1 }),
  /** What approvals are bound to (contract §8). From version 3. */
  policy_version: Type.Integer({ minimum: 1 }),
  trust_level: Type.Enum(trustTiers),
  constraints: Type.Record(Type.String(), Type.Unknown()),
  /** In the public wire shape. Absent or null: none. From version 5. */
  routes: Type.Optional(nullable(Type.Array(Type.Unknown()))),
  /**
   * Every permission of the newest catalog, with its price per call in micro-USD or null. Absent or null: no
   * catalog is published.
   */
  catalog: Type.Optional(nullable(Type.Record(Type.String(), nullable(MicroUsdCount)))),
  /** Those of its permissions that need an approval. Absent: none. From version 2. */
  catalog_approvals: Type.Optional(Type.Array(Type.String())),
});
export type GateBody = Wire<typeof GateBody>;

const ApiKeyBody = Type.Object({
  key_id: IdOf('key'),
  /** Lower-case hex SHA-256. */
  key_hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  mode: Type.Enum(modes),
  // A scope of a later version is not known here and grants nothing here.
  scopes: Type.Array(Type.Unsafe<Scope>(Type.String())),
  expires_at_ms: nullable(Millis),
});
export type ApiKeyBody = Wire<typeof ApiKeyBody>;

/** The last character has four bits that belong to no byte. */
const Digest = Type.Unsafe<IdDigest>(Type.String({ pattern: `^[\\w-]{${idDigestChars - 1}}[AQgw]$` }));
/**
 * The first UTC day, counted from 1970-01-01, that begins with the passport expired; null: it never expires.
 * `limits.standingKeptMs` into that day the entry may be forgotten, because the passport is expired anyway. A
 * whole day, because the moment itself would tell passports apart.
 */
const ExpiredByDay = nullable(Type.Integer({ minimum: 0, maximum: Math.ceil(latestUnixMs / dayMs) }));

const PassportStandingBody = Type.Object({
  passport: Digest,
  standing: Type.Enum(['active', 'suspended', 'revoked']),
  expired_by_day: ExpiredByDay,
});
export type PassportStandingBody = Wire<typeof PassportStandingBody>;

/**
 * All passports of one standing and day in one text: a million of them are read without a million strings.
 */
const PassportStandingGroup = Type.Object({
  standing: Type.Enum(['suspended', 'revoked']),
  expired_by_day: ExpiredByDay,
  /**
   * base64url of their digests of 16 bytes, one after another, in the order of their bytes: the order of
   * issue would reveal something. Without a pattern, which would take longer than reading it: the reader
   * refuses what is not whole digests.
   */
  passports: Type.String(),
});
export type PassportStandingGroup = Wire<typeof PassportStandingGroup>;

const SigningKeyBody = Type.Object({
  kid: ShortText,
  purpose: Type.Enum(keyPurposes),
  publicKey: ShortText,
  notBeforeMs: Millis,
  retiredAtMs: nullable(Millis),
  compromised: Type.Boolean(),
});

/**
 * One change in its feed. Revisions of a feed run 1, 2, 3 … without holes, in commit order. Each entry names
 * the one before it, so that it fits only onto the history on which it was written: a restored database gives
 * out the same numbers once more, for other changes.
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
 * By kind: gates and API keys in the feed of an account, the others in the global one. Each `put` carries the
 * whole new state, so that applying one twice changes nothing.
 */
const ChangeEntry = Type.Union([
  entryOf('gate.put', GateBody),
  entryOf('gate.delete', Type.Object({ gate_id: IdOf('gate') })),
  entryOf('api_key.put', ApiKeyBody),
  entryOf('api_key.delete', Type.Object({ key_id: IdOf('key') })),
  entryOf('passport.standing', PassportStandingBody),
  entryOf('issuer.standing', Type.Object({ issuer: Digest, standing: Type.Enum(issuerStatuses) })),
  entryOf('account.standing', Type.Object({ account: Digest, standing: Type.Enum(accountStatuses) })),
  entryOf('signing_key.put', SigningKeyBody),
]);
export type ChangeEntry = Wire<typeof ChangeEntry>;
type ContentOf<Entry> = Entry extends ChangeEntry ? Pick<Entry, 'kind' | 'body'> : never;
/** What an entry says, before it has its place in a feed. */
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
  /** Who says so, and when by its own clock: a repeat or an older one of the same replica is ignored. */
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
  account_status: Type.Enum(accountStatuses),
  gates: Type.Array(GateBody),
  api_keys: Type.Array(ApiKeyBody),
  /**
   * Revoked or suspended, and not expired for longer than `limits.standingKeptMs`. Everything that is not in
   * here is active.
   */
  passport_standings: Type.Array(PassportStandingGroup),
  /** Suspended ones only, of all accounts. */
  suspended_issuers: Type.Array(Digest),
  suspended_accounts: Type.Array(Digest),
  /**
   * Of all purposes, current, coming and retired; those of purpose `sync` verify what comes after this
   * snapshot.
   */
  signing_keys: Type.Array(SigningKeyBody),
  taken_at_ms: Millis,
});
export type Snapshot = Wire<typeof Snapshot>;

/** A snapshot as it travels and as it lies on disk: signed as text, so that nothing needs canonicalising. */
const SignedSnapshot = Type.Object({
  /** JSON of a Snapshot. */
  snapshot: Type.String(),
  /**
   * By the current sync key and by each retired one that is not compromised: a sidecar that was away for long
   * trusts only an old one. base64url Ed25519 over `agent-trust.snapshot.v1:` + `sha256:` + hex SHA-256 of
   * the UTF-8 of `snapshot`.
   */
  signatures: Type.Array(Type.Object({ signing_key_id: ShortText, signature: ShortText }), { minItems: 1 }),
});
export type SignedSnapshot = Wire<typeof SignedSnapshot>;

/**
 * `POST /v1/sync/connect`: says who is there. The newest connection of a sidecar id is the only one that may
 * ship.
 */
export const ConnectRequest = Type.Object({
  sync_version: Type.Integer(),
  sidecar_id: IdOf('side'),
  /** The clock of the sidecar, for the offset in `/readyz`. */
  now_ms: Millis,
});
export type ConnectRequest = Wire<typeof ConnectRequest>;

const ConnectAnswer = Type.Object({
  account_id: IdOf('acct'),
  connection_id: ShortText,
  /** Whose clock `now_ms` is: the name under which this replica of the control plane signs its heartbeats. */
  replica: ShortText,
  /** The control plane's clock, read while answering. */
  now_ms: Millis,
});
export type ConnectAnswer = Wire<typeof ConnectAnswer>;

/**
 * Query of `GET /v1/sync/changes`: the next entries of both feeds, each in order and without holes. What
 * comes `after` is what the sidecar has applied: every pull acknowledges. Waits up to `wait_ms` for news.
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
 * An entry of which its place and its signature can be read, and the rest not yet: one that says something
 * bad, or something new, must not hide that an answer has come.
 */
const SealedEntry = Type.Object({
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
  /** How old the heads are: read from PostgreSQL so long before this answer was written. */
  heads_age_ms: Type.Number({ minimum: 0 }),
  /**
   * How long the request was held, waiting for news: its sender knows by that how late after its question the
   * heads were read.
   */
  held_ms: Type.Number({ minimum: 0 }),
  /** Whose clock `now_ms` is, as in ConnectAnswer. */
  replica: ShortText,
  /** The control plane's clock, read while answering. */
  now_ms: Millis,
  /**
   * The sidecar's position is too old, or not in the history of this database: load a snapshot. `entries` is
   * empty then.
   */
  snapshot_needed: Type.Boolean(),
});
export type ChangesAnswer = Wire<typeof ChangesAnswer>;

const SealedChangesAnswer = Type.Object({
  ...ChangesAnswer.properties,
  entries: Type.Array(SealedEntry, { maxItems: limits.changesPerPullMax }),
});
export type SealedChangesAnswer = Wire<typeof SealedChangesAnswer>;

/**
 * `POST /v1/sync/ack`: this is in force at this sidecar; a position that the database does not know counts as
 * nothing. Answers 200 `{}`. Here and at `changes`, a connection that a newer one has taken over from is
 * answered 412 `precondition_failed`, and one that the database does not know (any more) 409
 * `connection_unknown`: connect anew.
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
 * `POST /v1/sync/goodbye`: this process stops in order. It is not missing until it connects again. Answers
 * 200 `{}` whatever is known of the connection.
 */
export const GoodbyeRequest = Type.Object({ sidecar_id: IdOf('side'), connection_id: ShortText });

/** What feeds and connections consist of, for the test that keeps `syncVersion` in step. */
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

/** Reads text; null for everything that does not have the shape, also for text that is not JSON. */
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

const bodies = {
  'gate.put': Compile(GateBody),
  'gate.delete': Compile(Type.Object({ gate_id: IdOf('gate') })),
  'api_key.put': Compile(ApiKeyBody),
  'api_key.delete': Compile(Type.Object({ key_id: IdOf('key') })),
  'passport.standing': Compile(PassportStandingBody),
  'issuer.standing': Compile(Type.Object({ issuer: Digest, standing: Type.Enum(issuerStatuses) })),
  'account.standing': Compile(Type.Object({ account: Digest, standing: Type.Enum(accountStatuses) })),
  'signing_key.put': Compile(SigningKeyBody),
} satisfies Record<ChangeKind, unknown>;

/** What the entry says. Throws an error that names what in it cannot be read. */
export function openEntry(entry: SealedEntry): ChangeEntry {
  const { kind, body } = entry;
  if (!Object.hasOwn(bodies, kind))
    throw new Error(`${JSON.stringify(kind)} is no kind of change that is known here`);
  const validator = bodies[kind as ChangeKind];
  if (validator.Check(body)) return entry as ChangeEntry;
  throw new Error(`${kind} ${wrongWith(validator, body)}`);
}

/** A row of a snapshot that cannot be used. The others can. */
export interface BadRow {
  readonly of: 'gate' | 'api_key' | 'signing_key';
  /** Null: that cannot be read either. */
  readonly id: string | null;
  readonly reason: string;
}

const LooseSnapshot = Type.Object({
  ...Snapshot.properties,
  gates: Type.Array(Type.Unknown()),
  api_keys: Type.Array(Type.Unknown()),
  signing_keys: Type.Array(Type.Unknown()),
});
const looseSnapshot = Compile(LooseSnapshot);

/**
 * Reads a snapshot of which gates and keys may be bad: what is missing there permits nothing. A bad list of
 * revoked or suspended ones is a bad snapshot, because what is missing there would permit. Throws an error
 * that names what cannot be read.
 */
export function readSnapshot(text: string): {
  readonly snapshot: Snapshot;
  readonly badRows: readonly BadRow[];
} {
  const value = parseJson(text);
  if (!looseSnapshot.Check(value)) throw new Error(`it ${wrongWith(looseSnapshot, value)}`);
  const badRows: BadRow[] = [];
  const good = (of: BadRow['of'], rows: readonly unknown[], idName: string): unknown[] => {
    const validator = bodies[`${of}.put`];
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

/** What a batch was answered; null: nothing that means anything to the shipper. */
export const parseShipAnswer = (status: number, text: string): ShipAnswer | null => {
  const body = parseJson(text);
  const taken = status === 200 ? takenAnswer(body) : null;
  if (taken !== null) return { kind: 'taken', nextSeq: taken.next_seq };
  const error = errorAnswer(body)?.error;
  if (status === 400 && error?.code === 'record_refused') return { kind: 'refused', refused: error.refused };
  if (status === 409 && error?.code === 'sequence_gap')
    return { kind: 'gap', expectedSeq: error.expected_seq };
  if (status === 409 && error?.code === 'connection_superseded') return { kind: 'superseded' };
  if (status === 409 && error?.code === 'connection_unknown') return { kind: 'reconnect' };
  return null;
};

const Sequence = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const takenAnswer = readerOf(Type.Object({ next_seq: Sequence }));
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
    // Undefined has none of the shapes.
    return undefined;
  }
}
