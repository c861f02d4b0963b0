import { expect, it } from 'vitest';
import { callGuard } from '../../../mcp-proxy/guard-calls.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';

it('a call is checked in the trace that its message names, else in that of its HTTP request', async () => {
  const traces: (string | undefined)[] = [];
  const states: (string | undefined)[] = [];
  const guard = callGuard({
    sidecar: {
      check: async (_gate, _input, options = {}) => {
        traces.push(options.traceparent);
        states.push(options.tracestate);
        return { decision: 'PERMIT', reason: null, attestation_id: 'att_1', constraints_evaluated: [] };
      },
    },
    ...{
      controlPlaneUrl: 'http://127.0.0.1:8080',
      gate: 'gate_1',
      amounts: new Map(),
      settlements: new Map(),
      hidden: [],
    },
    ...{ takesIdempotencyKeys: false, servesWithoutDecision: false, logger: silentLogger },
  });
  const headers: Readonly<Record<string, string>> = {
    'x-agent-passport': 'token',
    traceparent: 'of HTTP',
    tracestate: 'http=1',
  };
  const call = (meta: object, shown: Readonly<Record<string, string>> = headers) =>
    guard(
      { method: 'tools/call', as: null, params: { name: 'pay', arguments: {}, _meta: meta } } as never,
      (name) => shown[name],
    );
  expect(await call({ traceparent: 'of the message' })).toBeNull();
  expect(await call({})).toBeNull();
  expect(await call({ traceparent: 7 }, { 'x-agent-passport': 'token' })).toBeNull();
  expect(await call({ traceparent: 'of the message', tracestate: 'message=1' })).toBeNull();
  expect(traces).toEqual(['of the message', 'of HTTP', undefined, 'of the message']);
  expect(states).toEqual([undefined, 'http=1', undefined, 'message=1']);
});
