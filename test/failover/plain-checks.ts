import { repeat } from '../../shared/runtime/repeat.ts';
import type { Servers } from '../race/servers.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import type { Installation } from '../support/programs/installation.ts';

/** Checks that need no database: none may ever be refused. */
export interface PlainChecks {
  /** Attestations of the PERMITs. */
  readonly ids: readonly string[];
  readonly refusals: readonly string[];
  stop(): Promise<void>;
}

const everyMs = 100;

/** At a gate without limits, and at one with far more room than is asked for, each sidecar asked in turn. */
export async function startPlainChecks(world: Installation, servers: Servers): Promise<PlainChecks> {
  const gateId = await world.createGate();
  const { token } = await world.issuePassport();
  const ids: string[] = [];
  const refusals: string[] = [];
  const check = (origin: string) =>
    call(`${origin}/v1/gates/${gateId}/check`, {
      key: servers.key,
      body: { passport: token, request: { permission_key: 'orders:create' } },
    });
  // A sidecar hears of a new gate a moment later.
  for (const origin of servers.sidecars)
    await until(async () => (await check(origin)).status === 200, { what: `the gate at ${origin}` });
  const ask = async (origin: string): Promise<void> => {
    const reply = await check(origin).catch((error: unknown) => ({
      status: 0,
      body: { error: String(error) },
    }));
    if (reply.status === 200 && reply.body.decision === 'PERMIT') ids.push(reply.body.attestation_id);
    else refusals.push(`${new Date().toISOString()} ${origin} ${reply.status} ${JSON.stringify(reply.body)}`);
  };
  const running = servers.sidecars.map((origin) =>
    repeat(async () => {
      await ask(origin);
      return everyMs;
    }),
  );
  return {
    ids,
    refusals,
    stop: async () => {
      await Promise.all(running.map((each) => each.stop()));
    },
  };
}
