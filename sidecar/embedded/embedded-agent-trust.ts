import type { CallOptions } from '../../clients/node/src/call-options.ts';
import type { AgentTrustError } from '../../clients/node/src/errors.ts';
import type { CheckInput, Decision } from '../../clients/node/src/sidecar.ts';

/** May this passport do this? */
export interface EmbeddedCheck extends CheckInput, CallOptions {
  /** The same as `request.idempotency_key`, which may be given in its place (contract §5). */
  readonly idempotencyKey?: string;
}

/**
 * The decisions of a sidecar inside this process: the same gates, limits and records, without a socket
 * (docs/integrations/embedded.md). Decisions are those of `Sidecar` of `@agent-trust/node`, and guards take
 * one in its place. UNAVAILABLE says that there is no decision; what a repetition cannot cure is thrown as an
 * AgentTrustError: an unknown gate, a wrong request, a suspended account.
 *
 * No call waits longer than 3 s. `request` is read as `JSON.stringify` writes it, before the call returns.
 */
export interface EmbeddedAgentTrust {
  check(check: EmbeddedCheck & { readonly gate: string }): Promise<Decision>;
  /** The same with the arguments of `Sidecar.check`. */
  check(gateId: string, input: CheckInput, options?: CallOptions): Promise<Decision>;
  /** For `request.gate_id`; without one, the passport alone is checked (contract §5). */
  enforce(check: EmbeddedCheck, options?: CallOptions): Promise<Decision>;
  /**
   * 1 to 256 checks at one gate, in order. What is wrong with one is an error in its place (contract §16).
   */
  checkBatch(
    gateId: string,
    checks: readonly CheckInput[],
    options?: CallOptions,
  ): Promise<readonly (Decision | AgentTrustError)[]>;
  /**
   * It has a state to decide on and takes records. A control plane that is away does not change that: how
   * long gates decide without it depends on their trust level (contract §4).
   */
  isReady(): boolean;
  /** What a sidecar answers at `/readyz`, but for its server (docs/sidecar-http.md). */
  readiness(): Readonly<Record<string, unknown>>;
  /**
   * The figures of a sidecar in the text form of Prometheus, but for HTTP and the process (docs/metrics.md).
   */
  metrics(): Promise<string>;
  /**
   * Checks are UNAVAILABLE from now on; those under way are answered. Resolves when the records are on disk,
   * and shipped as far as 10 s allow, and what was leased is given back; the next start with `dataDir` ships
   * the rest. Never rejects; a second call waits for the first. Without it the records are safe all the same.
   */
  stop(): Promise<void>;
}
