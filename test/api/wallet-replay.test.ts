import { beforeAll, expect, it } from 'vitest';
import { replayText } from '../support/data/replay.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import { order } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, setFrozen } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));

it('a replay gives each decision of a passport in a wallet again, but for what only the ledger knows', async () => {
  const { gate_id: gateId } = await api.createGate({ constraints: {} });
  const decided: string[] = [];
  for (const limits of [{ daily_usd: 5 }, { requests_per_day: 1 }, { total_usd: 5, requests_per_day: 9 }]) {
    const { wallet_id: walletId } = await makeWallet(api, { limits });
    const { jwt: passport } = await api.issuePassport({ wallet_id: walletId });
    const check = async (amount: number | undefined): Promise<void> => {
      const body = { passport, request: { ...order(1), amount } };
      const reply = await api.call({ url: `/v1/gates/${gateId}/check`, body });
      decided.push(reply.body.reason ?? reply.body.decision);
    };
    for (const amount of [4, 4, undefined]) await check(amount);
    await setFrozen(api, walletId, 'freeze');
    await check(1);
  }
  const [limited, frozen] = ['wallet_limit_exceeded', 'wallet_frozen'];
  expect(decided).toEqual([
    ...['PERMIT', limited, 'amount_missing', frozen],
    ...['PERMIT', limited, limited, frozen],
    ...['PERMIT', limited, 'amount_missing', frozen],
  ]);
  expect(replayText(await exportText(api))).toMatchObject({
    decisions: {
      PERMIT: { agrees: 3, contradicted: 0, unjudged: 0 },
      BLOCK: { agrees: 2, contradicted: 0, unjudged: 7 },
    },
    unjudged: { ledger: 4, standing: 3 },
    contradictions: [],
  });
});
