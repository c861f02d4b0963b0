import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../../control-plane/base/database.ts';
import { repeat } from '../../shared/runtime/repeat.ts';
import type { Servers } from '../race/servers.ts';
import type { Chance } from '../support/base/chance.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import type { Installation, Running } from '../support/programs/installation.ts';
import { Progress, type ProgressWatch } from './watches.ts';

/** What administrators change meanwhile, each until it is answered. */
export interface Changes extends ProgressWatch {
  readonly issued: readonly Issued[];
  /** Sentences about answers that must not be. */
  readonly wrong: readonly string[];
  said(): string;
  stop(): Promise<void>;
}

interface Issued {
  readonly agentId: string;
  readonly passportId: string;
  readonly token: string;
  isRevoked: boolean;
}

const everyMs = 100;
/** A failover may take a minute on a busy machine. */
const retryMsMax = 180_000;

/**
 * Issues passports and revokes two of three, at either control plane. A change without an answer is repeated.
 */
export function startChanges(servers: Servers, chance: Chance): Changes {
  const progress = new Progress();
  const issued: Issued[] = [];
  const wrong: string[] = [];
  let repeated = 0;
  let n = 0;

  /** Null: no answer in its time, or none that a caller may expect. */
  const change = async (path: string, key: string, body: object, wanted: number): Promise<Reply | null> => {
    const endsAtMs = performance.now() + retryMsMax;
    while (performance.now() < endsAtMs) {
      const reply = await call(`${chance.pick(servers.controlPlanes)}/v1${path}`, {
        key: servers.key,
        headers: { 'idempotency-key': key },
        body,
      }).catch(() => null);
      if (reply?.status === wanted) {
        progress.note();
        return reply;
      }
      if (reply !== null && reply.status !== 503) {
        wrong.push(`${path} was answered ${reply.status} ${JSON.stringify(reply.body)}`);
        return null;
      }
      repeated += 1;
      await pause(everyMs);
    }
    wrong.push(`${path} had no answer for ${retryMsMax} ms`);
    return null;
  };

  const running = repeat(async () => {
    const agentId = `changed-${n}`;
    const body = { agent_id: agentId, permissions: ['orders:create'] };
    const made = await change('/passports', `issue-${n}`, body, 201);
    if (made !== null) {
      const one = { agentId, passportId: made.body.passport_id, token: made.body.jwt, isRevoked: false };
      issued.push(one);
      if (n % 3 > 0) {
        const revoked = await change(`/passports/${one.passportId}/revoke`, `revoke-${n}`, {}, 200);
        one.isRevoked = revoked !== null;
      }
    }
    n++;
    return everyMs;
  });
  return {
    issued,
    wrong,
    get lastMs() {
      return progress.lastMs;
    },
    longestGapMs: (sinceMs) => progress.longestGapMs(sinceMs),
    said: () =>
      `Changes: ${issued.length} passports, ${issued.filter(({ isRevoked }) => isRevoked).length} revoked, ${repeated} calls repeated.`,
    stop: running.stop,
  };
}

/** Every answered change is there once, and in force at every sidecar. */
export async function wrongChanges(
  {
    world,
    sql,
    sidecars,
  }: { readonly world: Installation; readonly sql: Database; readonly sidecars: readonly Running[] },
  { issued, wrong }: Changes,
): Promise<string[]> {
  const rows = await sql<{ agentId: string; passportId: string; isRevoked: boolean }[]>`
    SELECT agent_id AS "agentId", passport_id AS "passportId", revoked_at_ms IS NOT NULL AS "isRevoked"
    FROM passports WHERE agent_id LIKE 'changed-%'`;
  const found = [...wrong];
  for (const { agentId, passportId, isRevoked } of issued) {
    const own = rows.filter((row) => row.agentId === agentId);
    if (own.length !== 1) found.push(`${agentId} was issued once and is there ${own.length} times`);
    else if (own[0]?.passportId !== passportId)
      found.push(`${agentId} has another passport than was answered`);
    else if (own[0].isRevoked !== isRevoked) found.push(`${passportId} is ${isRevoked ? 'not ' : ''}revoked`);
  }
  const gateId = await world.createGate();
  const checked = issued.filter((_, n) => n % Math.ceil(issued.length / 60) === 0);
  for (const { origin } of sidecars) {
    const check = (token: string) =>
      call(`${origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
    await until(async () => (await check(checked[0]?.token ?? '')).status === 200, {
      what: `the gate at ${origin}`,
    });
    for (const { passportId, token, isRevoked } of checked) {
      const { body } = await check(token);
      const said = `${body.decision} ${body.reason ?? ''}`.trim();
      if (said !== (isRevoked ? 'BLOCK passport_revoked' : 'PERMIT'))
        found.push(`${origin} answers ${said} for ${passportId}, revoked: ${isRevoked}`);
    }
  }
  return found;
}
