import { type Static, Type } from 'typebox';
import { must } from '../errors/assert.ts';
import { keyPurposes, type VerificationKey } from '../model/signing-key.ts';
import { renderTime } from '../model/time.ts';
import { closed, Timestamp } from './fields.ts';

/** `POST /signing-keys/rotate` (contract §11). `compromised` absent: false. */
export const KeyRotation = closed({
  purpose: Type.Enum(keyPurposes),
  compromised: Type.Optional(Type.Boolean()),
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
