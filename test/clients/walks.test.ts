import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AgentTrust } from '../../clients/node/src/index.ts';
import { pythonEnv, pythons } from './support/python.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** More than two pages: what is revoked on the first would move the second. */
const passports = 25;
const limit = 10;

let service: ClientService;
let python: string;
beforeAll(async () => {
  service = await startClientService();
  [python] = await pythons();
});
afterAll(() => service.close());

async function accountWithPassports(): Promise<string> {
  const { key } = await service.api.createAccount();
  await Promise.all(Array.from({ length: passports }, () => service.api.issuePassport({}, key)));
  return key;
}

const activeOf = async (key: string): Promise<number> =>
  (await service.api.call({ url: '/v1/passports?status=active', key })).body.total;

describe('a walk that removes the items it meets', () => {
  it('meets all of it, in Node.js', async () => {
    const key = await accountWithPassports();
    const agentTrust = new AgentTrust({ url: service.url, apiKey: key });
    const met = new Set<string>();
    let arrived = 0;
    for await (const { passport_id } of agentTrust.passports.list({ status: 'active', limit })) {
      expect(met.has(passport_id), 'met twice').toBe(false);
      met.add(passport_id);
      await agentTrust.passports.revoke(passport_id, {});
      // Rows that arrive meanwhile neither double others nor hide them.
      if (met.size % 8 === 0) {
        await service.api.issuePassport({}, key);
        arrived += 1;
      }
    }
    expect(met.size).toBe(passports);
    expect(await activeOf(key)).toBe(arrived);
  });

  it('meets all of it, in Python', async () => {
    const key = await accountWithPassports();
    const script = `
import sys
from agent_trust import AgentTrust
met = set()
with AgentTrust(sys.argv[1], sys.argv[2]) as agent_trust:
    for passport in agent_trust.items(agent_trust.list_passports, status="active", limit=${limit}):
        assert passport["passport_id"] not in met, "met twice"
        met.add(passport["passport_id"])
        agent_trust.revoke_passport(passport["passport_id"], {})
print(len(met))
`;
    const { stdout } = await promisify(execFile)(python, ['-c', script, service.url, key], {
      env: pythonEnv({}),
    });
    expect(stdout.trim()).toBe(String(passports));
    expect(await activeOf(key)).toBe(0);
  });
});
