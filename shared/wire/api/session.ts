import { Type } from 'typebox';
import { modes } from '../../model/mode.ts';
import { scopes } from '../../model/scopes.ts';
import { closed, nullable, Timestamp } from './fields.ts';
import { PageAnswer } from './paging.ts';
import { Password, UserAnswer } from './user.ts';

/** `POST /session`. `account_id` chooses if the address belongs to users of several accounts. */
export const Login = closed({
  email: Type.String({ minLength: 1, maxLength: 254 }),
  password: Password,
  /** Six digits, or a recovery code. */
  totp_code: Type.Optional(Type.String({ maxLength: 64 })),
  account_id: Type.Optional(Type.String({ maxLength: 64 })),
});

/** The account as its users see it. */
export const SessionAccountAnswer = Type.Object({
  account_id: Type.String(),
  name: Type.String(),
  plan: Type.String(),
  is_operator: Type.Boolean(),
});

export const SessionAnswer = Type.Object({
  session_id: Type.String(),
  user: UserAnswer,
  account: SessionAccountAnswer,
  scopes: Type.Array(Type.Enum(scopes)),
  mode: Type.Enum(modes),
  created_at: Timestamp,
  expires_at: Timestamp,
  idle_expires_at: Timestamp,
});

export const SessionListItem = Type.Object({
  session_id: Type.String(),
  user_id: Type.String(),
  user_agent: nullable(Type.String()),
  is_current: Type.Boolean(),
  created_at: Timestamp,
  last_seen_at: Timestamp,
  expires_at: Timestamp,
  idle_expires_at: Timestamp,
});

export const SessionListAnswer = PageAnswer(SessionListItem);
