import type { SigningDeps } from '../signing/deps.ts';

export interface SessionDeps extends SigningDeps {
  /** SESSION_IDLE_S and SESSION_MAX_S (docs/people.md). */
  readonly sessionTimes: {
    /** A session ends so long after its last request. */
    readonly idleMs: number;
    /** And so long after the login, whatever happens. */
    readonly totalMs: number;
  };
}
