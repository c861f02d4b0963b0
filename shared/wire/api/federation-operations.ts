import { type Static, Type } from 'typebox';
import { decisionReasons } from '../../model/decision.ts';
import { limits } from '../../model/limits.ts';
import { passportStatuses } from '../../model/passport.ts';
import { closed, nullable, plainText, Tier, Timestamp } from './fields.ts';
import { SuspensionAnswer } from './passport.ts';

/** `POST /issuers/:id/revoke-subject` (contract §4). Answers as a revocation. */
export const SubjectRevocation = closed({
  subject: plainText({ minLength: 1, maxLength: limits.foreignSubjectCharsMax }),
  reason: Type.Optional(plainText({ minLength: 1, maxLength: limits.reasonCharsMax })),
});

/**
 * `POST /issuers/:id/try-token`. With `gate_id` it says what this gate makes of the token, too. A token that
 * is too long is explained, too.
 */
export const TokenTrial = closed({
  token: Type.String({ minLength: 1, maxLength: limits.bodyBytesMax }),
  gate_id: Type.Optional(Type.String()),
});

/** A claim of a token, and what it becomes. */
export const TokenStep = Type.Object({
  claim: Type.String(),
  value: nullable(Type.String()),
  is_good: Type.Boolean(),
  becomes: Type.String(),
});

/** A link of the chain of `act` of a token. */
export const TokenDelegate = Type.Object({ iss: nullable(Type.String()), sub: Type.String() });

/** The passport that a token is of. */
export const TokenPassport = Type.Object({
  passport_id: Type.String(),
  status: Type.Enum(passportStatuses),
  suspended_by: Type.Array(SuspensionAnswer),
  agent_id: Type.String(),
  owner: nullable(Type.String()),
  user: nullable(Type.String()),
  actors: Type.Array(TokenDelegate),
  permissions: Type.Array(Type.String()),
  trust_tier: Tier,
  expires_at: Timestamp,
});

/** What a token would become. It is neither stored nor recorded. */
export const TokenExplanation = Type.Object({
  /** Why it is no passport, or why the gate takes none of it; null: neither. */
  reason: nullable(Type.Enum(decisionReasons)),
  steps: Type.Array(TokenStep),
  passport: nullable(TokenPassport),
});
export type TokenExplanation = Static<typeof TokenExplanation>;
