import { Type } from 'typebox';
import { closed, nullable } from './fields.ts';
import { SessionAnswer } from './session.ts';

/** Longer than any path of the console. The part that is used has its own bound. */
const returnToCharsMax = 2048;
/** Codes in use have at most a kilobyte. */
const codeCharsMax = 4096;

/** `GET /login-methods` */
export const LoginMethodsAnswer = Type.Object({
  passkeys: Type.Boolean(),
  oidc: nullable(Type.Object({ name: Type.String(), available: Type.Boolean() })),
});

/** `POST /session/oidc/begin` */
export const OidcLoginBeginning = closed({
  return_to: Type.Optional(Type.String({ maxLength: returnToCharsMax })),
  account_id: Type.Optional(Type.String({ maxLength: 64 })),
});

export const OidcLoginBegun = Type.Object({ authorization_url: Type.String() });

/** `POST /session/oidc`: the provider's answer to the browser. */
export const OidcLogin = closed({
  code: Type.String({ minLength: 1, maxLength: codeCharsMax }),
  state: Type.String({ minLength: 1, maxLength: 256 }),
  /** RFC 9207; some providers do not send it. */
  iss: Type.Optional(Type.String({ maxLength: 1024 })),
});

export const OidcLoginAnswer = Type.Object({ session: SessionAnswer, return_to: Type.String() });
