import { randomUUID } from 'node:crypto';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { federatedPassportId } from '../../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../../shared/model/ids.ts';
import { secondMs } from '../../../shared/model/time.ts';
import { type DecisionCase, passportLifeMs } from './decision-case.ts';

/** The issuer of others of the cases: one key for all, and a name for each issuer here. */
const signer = chooseEd25519().signer(new Uint8Array(32).fill(9));

/** Whose tokens an issuer takes is not known before it has an id: `aud` tells issuers apart. */
let audiences = 0;
const audienceOf = new Map<string, string>();

const issuerName = 'https://others.example';
const keys = [
  { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', kid: 'others', x: encodeBase64url(signer.publicKey) },
];

/** The `federation` of `POST /issuers` with the terms of the passport of a case. */
export function federationOf(passport: DecisionCase['passport'], audience: string) {
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

/** The body of `POST /issuers` for a case; the next `othersPassport` is of it. */
export function issuerBodyOf(passport: DecisionCase['passport']): object {
  if (passport.issued_by !== 'others') return {};
  audiences += 1;
  return { federation: federationOf(passport, `gates ${audiences}`) };
}

/** A token of a new subject of the issuer that was registered last. */
export async function othersPassport(issuerId: IssuerId, nowMs: number) {
  const audience = audienceOf.get(issuerId) ?? `gates ${audiences}`;
  audienceOf.set(issuerId, audience);
  const subject = `subject ${randomUUID()}`;
  const jwt = othersToken({ subject, audience, nowMs });
  return { passport_id: federatedPassportId(issuerId, subject), agent_id: subject, jwt };
}

export function othersToken(about: {
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
  const encode = (value: object) => encodeBase64url(Buffer.from(JSON.stringify(value)));
  const input = `${encode({ alg: 'EdDSA', kid: 'others', typ: 'JWT' })}.${encode(claims)}`;
  return `${input}.${encodeBase64url(signer.sign(Buffer.from(input)))}`;
}
