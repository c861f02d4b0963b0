import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Installation } from './installation.ts';
import type { Program } from './programs.ts';
import type { Load } from './wrk.ts';

/**
 * The gate of the measurement: permission, domain and a limit per transaction, all of them reached by the
 * request.
 */
export const domain = 'api.example.com';
export const perTransactionUsd = 500;
export const request = {
  permission_key: 'orders:create',
  amount: 12.5,
  currency: 'USD',
  domain,
  order: { sku: 'A-1027', quantity: 3, note: 'leave at the door' },
};

/** Rows may have an installation in common, and an agent has one passport. */
export const newAgent = (): string => `bench-agent-${randomUUID()}`;

/** The gate, a passport for it, and the request that it permits. */
export async function benchGate(
  installation: Installation,
  agentId = newAgent(),
): Promise<{ readonly gateId: string; readonly passport: string; readonly request: object }> {
  const gate = await installation.api('POST', '/gates', {
    name: 'bench',
    trust_level: 'L1',
    constraints: { allowed_domains: [domain], spend_limits: { per_transaction_usd: perTransactionUsd } },
  });
  const passport = await installation.api('POST', '/passports', {
    agent_id: agentId,
    permissions: ['orders:create'],
  });
  return { gateId: String(gate['gate_id']), passport: String(passport['jwt']), request };
}

/** Headers of a check. */
export const headersOf = ({ apiKey }: Pick<Installation, 'apiKey'>): Readonly<Record<string, string>> => ({
  Authorization: `Bearer ${apiKey}`,
  'Content-Type': 'application/json',
});

/** Asks the sidecar with this body; `below`: what follows the address of the check. */
export const checkLoad = (
  { sidecarOrigin, apiKey }: Pick<Installation, 'sidecarOrigin' | 'apiKey'>,
  of: {
    readonly gateId: string;
    readonly body: object;
    readonly scriptPath: string;
    readonly below?: string;
  },
): Load => ({
  url: `${sidecarOrigin}/v1/gates/${of.gateId}/check${of.below ?? ''}`,
  headers: headersOf({ apiKey }),
  body: JSON.stringify(of.body),
  scriptPath: of.scriptPath,
});

/** The request of row `warm` at a new gate of this installation. */
export async function warmLoad(
  { folder }: { readonly folder: string },
  installation: Installation,
  name: string,
): Promise<{ readonly program: Program; readonly load: Load; readonly shipped: () => Promise<void> }> {
  const { gateId, passport, request } = await benchGate(installation);
  const scriptPath = join(folder, `${name}.lua`);
  return {
    program: installation.sidecar,
    load: checkLoad(installation, { gateId, body: { passport, request }, scriptPath }),
    shipped: () => allShipped(installation, [gateId]),
  };
}

const shippedMsMax = 180_000;
/** Between two questions about what has not been shipped; the first ones come sooner. */
const lookMsMax = 500;

/**
 * Until the control plane has counted every decision that the sidecar has made, and `others` that another
 * program has made, at these gates.
 */
export const allShipped = (
  installation: Installation,
  gateIds: readonly string[],
  others = 0,
): Promise<void> => installation.withAllCores(() => untilShipped(installation, gateIds, others));

async function untilShipped(
  installation: Installation,
  gateIds: readonly string[],
  others: number,
): Promise<void> {
  const deadline = performance.now() + shippedMsMax;
  // Asked of the sidecar, because each question to the control plane takes from what is waited for; and not
  // of its metrics, because it is charged for its answers, and those cost it 2 to 5 ms of the processor each.
  for (
    let lookMs = 20;
    (await installation.sidecarWaitingBytes()) > 0;
    lookMs = Math.min(2 * lookMs, lookMsMax)
  ) {
    if (performance.now() > deadline) break;
    await pause(lookMs);
  }
  if (installation.isCommon) return;
  for (;;) {
    let taken = 0;
    for (const gateId of gateIds) {
      const { stats } = await installation.api('GET', `/gates/${gateId}`);
      taken += (stats as { readonly total_requests: number }).total_requests;
    }
    // Each time anew: requests that wrk has left behind unanswered may have been decided only now.
    const decided = others + (await installation.sidecarMetric('agent_trust_sidecar_decisions_total'));
    if (taken === decided) return;
    if (performance.now() > deadline)
      throw new Error(`${decided - taken} of ${decided} records are still not shipped`);
    await pause(100);
  }
}
