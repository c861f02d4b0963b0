import type { AgentKey } from '../crypto/agent-key.ts';
import { proofLimits } from '../model/proof.ts';
import type { UnixMillis } from '../model/time.ts';

/** The passport that a proof is about. */
export interface ProvenPassport {
  /** As it was shown. */
  readonly token: string;
  /** Hex SHA-256 of it. */
  readonly tokenHash: string;
  readonly key: AgentKey;
}

/** The request as the resource server saw it. */
export interface SeenRequest {
  readonly method: string;
  readonly url: URL;
  /** Path and query of `url` as they were sent: what is signed is this text, and no normal form of it. */
  readonly target: string;
  /** What the resource server has demanded; null: nothing. */
  readonly nonce: string | null;
  /** RFC 9530, of the body that it got. Null: it was given none. */
  readonly contentDigest: string | null;
  /** Values by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
}

/** What a proof says about itself, with everything but its signature checked. */
export interface ProofTerms {
  /** ASCII; its bytes were signed. */
  readonly signedText: string;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
  /** `jti` or `nonce`: the agent uses it once. */
  readonly nonce: string;
}

export const isNonce = (value: unknown): value is string =>
  typeof value === 'string' && value.length >= 1 && value.length <= proofLimits.nonceCharsMax;
