import type { CallOptions } from '../../clients/node/src/call-options.ts';
import type { AgentTrustError } from '../../clients/node/src/errors.ts';
import type { CheckInput, Decision, OutcomeReport } from '../../clients/node/src/sidecar.ts';

/** May this passport do this? */
export interface EmbeddedCheck extends CheckInput, CallOptions {
  /** Synonym of `request.idempotency_key` (contract §5). */
  readonly idempotencyKey?: string;
}

/**
 * The decisions of a sidecar inside this process: the same gates, limits and records, without a socket
 * (docs/integrations/embedded.md). Decisions are those of `Sidecar` of `@agent-trust/node`, and guards take
 * one in its place. UNAVAILABLE means no decision. Errors that a retry cannot cure are thrown as
 * AgentTrustError: an unknown gate, an invalid request, a suspended account.
 *
 * No call waits longer than 3 s. `request` is read as `JSON.stringify` writes it, before the call returns.
 */
export interface EmbeddedAgentTrust {
  check(check: EmbeddedCheck & { readonly gate: string }): Promise<Decision>;
  /** The same with the arguments of `Sidecar.check`. */
  check(gateId: string, input: CheckInput, options?: CallOptions): Promise<Decision>;
  /** For `request.gate_id`; without one, the passport alone is checked (contract §5). */
  enforce(check: EmbeddedCheck, options?: CallOptions): Promise<Decision>;
  /** 1 to 256 checks at one gate, in order. A faulty check gets an error in its place (contract §16). */
  checkBatch(
    gateId: string,
    checks: readonly CheckInput[],
    options?: CallOptions,
  ): Promise<readonly (Decision | AgentTrustError)[]>;
  /**
   * How the service ended that a PERMIT allowed (contract §19). Resolves when it is in the spool, from which
   * it is shipped once. `mode`: of the gate; default live. Throws AgentTrustError for what is no outcome, and
   * where none can be taken now.
   */
  reportOutcome(
    attestationId: string,
    outcome: OutcomeReport,
    options?: CallOptions & { readonly mode?: 'live' | 'test' },
  ): Promise<void>;
  /**
   * It has a state to decide on and accepts records. It stays ready while the control plane is away: how long
   * gates decide without it depends on their trust level (contract §4).
   */
  isReady(): boolean;
  /** The `/readyz` of a sidecar without its server (docs/sidecar-http.md). */
  readiness(): Readonly<Record<string, unknown>>;
  /**
   * The metrics of a sidecar in the text format of Prometheus, without HTTP and process (docs/metrics.md).
   */
  metrics(): Promise<string>;
  /**
   * New checks are UNAVAILABLE; those in flight are answered. Resolves when the records are on disk, shipped
   * as far as 10 s allow, and leased units are given back; the next start with `dataDir` ships the rest.
   * Never rejects; a second call waits for the first. Records are safe without it, too.
   */
  stop(): Promise<void>;
}
