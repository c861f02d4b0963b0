import type { CallOptions } from '../../clients/node/src/call-options.ts';
import type { CheckInput, Decision } from '../../clients/node/src/sidecar.ts';
import type { Teardown } from '../../shared/runtime/teardown.ts';
import { InProcessChecks, namedInRequest } from '../intake/in-process/in-process-checks.ts';
import { sidecarMetrics } from '../operations/metrics.ts';
import { coreReadinessOf } from '../operations/readiness.ts';
import type { Core } from '../startup/core.ts';
import type { EmbeddedAgentTrust, EmbeddedCheck } from './embedded-agent-trust.ts';

/** The program's interface to a core. `started` is torn down with it. */
export function embed(core: Core, started: Teardown): EmbeddedAgentTrust {
  const checks = new InProcessChecks(core);
  started.add('checks', () => checks.stop());
  const registry = sidecarMetrics({ ...core, http: null }, false);
  const startedAtMs = core.clock.now();
  let isDraining = false;
  const readiness = () => coreReadinessOf(core, { isDraining, nowMs: core.clock.now(), startedAtMs });

  function check(all: EmbeddedCheck & { readonly gate: string }): Promise<Decision>;
  function check(gateId: string, input: CheckInput, options?: CallOptions): Promise<Decision>;
  function check(
    gate: string | (EmbeddedCheck & { readonly gate: string }),
    input?: CheckInput,
    options: CallOptions = {},
  ): Promise<Decision> {
    return typeof gate === 'object' && gate !== null
      ? checks.ask(gate.gate, gate, gate)
      : checks.ask(gate, input as CheckInput, options);
  }
  return {
    check,
    enforce: (all, options = all ?? {}) => checks.ask(namedInRequest, all, options),
    checkBatch: (gateId, all, options = {}) => checks.askBatch(gateId, all, options),
    reportOutcome: (attestationId, outcome, { mode = 'live' } = {}) =>
      checks.report(attestationId, outcome, mode),
    isReady: () => readiness().status === 'ready',
    readiness,
    metrics: () => registry.metrics(),
    stop: () => {
      isDraining = true;
      return core.close();
    },
  };
}
