import { answerChallenge, findProofFault, type SignedAnswer } from '../../shared/attestation/answer-proof.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { UserId } from '../../shared/model/ids.ts';
import type { AnswerProof } from '../../shared/wire/evidence/answer-proof.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { relyingPartyOf } from '../people/relying-party.ts';
import { CeremonyRefused, publicJwkOf, readAssertion, verifyAssertion } from './ceremonies.ts';
import { passkeysLimits } from './limits.ts';
import { ownRelyingParty } from './own-relying-party.ts';
import { findPresentedPasskey, listPasskeys, usePasskey } from './passkey-store.ts';

type ProofDeps = Pick<BaseDeps, 'clock' | 'logger' | 'baseUrl'>;

/** What a browser needs to have an answer signed. */
export interface SigningPasskeys {
  readonly rpId: string;
  readonly credentialIds: readonly string[];
}

/** Null: browsers keep no passkeys for this service's address. */
export async function signingPasskeysOf(
  sql: Database,
  { baseUrl }: Pick<BaseDeps, 'baseUrl'>,
  userId: UserId,
): Promise<SigningPasskeys | null> {
  const relyingParty = relyingPartyOf(baseUrl);
  if (relyingParty === null) return null;
  const own = await listPasskeys(sql, userId);
  return { rpId: relyingParty.id, credentialIds: own.map(({ credentialId }) => credentialId) };
}

/**
 * The proof that a passkey of this user has signed this answer, from what the browser gave. Uses the
 * passkey's counter. Throws `passkey_refused`; the cause is in the log.
 */
export async function proveAnswer(
  tx: Transaction,
  deps: ProofDeps,
  {
    userId,
    signed,
    response,
  }: { readonly userId: UserId; readonly signed: SignedAnswer; readonly response: object },
): Promise<AnswerProof> {
  const relyingParty = ownRelyingParty(deps);
  const named = readAssertion(response);
  const passkey = named === null ? null : await findPresentedPasskey(tx, named.credentialId);
  const isOwn = passkey?.userId === userId && (named?.userHandle ?? userId) === userId;
  if (passkey === null || !isOwn) throw refused(deps, userId, 'it is no passkey of this person');
  try {
    const given = signedPartsOf(response);
    const challenge = answerChallenge(signed);
    const counter = await verifyAssertion(relyingParty, response, { challenge, credential: passkey });
    const proof: AnswerProof = {
      passkey_id: passkey.passkeyId,
      credential_id: passkey.credentialId,
      public_key: await publicJwkOf(passkey.publicKey),
      policy_hash: signed.policy_hash,
      rp_id: relyingParty.id,
      origin: relyingParty.origin,
      ...given,
    };
    // What is stored has to convince those who have nothing else.
    const fault = findProofFault(signed, proof);
    if (fault !== null) throw new CeremonyRefused(fault);
    if (!(await usePasskey(tx, passkey.passkeyId, { counter, nowMs: deps.clock.now() })))
      throw new CeremonyRefused('its counter went back');
    return proof;
  } catch (error) {
    if (!(error instanceof CeremonyRefused)) throw error;
    throw refused(deps, userId, error.message);
  }
}

function refused({ logger }: Pick<ProofDeps, 'logger'>, userId: UserId, failure: string): ApiError {
  logger.warn({ user_id: userId, failure }, 'the passkey of an answer was refused');
  return new ApiError('passkey_refused');
}

/** The parts of a browser's answer that prove it to others. */
function signedPartsOf(
  response: object,
): Pick<AnswerProof, 'authenticator_data' | 'client_data_json' | 'signature'> {
  const parts = (response as { readonly response?: unknown }).response;
  const text = (name: string): string => {
    const value: unknown = typeof parts === 'object' && parts !== null ? Reflect.get(parts, name) : undefined;
    if (typeof value === 'string' && value.length <= passkeysLimits.assertionPartCharsMax) return value;
    throw new CeremonyRefused(`${name} is missing or too long`);
  };
  return {
    authenticator_data: text('authenticatorData'),
    client_data_json: text('clientDataJSON'),
    signature: text('signature'),
  };
}
