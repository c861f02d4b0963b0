import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { accountStatuses } from '../model/account.ts';
import { type IdDigest, idDigestChars } from '../model/id-digest.ts';
import type { Id, IdPrefix } from '../model/ids.ts';
import { issuerStatuses } from '../model/issuer.ts';
import { limits } from '../model/limits.ts';
import { modes } from '../model/mode.ts';
import type { Scope } from '../model/scopes.ts';
import { keyPurposes, type VerificationKey } from '../model/signing-key.ts';
import { dayMs, latestUnixMs, type UnixMillis } from '../model/time.ts';
import { trustTiers } from '../model/trust-tier.ts';
import { nullable } from './fields.ts';
import type {
  ChangeEntry,
  ChangesAnswer,
  ConnectAnswer,
  FeedId,
  FeedMessage,
  ShipAnswer,
  SignedSnapshot,
  Snapshot,
} from './sync.ts';

/**
 * The shapes of sync.ts, for what arrives. Fields that are not named here are passed over, because the other
 * program may be one minor version ahead; a kind of change that is not named here is refused, because nobody
 * can tell what it takes away.
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

const GateState = Type.Object({
  gate_id: IdOf('gate'),
  account_id: IdOf('acct'),
  mode: Type.Enum(modes),
  version: Type.Integer({ minimum: 1 }),
  policy_version: Type.Integer({ minimum: 1 }),
  trust_level: Type.Enum(trustTiers),
  constraints: Type.Record(Type.String(), Type.Unknown()),
  routes: Type.Optional(nullable(Type.Array(Type.Unknown()))),
  catalog: Type.Optional(nullable(Type.Record(Type.String(), nullable(MicroUsdCount)))),
  catalog_approvals: Type.Optional(Type.Array(Type.String())),
});

const ApiKeyState = Type.Object({
  key_id: IdOf('key'),
  key_hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  mode: Type.Enum(modes),
  // A scope of a later version is not known here and grants nothing here.
  scopes: Type.Array(Type.Unsafe<Scope>(Type.String())),
  expires_at_ms: nullable(Millis),
});

/** The last character has four bits that belong to no byte. */
const Digest = Type.Unsafe<IdDigest>(Type.String({ pattern: `^[\\w-]{${idDigestChars - 1}}[AQgw]$` }));
const Day = Type.Integer({ minimum: 0, maximum: Math.ceil(latestUnixMs / dayMs) });

const PassportStandingState = Type.Object({
  passport: Digest,
  standing: Type.Enum(['active', 'suspended', 'revoked']),
  expired_by_day: nullable(Day),
});

const PassportStandingGroupState = Type.Object({
  standing: Type.Enum(['suspended', 'revoked']),
  expired_by_day: nullable(Day),
  // Without a pattern, which would take longer than reading it: the reader refuses what is not whole digests.
  passports: Type.String(),
});

const SigningKeyState = Type.Object({
  kid: ShortText,
  purpose: Type.Enum(keyPurposes),
  publicKey: ShortText,
  notBeforeMs: Millis,
  retiredAtMs: nullable(Millis),
  compromised: Type.Boolean(),
});

const entryOf = <K extends string, Body extends TSchema>(kind: K, body: Body) =>
  Type.Object({
    feed_id: Feed,
    revision: Revision,
    previous: ShortText,
    kind: Type.Literal(kind),
    body,
    signing_key_id: ShortText,
    signature: ShortText,
  });

const Entry = Type.Union([
  entryOf('gate.put', GateState),
  entryOf('gate.delete', Type.Object({ gate_id: IdOf('gate') })),
  entryOf('api_key.put', ApiKeyState),
  entryOf('api_key.delete', Type.Object({ key_id: IdOf('key') })),
  entryOf('passport.standing', PassportStandingState),
  entryOf('issuer.standing', Type.Object({ issuer: Digest, standing: Type.Enum(issuerStatuses) })),
  entryOf('account.standing', Type.Object({ account: Digest, standing: Type.Enum(accountStatuses) })),
  entryOf('signing_key.put', SigningKeyState),
]);

const Beat = Type.Object({
  kind: Type.Literal('heartbeat'),
  feed_id: Feed,
  head: Revision,
  replica: ShortText,
  at_ms: Millis,
  signing_key_id: ShortText,
  signature: ShortText,
});

