import { randomUUID } from 'node:crypto';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { federatedPassportId } from '../../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../../shared/model/ids.ts';
import { secondMs } from '../../../shared/model/time.ts';
import { type DecisionCase, passportLifeMs } from './decision-case.ts';

/** The issuer of others of the cases: one key for all, and a name for each issuer here. */
const signer = chooseEd25519().signer(new Uint8Array(32).fill(9));

/** `aud` tells apart whose tokens an issuer takes. */
let audiences = 0;
export const newAudience = (): string => `gates ${++audiences}`;

export const issuerName = 'https://others.example';
const keys = [
  { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', kid: 'others', x: encodeBase64url(signer.publicKey) },
];

/** The `federation` of `POST /issuers` with the terms of the passport of a case. */
export function federationOf(
  passport: Pick<DecisionCase['passport'], 'permissions' | 'trust_tier' | 'constraints'>,
  audience: string,
) {
  return {
    type: 'jwks' as const,
    issuer: issuerName,
    jwks: { keys },
    audiences: [audience],
    permissions: [...passport.permissions],
    trust_tier: passport.trust_tier,
    constraints: passport.constraints,
  };
}

/** A token of a new subject of this issuer. */
export function othersPassport(of: {
  readonly issuerId: string;
  readonly audience: string;
  readonly nowMs: number;
}) {
  const subject = `subject ${randomUUID()}`;
  const jwt = othersToken({ subject, audience: of.audience, nowMs: of.nowMs });
  return { passport_id: federatedPassportId(of.issuerId as IssuerId, subject), agent_id: subject, jwt };
}

function othersToken(about: {
  readonly subject: string;
  readonly audience: string;
  readonly nowMs: number;
}): string {
  const iat = Math.floor(about.nowMs / secondMs);
  const claims = {
    iss: issuerName,
    sub: about.subject,
    aud: about.audience,
    iat,
    exp: iat + passportLifeMs / secondMs,
  };
  return signedByOthers(claims);
}

/** Any claims and header, as they are, signed by the key of this issuer. */
export function signedByOthers(claims: object, header: object = {}): string {
  const encode = (value: object) => encodeBase64url(Buffer.from(JSON.stringify(value)));
  const input = `${encode({ alg: 'EdDSA', kid: 'others', typ: 'JWT', ...header })}.${encode(claims)}`;
  return `${input}.${encodeBase64url(signer.sign(Buffer.from(input)))}`;
}
