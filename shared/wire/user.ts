import { type Static, Type } from 'typebox';
import { renderOptionalTime, renderTime } from '../model/time.ts';
import { roles, type User, userStatuses, userStatusOf } from '../model/user.ts';
import { emailCharsMax } from './email.ts';
import { closed, Name, nullable, plainText, Timestamp } from './fields.ts';

/** Longer than any passphrase. Bounds the work of hashing. */
const passwordCharsMax = 256;
/** NIST SP 800-63B-4 asks for 15 without and 8 with a second factor; length is the only rule here. */
const passwordCharsMin = 12;

const Email = plainText({ minLength: 3, maxLength: emailCharsMax });
export const Password = Type.String({ minLength: 1, maxLength: passwordCharsMax });
const NewPassword = Type.String({ minLength: passwordCharsMin, maxLength: passwordCharsMax });
const Role = Type.Enum(roles);

export const UserAnswer = Type.Object({
  user_id: Type.String(),
  email: Type.String(),
  name: Type.String(),
  role: Role,
  status: Type.Enum(userStatuses),
  totp_enabled: Type.Boolean(),
  created_at: Timestamp,
  last_login_at: nullable(Timestamp),
});

/** `POST /users` */
export const UserInvitation = closed({ email: Email, name: Type.Optional(Name), role: Role });

/** With `invitation_url`, which is shown only once: a replay of the answer (contract §12) lacks it. */
export const InvitedUserAnswer = Type.Object({
  user: UserAnswer,
  invitation_url: Type.Optional(Type.String()),
  expires_at: Timestamp,
});

/** `PATCH /users/:id`: only what is present changes. */
export const UserUpdate = closed({
  name: Type.Optional(Name),
  role: Type.Optional(Role),
  status: Type.Optional(Type.Enum(['active', 'disabled'])),
});

export const UserDeletion = Type.Object({
  user_id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

/** `POST /invitations/accept`. The first owner's link carries no address, so `email` is required there. */
export const InvitationAcceptance = closed({
  token: Type.String({ minLength: 1, maxLength: 128 }),
  name: Name,
  password: NewPassword,
  email: Type.Optional(Email),
});

/** `POST /users/me/password` */
export const PasswordChange = closed({ current_password: Password, new_password: NewPassword });

/** `POST /users/me/totp`: for an authenticator app, shown only once. */
export const TotpBegunAnswer = Type.Object({ secret: Type.String(), uri: Type.String() });

/** `POST /users/me/totp/confirm` */
export const TotpConfirmation = closed({ code: Type.String({ maxLength: 16 }) });

/** For actions that ask the logged-in user for their password again. */
export const OwnPassword = closed({ password: Password });

/** Shown only once. Each code logs its user in once without the app. */
export const TotpConfirmedAnswer = Type.Object({ recovery_codes: Type.Array(Type.String()) });

export const renderUser = (user: User): Static<typeof UserAnswer> => ({
  user_id: user.userId,
  email: user.email,
  name: user.name,
  role: user.role,
  status: userStatusOf(user),
  totp_enabled: user.totpEnabled,
  created_at: renderTime(user.createdAtMs),
  last_login_at: renderOptionalTime(user.lastLoginAtMs),
});
