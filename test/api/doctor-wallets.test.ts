import { beforeAll, expect, it } from 'vitest';
import { checkWallets } from '../../cli/doctor/doctor-wallets.ts';
import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, putWallet, setFrozen } from '../support/service/wallets.ts';

/** What `agent-trust doctor` says of wallets. */
const api = useApi(startOwnApi);
let url: string;
beforeAll(async () => {
  goToNoon(api);
  url = await api.app.listen({ host: '127.0.0.1', port: 0 });
});

async function look(apiKey: string) {
  const client = new AgentTrust({ url, apiKey, retriesMax: 0 });
  try {
    return await checkWallets(client);
  } finally {
    client.close();
  }
}

it('names those that need a person, each under the worst of its limits', async () => {
  const gate = await api.createGate({ constraints: {} });
  const spend = async (walletId: string, amount: number): Promise<void> => {
    const { jwt } = await api.issuePassport({ wallet_id: walletId });
    const request = { permission_key: 'orders:create', amount };
    const { body } = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: jwt, request },
    });
    expect(body).toMatchObject({ decision: 'PERMIT' });
  };
  const wallet = async (name: string, more: object = {}): Promise<string> =>
    (await makeWallet(api, { name, limits: { daily_usd: 10 }, ...more })).wallet_id;
  expect(await look(api.adminKey)).toMatchObject({ state: 'ok', message: 'there are none' });
  await wallet('Untouched');
  await spend(await wallet('Half', { alert_at: 0.500001 }), 5);
  expect(await look(api.adminKey)).toMatchObject({
    check: 'wallets',
    ...{ state: 'ok', next: null },
    message: expect.stringMatching(/of the newest 2 of 2, usage of 2/),
  });
  await spend(await wallet('Near', { alert_at: 0.5 }), 5);
  await spend(await wallet('Empty', { limits: { daily_usd: 10, total_usd: 1_000 } }), 10);
  const lowered = await wallet('Lowered');
  await spend(lowered, 8);
  await putWallet(api, lowered, { limits: { daily_usd: 7.999999 } });
  await wallet('Forbidden on purpose', { limits: { daily_usd: 0 } });
  for (let n = 0; n < 6; n++) await setFrozen(api, await wallet(`Frozen ${n}`, { limits: {} }), 'freeze');
  const { state, message } = await look(api.adminKey);
  expect(state).toBe('warn');
  expect(message).toBe(
    '6 frozen: Frozen 5, Frozen 4, Frozen 3, Frozen 2, Frozen 1 and 1 more; ' +
      '1 with a limit below what is given out: Lowered; 1 used up: Empty; 1 at alert_at: Near ' +
      '(of the newest 12 of 12, usage of 12)',
  );
});

it('does not know without the scope', async () => {
  const { body } = await api.call({ url: '/v1/api-keys', body: { name: 'k', scopes: ['gates:read'] } });
  expect(await look(body.key)).toMatchObject({ state: 'unknown', next: 'Use a key with wallets:read.' });
});
