import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { decisionSlots } from '../../../control-plane/admission/decision-slots.ts';
import { build } from '../../../control-plane/app.ts';
import type { Database } from '../../../control-plane/base/database.ts';
import { CheckQueue } from '../../../control-plane/decisions/check-queue.ts';
import type { Deps } from '../../../control-plane/deps.ts';
import { loginAttempts } from '../../../control-plane/people/login-attempts.ts';
import { loadSigningKeys } from '../../../control-plane/signing/load-signing-keys.ts';
import { countCost } from '../base/costs.ts';
import type { Api, Reply } from './api.ts';

/**
 * Another replica of the control plane of a test: the same database, clock and bus, and signing keys and a
 * memory of its own.
 */
export interface SecondControlPlane {
  /** It hears of changed keys when somebody follows or reloads them here. */
  readonly deps: Deps;
  readonly app: FastifyInstance;
  /** As `Api.call`. Default: with the operator's admin key. */
  call(url: string, body?: unknown, key?: string): Promise<Reply>;
  close(): Promise<void>;
}

/** `sql`: another pool. Default: the one of the test. */
export async function secondControlPlane(
  api: Api,
  sql: Database = api.deps.sql,
): Promise<SecondControlPlane> {
  countCost('services');
  const slots = decisionSlots(api.deps.shares.decisions);
  const deps: Deps = {
    ...api.deps,
    sql,
    slots,
    checks: new CheckQueue({ slots, clock: api.deps.clock }),
    signingKeys: await loadSigningKeys(api.deps),
    loginAttempts: loginAttempts(api.deps),
    metrics: new Registry(),
    replicaId: 'second-replica-of-a-test',
  };
  const app = build(deps);
  await app.ready();
  return {
    deps,
    app,
    call: async (url, body, key = api.adminKey) => {
      const response = await app.inject({
        method: body === undefined ? 'GET' : 'POST',
        url,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      });
      return { status: response.statusCode, body: response.json(), headers: response.headers };
    },
    close: () => app.close(),
  };
}
