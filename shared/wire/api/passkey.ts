import { type Static, Type } from 'typebox';
import type { Passkey } from '../../model/passkey.ts';
import { renderOptionalTime, renderTime } from '../../model/time.ts';
import { closed, FreeForm, Name, nullable, Timestamp } from './fields.ts';
import { PageAnswer } from './paging.ts';

export const PasskeyAnswer = Type.Object({
  passkey_id: Type.String(),
  name: Type.String(),
  created_at: Timestamp,
  last_used_at: nullable(Timestamp),
});

export const PasskeyListAnswer = PageAnswer(PasskeyAnswer);

/** Options for the browser; WebAuthn Level 3 defines the members. */
export const PasskeyOptions = Type.Object({ options: FreeForm });

/** `POST /users/me/passkeys`: the browser's answer, as `toJSON()` of WebAuthn Level 3 writes it. */
export const PasskeyCreation = closed({ name: Name, response: FreeForm });

/** `PATCH /users/me/passkeys/:id` */
export const PasskeyUpdate = closed({ name: Name });

/** `POST /session/passkey` */
export const PasskeyLogin = closed({ response: FreeForm });

export const renderPasskey = (passkey: Passkey): Static<typeof PasskeyAnswer> => ({
  passkey_id: passkey.passkeyId,
  name: passkey.name,
  created_at: renderTime(passkey.createdAtMs),
  last_used_at: renderOptionalTime(passkey.lastUsedAtMs),
});
