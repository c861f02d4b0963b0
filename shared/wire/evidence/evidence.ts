import { type Static, type TProperties, Type } from 'typebox';
import { contentHash } from '../../crypto/content-hash.ts';
import { closed, nullable, Tier, Timestamp } from '../api/fields.ts';
import { AnswerProof } from './answer-proof.ts';

/*
 * Passports, approvals and conditions as exports carry them (contract §9): each signed when the export is
 * made, and without the notes and names of people, because an export goes to whoever owns the passport.
 */

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

/** Its row is gone from the database; then the body has nothing else but ids. */
const Removed = Type.Optional(Type.Literal(true));

const signed = <Properties extends TProperties>(properties: Properties) =>
  closed({
    /** As it was hashed: another version of the service may not know each of its members. */
    body: Type.Object(properties),
    hash: Hash,
    /** base64url of 64 bytes, over `agent-trust.<kind>.v1:` and the hash. */
    signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
    signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  });

/** A passport as it was issued, and what became of it. */
export const SignedPassport = signed({
  passport_id: Type.String(),
  removed: Removed,
  account_id: Type.Optional(Type.String()),
  mode: Type.Optional(Type.String()),
  issuer_id: Type.Optional(Type.String()),
  agent_id: Type.Optional(Type.String()),
  agent_name: Type.Optional(Type.String()),
  owner: Type.Optional(nullable(Type.String())),
  permissions: Type.Optional(Type.Array(Type.String())),
  constraints: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  trust_tier: Type.Optional(Tier),
  public_key: Type.Optional(Type.String()),
  /** SHA-256 of the token, in hex, and the key that signed it. */
  token_hash: Type.Optional(Type.String()),
  token_signing_key_id: Type.Optional(Type.String()),
  issued_at: Type.Optional(Timestamp),
  expires_at: Type.Optional(nullable(Timestamp)),
  /** In the order of time; expiry is none. */
  status_changes: Type.Optional(
    Type.Array(closed({ at: Timestamp, status: Type.Enum(['active', 'suspended', 'revoked']) })),
  ),
  /** Earlier changes that are left out; see `evidenceLimits`. */
  status_changes_omitted: Type.Optional(Type.Integer({ minimum: 0 })),
});
export type SignedPassport = Static<typeof SignedPassport>;

const Answer = closed({
  user_id: Type.String(),
  answer: Type.Enum(['approved', 'denied']),
  at: Timestamp,
  /** When the person took it back; null: it stands. */
  undone_at: nullable(Timestamp),
  /** What the person's passkey signed; null: it is not signed. */
  assertion: nullable(AnswerProof),
});

/** An approval with its answers, or a standing one. */
export const SignedApproval = signed({
  approval_id: Type.String(),
  passport_id: Type.String(),
  removed: Removed,
  gate_id: Type.Optional(Type.String()),
  permission_key: Type.Optional(nullable(Type.String())),
  created_at: Type.Optional(Timestamp),
  /** Of an approval of one request. */
  request_hash: Type.Optional(Hash),
  amount_micro_usd: Type.Optional(nullable(Type.Integer())),
  resolved_at: Type.Optional(nullable(Timestamp)),
  resolved_by: Type.Optional(nullable(Type.String())),
  requesters: Type.Optional(nullable(Type.Array(Type.String()))),
  answers: Type.Optional(Type.Array(Answer)),
  /** Answers that were taken back and are left out; see `evidenceLimits`. */
  answers_omitted: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Of a standing approval. `owner`: whose passports it is for, and not `passport_id` alone. */
  owner: Type.Optional(Type.String()),
  each_micro_usd: Type.Optional(Type.Integer()),
  total_micro_usd: Type.Optional(Type.Integer()),
  created_by: Type.Optional(Type.String()),
  expires_at: Type.Optional(Timestamp),
  ended_at: Type.Optional(nullable(Timestamp)),
  ended_by: Type.Optional(nullable(Type.String())),
});
export type SignedApproval = Static<typeof SignedApproval>;

/** The checked form of an expression (docs/condition-form.md), for those who cannot check it themselves. */
export const SignedCondition = signed({ form: Type.Unknown(), require: Type.String() });

/** A line of an export is shorter than 1 MiB, which the verifiers read at most. */
export const evidenceLimits = {
  /** At about 70 bytes. */
  statusChangesMax: 1_000,
  /** At about 2 KiB with their assertions; those that stand come before those that were taken back. */
  answersMax: 200,
  /** Checked forms in one export, of different expressions; others are left out. Each may have 64 KiB. */
  conditionsMax: 1_000,
} as const;

type SignedKind = 'passport' | 'approval' | 'condition';

/** Keeps the signatures of the kinds apart. */
const evidenceMessage = (kind: SignedKind, hash: string): string => `agent-trust.${kind}.v1:${hash}`;

export function signEvidence<Body extends object>(
  kind: SignedKind,
  body: Body,
  key: { readonly kid: string; readonly sign: (text: string) => string },
) {
  const hash = contentHash(body);
  return { body, hash, signature: key.sign(evidenceMessage(kind, hash)), signing_key_id: key.kid };
}
