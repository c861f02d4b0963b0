import type { Logger } from '../../shared/runtime/logger.ts';
import { ControlPlaneError } from './control-plane-error.ts';
import { replicaLimits } from './limits.ts';

/** See the diagram of `Contact`. `problem`: why the last call failed. */
type ContactState =
  | { readonly kind: 'none yet' }
  | { readonly kind: 'in touch' }
  | { readonly kind: 'away'; readonly problem: string }
  /** `why`: for the callers of this sidecar, with the remedy. */
  | { readonly kind: 'turned away'; readonly problem: string; readonly why: string }
  | { readonly kind: 'superseded'; readonly problem: string };

/**
 * The state of contact with the control plane, and its log.
 *
 *     none yet ──┬──> in touch <──────────┐
 *                │       │ a call fails   │ a round succeeds
 *                │       v                │
 *                ├──> away ───────────────┤
 *                │       │ key or folder is refused
 *                │       v                │
 *                └──> turned away ────────┘   (other failures leave it there)
 *
 *     any of them ──another process connects with the id──> superseded ──a round succeeds──> in touch
 *
 * `superseded` ends where the connection of the other process turns out never to have been used.
 */
export class Contact {
  readonly #logger: Logger;
  readonly #folder: string;
  #state: ContactState = { kind: 'none yet' };
  /** Causes logged since the control plane last answered. */
  readonly #told = new Set<string>();

  constructor({ logger, folder }: { readonly logger: Logger; readonly folder: string }) {
    this.#logger = logger;
    this.#folder = folder;
  }

  get kind(): ContactState['kind'] {
    return this.#state.kind;
  }

  get problem(): string | null {
    return 'problem' in this.#state ? this.#state.problem : null;
  }

  /** Why this sidecar must not decide; null: the control plane has not refused it. */
  get refusal(): string | null {
    if (this.#state.kind === 'superseded')
      return 'Another process has connected with the id of this sidecar.';
    return this.#state.kind === 'turned away' ? this.#state.why : null;
  }

  /** A round has succeeded. */
  succeed(): void {
    if (this.problem !== null) this.#logger.info({}, 'changes are received from the control plane again');
    this.#state = { kind: 'in touch' };
    this.#told.clear();
  }

  fail(error: unknown): void {
    const before = this.#state;
    const after = afterFailure(before, error);
    this.#state = after;
    const { problem } = after;
    if (after.kind === 'superseded' && before.kind === 'superseded') return;
    if (after.kind === 'superseded') {
      this.#logger.error(
        {},
        'another process has connected with this sidecar id; this one receives no changes and ships no records any more',
      );
    } else if (after.kind === 'turned away' && after.why !== whyOf(before)) {
      this.#logger.error({ problem, folder: this.#folder }, after.why);
    } else if (this.#isNews(problem)) {
      this.#logger.warn(
        { problem },
        'changes cannot be fetched from the control plane; the last known state stays in use and ages',
      );
    }
  }

  /** Each cause once until the control plane answers again, at most `causesToldMax`. */
  #isNews(problem: string): boolean {
    const cause = problem.replace(/^\w+: /, '');
    if (this.#told.has(cause) || this.#told.size >= replicaLimits.causesToldMax) return false;
    this.#told.add(cause);
    return true;
  }
}

const whyOf = (state: ContactState): string | null => (state.kind === 'turned away' ? state.why : null);

function afterFailure(
  before: ContactState,
  error: unknown,
): Extract<ContactState, { readonly problem: string }> {
  const problem = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ControlPlaneError)) return withoutAnswer(before, problem);
  if (error.isSuperseded) return { kind: 'superseded', problem };
  const why = reasonTurnedAway(error);
  return why === null ? withoutAnswer(before, problem) : { kind: 'turned away', problem, why };
}

const withoutAnswer = (before: ContactState, problem: string) =>
  before.kind === 'turned away' || before.kind === 'superseded'
    ? { ...before, problem }
    : ({ kind: 'away', problem } as const);

/** Null: another error. */
function reasonTurnedAway(error: ControlPlaneError): string | null {
  if (error.refusesKey) {
    return "The control plane does not accept this sidecar's API key. It decides nothing until it does: set SIDECAR_API_KEY to a key with the scope sidecars:connect.";
  }
  if (error.refusesSidecarId) {
    return 'The folder of this sidecar belongs to another account than its API key. It decides nothing. Set DATA_DIR to the folder of this account, or to an empty one.';
  }
  return null;
}
