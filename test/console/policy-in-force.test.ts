import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { show, startConsole, type TestConsole, violations, visit } from '../support/console.ts';

let world: TestConsole;
beforeAll(async () => {
  world = await startConsole();
});
afterAll(() => world?.close());

describe('the page of a record', () => {
  it('shows the policy that decided it, and what of it is another one today', async () => {
    const { api } = world;
    const gate = await api.createGate({ constraints: { spend_limits: { daily_usd: 5 } } });
    const { jwt } = await api.issuePassport();
    const url = `/v1/gates/${gate.gate_id}`;
    const decided = await api.call({
      url: `${url}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create', amount: 1 } },
    });
    const page = await world.open({ user: await api.createUser({ role: 'admin' }) });
    const path = `/attestations/${decided.body.attestation_id}`;
    const card = page.getByRole('region', { name: 'Policy in force' });

    await visit(page, path);
    await card.getByText('Every valid passport may ask.').waitFor();
    await card.getByText('The gate has the same policy today.').waitFor();

    const body = { trust_level: 'L2', constraints: { allowed_domains: ['api.example.com'] } };
    expect((await api.call({ method: 'PUT', url, body })).status).toBe(200);
    await visit(page, path);
    await card.getByText('Demanded today only').waitFor();
    const [then, gone, added] = await card.getByRole('list').all();
    expect(await then?.innerText()).toContain('Every valid passport may ask.');
    expect(await gone?.innerText()).toBe('Every valid passport may ask.');
    expect(await added?.innerText()).toContain('Only passports of trust tier L2 or L3');
    expect(await added?.innerText()).toContain('Requests may only go to api.example.com.');
    for (const isPhone of [false, true]) {
      await show(page, { isPhone, isDark: false });
      expect(await violations(page)).toEqual([]);
    }

    expect((await api.call({ method: 'DELETE', url })).status).toBe(200);
    await visit(page, path);
    await card.getByText('The gate has been deleted since.').waitFor();
  });
});
