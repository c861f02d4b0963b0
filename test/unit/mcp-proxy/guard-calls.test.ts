import { expect, it } from 'vitest';
import type { Suspend } from '../../../clients/node/src/generated/api.ts';
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

it.each(['https://trust.example.com/console/approvals/appr_1', undefined])(
  'a call that waits for a person names the page that the service names: %s',
  async (approval_url) => {
    const suspend: Suspend = {
      ...{
        decision: 'SUSPEND',
        reason: 'approval_required',
        attestation_id: null,
        constraints_evaluated: [],
      },
      ...{ approval_id: 'appr_1', expires_at: '2026-11-30T00:00:00.000Z' },
      ...(approval_url !== undefined && { approval_url }),
    };
    const guard = callGuard({
      sidecar: { check: async () => suspend },
      ...{ controlPlaneUrl: 'http://control-plane.internal:8080', gate: 'gate_1', amounts: new Map() },
      ...{ settlements: new Map(), hidden: [], takesIdempotencyKeys: false, servesWithoutDecision: false },
      logger: silentLogger,
    });
    const params = { name: 'pay', arguments: {} };
    const told = JSON.stringify(
      await guard({ method: 'tools/call', as: null, params } as never, (name) =>
        name === 'x-agent-passport' ? 'token' : undefined,
      ),
    );
    expect(told).toContain(`Ask for that at ${approval_url ?? 'approval appr_1'} before`);
    expect(told).not.toContain('internal:8080/console');
  },
);
