import type { IncomingHttpHeaders } from 'node:http';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes, SealError } from '../../shared/crypto/seal.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { readCookie } from './cookies.ts';
import { sessionsLimits } from './limits.ts';

/** A login that has begun in this browser. */
export interface LoginChallenge<State> {
  /** 256 random bits as base64url; used once. */
  readonly id: string;
  readonly endsAtMs: UnixMillis;
  readonly state: State;
}

/**
 * Keeps a login between its steps in a sealed cookie of its browser: anyone can begin one, so beginning must
 * not fill a table. Only its use is stored, in the transaction of the login, so that of many copies, at any
 * replicas, one succeeds. `purpose` names the kind of login; a cookie of another kind does not open.
 */
export interface LoginChallenges<State> {
  /** `cookie` is the value of a `Set-Cookie` header. */
  begin(state: State): { readonly challenge: LoginChallenge<State>; readonly cookie: string };
  /** Null: this browser has begun none, or its time is over. */
  open(headers: IncomingHttpHeaders): LoginChallenge<State> | null;
  /** False: it was used before. */
  use(tx: Transaction, challenge: LoginChallenge<State>): Promise<boolean>;
  /** The value of a `Set-Cookie` header that takes the cookie away. */
  readonly expiredCookie: string;
}

const idBytes = 32;
const attributes = 'Path=/; Secure; HttpOnly; SameSite=Strict';

export function loginChallenges<State>(
  deps: Pick<BaseDeps, 'clock' | 'random' | 'sealer'>,
  purpose: string,
): LoginChallenges<State> {
  const name = `__Host-agent_trust_${purpose}`;
  const seal = textSeal(deps.sealer, `login/${purpose}`, () => deps.random.bytes(nonceBytes));
  const { loginChallengeMs } = sessionsLimits;
  return {
    begin: (state) => {
      const id = Buffer.from(deps.random.bytes(idBytes)).toString('base64url');
      const challenge = { id, endsAtMs: (deps.clock.now() + loginChallengeMs) as UnixMillis, state };
      const value = seal.seal(JSON.stringify(challenge));
      return {
        challenge,
        cookie: `${name}=${value}; ${attributes}; Max-Age=${loginChallengeMs / secondMs}`,
      };
    },
    open: (headers) => {
      const sealed = readCookie(headers, name);
      if (sealed === null) return null;
      try {
        // Only this service can have sealed it.
        const challenge: LoginChallenge<State> = JSON.parse(seal.open(sealed));
        const leftMs = challenge.endsAtMs - deps.clock.now();
        // One that has more time left than a new one was begun before the clock was set back.
        return leftMs > 0 && leftMs <= loginChallengeMs + sessionsLimits.clockSlackMs ? challenge : null;
      } catch (error) {
        if (error instanceof SealError) return null;
        throw error;
      }
    },
    use: async (tx, { id, endsAtMs }) => {
      await tx`
        DELETE FROM used_login_challenges WHERE challenge_hash = ANY (ARRAY(
          SELECT challenge_hash FROM used_login_challenges WHERE expires_at_ms <= ${deps.clock.now()}
          ORDER BY expires_at_ms LIMIT ${sessionsLimits.usedChallengesPerTrimMax} FOR UPDATE SKIP LOCKED))`;
      const used = await tx`
        INSERT INTO used_login_challenges (challenge_hash, expires_at_ms)
        VALUES (${sha256Hex(id)}, ${endsAtMs}) ON CONFLICT DO NOTHING`;
      return used.count === 1;
    },
    expiredCookie: `${name}=; ${attributes}; Max-Age=0`,
  };
}
