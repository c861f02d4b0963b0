import { type Static, Type } from 'typebox';
import { channelFaults } from '../../model/channel.ts';
import { renderOptionalTime, renderTime } from '../../model/time.ts';
import { deliveries, roles, type User, userStatuses, userStatusOf, waysToCome } from '../../model/user.ts';
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
const InvitationToken = Type.String({ minLength: 1, maxLength: 128 });

export const UserAnswer = Type.Object({
  user_id: Type.String(),
  email: Type.String(),
  name: Type.String(),
  role: Role,
  status: Type.Enum(userStatuses),
  totp_enabled: Type.Boolean(),
  /** `key_…` or `usr_…`; null: nobody, or not known. */
  invited_by: nullable(Type.String()),
  came_by: Type.Enum(waysToCome),
  /** Whether the person answers approvals; false: another person has to confirm them first. */
  confirmed: Type.Boolean(),
  created_at: Timestamp,
  last_login_at: nullable(Timestamp),
});

/** `mail`: mailed, and shown to nobody. Default `both`: shown, and mailed where there is a mail server. */
const Delivery = Type.Optional(Type.Enum(deliveries));

/** `POST /users` */
export const UserInvitation = closed({
  email: Email,
  name: Type.Optional(Name),
  role: Role,
  delivery: Delivery,
});

/** `POST /users/:id/invitation` */
export const InvitationRenewal = closed({ delivery: Delivery });

/**
 * With `invitation_url`, which is shown only once: a replay of the answer (contract §12) lacks it, and what
 * became of the mail.
 */
export const InvitedUserAnswer = Type.Object({
  user: UserAnswer,
  invitation_url: Type.Optional(Type.String()),
  expires_at: Timestamp,
  /** Absent: it was not mailed. */
  mail: Type.Optional(
    Type.Object({
      sent: Type.Boolean(),
      error: nullable(Type.Object({ code: Type.Enum(channelFaults), detail: Type.String() })),
    }),
  ),
});

/** `POST /invitations/read` */
export const InvitationReading = closed({ token: InvitationToken });

/** Who invites, where to and as what. */
export const InvitationAnswer = Type.Object({
  account_name: Type.String(),
  role: Role,
  /** Null: the link of a first owner, which is for whoever holds it. */
  email: nullable(Type.String()),
  /** The name of the person; null: an API key, or the start of the service. */
  invited_by_name: nullable(Type.String()),
  expires_at: Timestamp,
});
export type InvitationAnswer = Static<typeof InvitationAnswer>;

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
  token: InvitationToken,
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
  invited_by: user.invitedBy,
  came_by: user.cameBy,
  confirmed: user.confirmedAtMs !== null,
  created_at: renderTime(user.createdAtMs),
  last_login_at: renderOptionalTime(user.lastLoginAtMs),
});
