import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call, type Reply } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bundledPrograms, type Programs } from '../support/programs.ts';

describe('one plan limit at two control planes', () => {
  let programs: Programs;
  let database: TestDatabase;
  let world: Installation;
  let controlPlanes: readonly Running[];

  beforeAll(async () => {
    programs = await bundledPrograms();
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    controlPlanes = [await world.startControlPlane(), await world.startControlPlane()];
  });
  afterAll(async () => {
    await world?.close();
    await database?.drop();
  });

  const gates = (key: string, index: number): Promise<Reply> =>
    call(`${controlPlanes[index % 2]?.origin}/v1/gates`, { key });
  const resetOf = (reply: Reply) => reply.headers.get('x-ratelimit-reset');

  /**
   * 200 requests at once for an account of its own. Once more where midnight fell into them: two days have
   * two limits.
   */
  async function rush(
    requestsPerDay: number,
  ): Promise<{ readonly key: string; readonly replies: readonly Reply[] }> {
    const account = await world.api('POST', '/accounts', {
      name: 'Busy',
      plan: 'enterprise',
      limits: { requests_per_day: requestsPerDay },
    });
    const key: string = account.body.api_key.key;
    const replies = await Promise.all(Array.from({ length: 200 }, (_, index) => gates(key, index)));
    return new Set(replies.map(resetOf)).size === 1 ? { key, replies } : rush(requestsPerDay);
  }

  it('admits exactly the limit of 200 requests at once, and remembers it when a control plane is killed', async () => {
    const { key, replies } = await rush(121);
    const admitted = replies.filter(({ status }) => status === 200);
    expect(admitted).toHaveLength(121);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(79);
    const remaining = admitted.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
    expect(remaining.sort((a, b) => a - b)).toEqual(Array.from({ length: 121 }, (_, index) => index));

    await controlPlanes[1]?.restart('SIGKILL');
    for (const index of [0, 1]) {
      const later = await gates(key, index);
      if (resetOf(later) === resetOf(replies[0] as Reply)) expect(later.status).toBe(429);
    }
  });
});
