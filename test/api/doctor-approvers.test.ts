import { beforeAll, expect, it } from 'vitest';
import { checkApprovers } from '../../cli/doctor/doctor-approvers.ts';
import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/** What `agent-trust doctor` says of who answers approvals. */
const api = useApi(startOwnApi);
let url: string;
beforeAll(async () => {
  url = await api.app.listen({ host: '127.0.0.1', port: 0 });
});

async function look(apiKey: string) {
  const client = new AgentTrust({ url, apiKey, retriesMax: 0 });
  try {
    return await checkApprovers(client);
  } finally {
    client.close();
  }
}

it('names gates that count one person as several, and those that too few could answer', async () => {
  const gate = (name: string, approvers: object) =>
    api.createGate({ name, constraints: { approvals: { above_usd: 10, approvers } } });
  const people = [await api.createUser({ role: 'approver' }), await api.createUser({ role: 'owner' })];
  await gate('Alone', {});
  expect(await look(api.adminKey)).toMatchObject({ check: 'approvers', state: 'ok', next: null });
  await gate('Two', { count: 2 });
  const advised = await look(api.adminKey);
  expect(advised).toMatchObject({ state: 'warn', next: expect.stringContaining('independent') });
  expect(advised.message).toContain('at Two (of the newest 2 of 2 gates)');
  await api.call({ method: 'DELETE', url: `/v1/users/${people[0]?.userId}` });
  const stuck = await look(api.adminKey);
  expect(stuck).toMatchObject({ state: 'warn', next: expect.stringContaining('Invite and confirm') });
  expect(stuck.message).toContain('the approvals of Two (of');
  const { key } = await api.createKey({ scopes: ['audit:read'] });
  expect(await look(key)).toMatchObject({ state: 'unknown' });
});
