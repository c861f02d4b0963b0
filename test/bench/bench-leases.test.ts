import { expect, it } from 'vitest';
import { countingCalls, type LeaseCost } from '../../bench/rows/leases.ts';

it('row `leases` counts a failed call as a call', async () => {
  const counts = new Map([
    ['agent_trust_sidecar_decisions_total', 5],
    ['agent_trust_sidecar_lease_calls_total', 2],
    ['agent_trust_sidecar_lease_failures_total', 1],
    ['agent_trust_sidecar_lease_asks_total', 0],
  ]);
  const add = (name: string, more: number) => counts.set(name, (counts.get(name) ?? 0) + more);
  const figure = { perSecond: 1_000, perCpuSecond: 1_000, coresBusy: 1 };
  const load = async () => {
    add('agent_trust_sidecar_decisions_total', 1_000);
    add('agent_trust_sidecar_lease_calls_total', 3);
    add('agent_trust_sidecar_lease_failures_total', 4);
    add('agent_trust_sidecar_lease_asks_total', 20);
    return figure;
  };
  const sidecar = { sidecarMetric: async (name: string) => counts.get(name) ?? Number.NaN };
  const costs: LeaseCost[] = [];
  const side = countingCalls({ name: 'a gate with limits', measure: load }, sidecar, costs);
  expect(await side.measure(1)).toEqual(figure);
  expect(costs).toEqual([{ decisions: 1_000, calls: 7, waits: 20 }]);
});
