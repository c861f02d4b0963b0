import { Type } from 'typebox';
import { keyPurposes } from '../../model/signing-key.ts';
import { nullable, Timestamp } from './fields.ts';

/** `GET /.well-known/jwks.json` (contract §11, RFC 7517, RFC 8037). Rendered by `renderJwks`. */
export const JwksAnswer = Type.Object({
  /** The history of the database (contract §17); absent while it cannot be read. */
  generation: Type.Optional(Type.String()),
  keys: Type.Array(
    Type.Object({
      kty: Type.Literal('OKP'),
      crv: Type.Literal('Ed25519'),
      alg: Type.Literal('EdDSA'),
      use: Type.Literal('sig'),
      kid: Type.String(),
      purpose: Type.Enum(keyPurposes.filter((purpose) => purpose !== 'sync')),
      x: Type.String(),
      nbf: Type.Integer(),
      retired_at: nullable(Timestamp),
      compromised: Type.Boolean(),
    }),
  ),
});
