import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { es256Verifier } from '../../shared/crypto/es256.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { PresentedProof, VerifiedPassport } from '../../shared/decision/facts.ts';
import { type OpenedProof, openProof } from '../../shared/verification/open-proof.ts';
import type { DecidingDeps } from './deps.ts';
import type { EnforcementCall } from './enforcement.ts';
import { claimProofs } from './used-proof-store.ts';

/** A request that waits is decided several times, and uses its proof once. */
const claims = new WeakMap<object, string>();

/**
 * The call with what its proof of possession is worth. A replica claims the first use in the database for
 * either kind of replay: it has no other memory that all replicas share. A gate test uses up nothing.
 */
export async function prove(deps: DecidingDeps, call: EnforcementCall): Promise<EnforcementCall> {
  const { verdict, request } = call;
  if (verdict.kind === 'refused') return call;
  // A proof is bound to the token, which is not here.
  if (verdict.kind === 'named') return { ...call, request: { ...request, proof: { kind: 'invalid' } } };
  return { ...call, request: { ...request, proof: await proofOf(deps, call, verdict.passport) } };
}

async function proofOf(
  deps: DecidingDeps,
  { asked, token, isTest }: EnforcementCall,
  passport: VerifiedPassport,
): Promise<PresentedProof> {
  const opened = openProof(asked['proof'], { ...passport, token });
  if (opened === null || !isSigned(deps.ed25519, opened)) return { kind: 'invalid' };
  const { scheme, fromMs, untilMs } = opened;
  const nowMs = deps.clock.now();
  // One that is out of time takes no place among those that were used.
  if (nowMs < fromMs || nowMs > untilMs) return { kind: 'invalid' };
  const verified = { kind: 'verified', scheme, fromMs, untilMs, firstUse: 'exact' } as const;
  if (isTest) return verified;
  const use = { proof: idDigest(opened.replayName), claim: claimOf(deps, asked) };
  const [isFirst] = await claimProofs(deps.sql, [use], nowMs);
  return isFirst === true ? verified : { kind: 'replayed' };
}

/** On this thread: beside the transaction of a decision a signature costs little. */
function isSigned(ed25519: Ed25519, { key, signedText, signature }: OpenedProof): boolean {
  const verify = key.algorithm === 'ES256' ? es256Verifier(key.bytes) : ed25519.verifier(key.bytes);
  return verify(Buffer.from(signedText, 'latin1'), signature);
}

function claimOf({ random }: Pick<DecidingDeps, 'random'>, asked: object): string {
  const known = claims.get(asked);
  if (known !== undefined) return known;
  const claim = `control-plane ${encodeBase64url(random.bytes(16))}`;
  claims.set(asked, claim);
  return claim;
}