const SnapshotState = Type.Object({
  sync_version: Type.Integer(),
  account_id: IdOf('acct'),
  account_revision: Revision,
  account_mark: ShortText,
  global_revision: Revision,
  global_mark: ShortText,
  account_status: Type.Enum(accountStatuses),
  gates: Type.Array(GateState),
  api_keys: Type.Array(ApiKeyState),
  passport_standings: Type.Array(PassportStandingGroupState),
  suspended_issuers: Type.Array(Digest),
  suspended_accounts: Type.Array(Digest),
  signing_keys: Type.Array(SigningKeyState),
  taken_at_ms: Millis,
});

const Signed = Type.Object({
  snapshot: Type.String(),
  signatures: Type.Array(Type.Object({ signing_key_id: ShortText, signature: ShortText }), { minItems: 1 }),
});

const Connected = Type.Object({
  account_id: IdOf('acct'),
  connection_id: ShortText,
  replica: ShortText,
  now_ms: Millis,
});

const Changes = Type.Object({
  entries: Type.Array(Entry, { maxItems: limits.changesPerPullMax }),
  account_head: Revision,
  global_head: Revision,
  heads_age_ms: Type.Number({ minimum: 0 }),
  held_ms: Type.Number({ minimum: 0 }),
  replica: ShortText,
  now_ms: Millis,
  snapshot_needed: Type.Boolean(),
});

/** Bodies and queries of `/v1/sync/*`, as routes check them. */
export const ConnectBody = Type.Object({
  sync_version: Type.Integer(),
  sidecar_id: IdOf('side'),
  now_ms: Millis,
});

export const AckBody = Type.Object({
  sidecar_id: IdOf('side'),
  connection_id: ShortText,
  account_revision: Revision,
  account_mark: ShortText,
  global_revision: Revision,
  global_mark: ShortText,
});

export const ChangesQuery = Type.Object({
  sidecar_id: IdOf('side'),
  connection_id: ShortText,
  account_after: Revision,
  account_mark: ShortText,
  global_after: Revision,
  global_mark: ShortText,
  wait_ms: Type.Integer({ minimum: 0, maximum: limits.longPollMsMax }),
});

/** What feeds and connections consist of, for the test that keeps `syncVersion` in step. */
export const syncShapes = {
  Entry,
  Beat,
  SnapshotState,
  Signed,
  Connected,
  Changes,
  ConnectBody,
  AckBody,
  ChangesQuery,
} as const;

/**
 * Returns null for everything that does not have the shape, also for text that is not JSON. Signatures are
 * not looked at.
 */
export const parseFeedMessage = (text: string): FeedMessage | null => feedMessage(parseJson(text));
export const parseChangeEntry = (text: string): ChangeEntry | null => changeEntry(parseJson(text));
export const parseSnapshot = (text: string): Snapshot | null => snapshot(parseJson(text));
export const parseSignedSnapshot = (text: string): SignedSnapshot | null => signedSnapshot(parseJson(text));
export const parseSigningKeys = (text: string): readonly VerificationKey[] | null =>
  signingKeys(parseJson(text));
export const parseConnectAnswer = (text: string): ConnectAnswer | null => connectAnswer(parseJson(text));
export const parseChangesAnswer = (text: string): ChangesAnswer | null => changesAnswer(parseJson(text));

// The annotations make the compiler compare each schema with its type in sync.ts.
const feedMessage: Reader<FeedMessage> = readerOf(Type.Union([Entry, Beat]));
const changeEntry: Reader<ChangeEntry> = readerOf(Entry);
const snapshot: Reader<Snapshot> = readerOf(SnapshotState);
const signedSnapshot: Reader<SignedSnapshot> = readerOf(Signed);
const signingKeys: Reader<readonly VerificationKey[]> = readerOf(Type.Array(SigningKeyState));
const connectAnswer: Reader<ConnectAnswer> = readerOf(Connected);
const changesAnswer: Reader<ChangesAnswer> = readerOf(Changes);

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

export type Reader<T> = (value: unknown) => T | null;

export function readerOf<Schema extends TSchema>(schema: Schema): Reader<Static<Schema>> {
  const validator = Compile(schema);
  return (value) => (validator.Check(value) ? (value as Static<Schema>) : null);
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Undefined has none of the shapes.
    return undefined;
  }
}
