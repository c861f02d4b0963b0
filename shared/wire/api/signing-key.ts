import { type Static, Type } from 'typebox';
import { must } from '../../errors/assert.ts';
import { keyPurposes, type VerificationKey } from '../../model/signing-key.ts';
import { renderTime } from '../../model/time.ts';
import { closed, Timestamp } from './fields.ts';

/** A thumbprint (RFC 7638) as base64url. */
const kidCharsMax = 43;

/**
 * `POST /signing-keys/rotate` (contract §11). `compromised` absent: false. `kid`, only with it: which key,
 * also a retired one; absent: the current one.
 */
export const KeyRotation = closed({
  purpose: Type.Enum(keyPurposes),
  compromised: Type.Optional(Type.Boolean()),
  kid: Type.Optional(Type.String({ minLength: 1, maxLength: kidCharsMax })),
});

/** Which key takes over, when, and from which one. */
export const KeyRotationAnswer = Type.Object({
  purpose: Type.Enum(keyPurposes),
  kid: Type.String(),
  not_before: Timestamp,
  previous: Type.Object({ kid: Type.String(), retired_at: Timestamp, compromised: Type.Boolean() }),
});

export const renderKeyRotation = (rotation: {
  readonly next: VerificationKey;
  readonly previous: VerificationKey;
}): Static<typeof KeyRotationAnswer> => ({
  purpose: rotation.next.purpose,
  kid: rotation.next.kid,
  not_before: renderTime(rotation.next.notBeforeMs),
  previous: {
    kid: rotation.previous.kid,
    retired_at: renderTime(must(rotation.previous.retiredAtMs, 'a key that was replaced is retired')),
    compromised: rotation.previous.compromised,
  },
});
