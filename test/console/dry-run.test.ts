import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBacktests } from '../../control-plane/backtests/keep-backtests.ts';
import { until } from '../support/base/until.ts';
import { looksGood, sharedConsole, violations, visit } from '../support/programs/console.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';

const world = sharedConsole();
let sidecar: TestSidecar;
let page: Page;

beforeAll(async () => {
  sidecar = await startTestSidecar({ api: world.api });
  page = await world.open({ role: 'owner' });
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
});

const button = (name: string | RegExp) => page.getByRole('button', { name });
const field = (label: string | RegExp) => page.getByLabel(label);
const says = (text: string | RegExp) => page.getByText(text).first().waitFor();

it('a policy is tried from its editor, seen beside the live one and in records, and ended', async () => {
  const { api } = world;
  const { gate_id: gate } = await api.createGate({ constraints: { allowed_domains: ['a.example'] } });
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  await visit(page, `/gates/${gate}?tab=dry-run`);
  await says('No policy is tried here');
  await page.getByRole('link', { name: 'Change the policy' }).click();
  await field('One request, USD').fill('10');
  await field('Allowed domains').fill('');
  await field('Time').selectOption('1');
  await button('Try it from now on').click();
  await says('Tried beside the live policy');
  await says('One request may spend at most $10.00.');
  await says('Requests may only go to a.example.');
  expect(await violations(page)).toEqual([]);
  expect((await api.call({ url: `/v1/gates/${gate}` })).body.constraints).not.toHaveProperty('spend_limits');

  await sidecar.caughtUp();
  const { body } = await sidecar.check(gate, jwt, {
    ...{ permission_key: 'orders:create', amount: 12, domain: 'a.example' },
  });
  expect(body.decision).toBe('PERMIT');
  const stored = async () => (await api.call({ url: `/v1/attestations/${body.attestation_id}` })).status;
  await until(async () => (await stored()) === 200, { what: 'the record' });
  await visit(page, `/attestations/${body.attestation_id}`);
  const said = page.getByRole('definition').filter({ hasText: 'spend limit exceeded' });
  expect(await said.innerText()).toMatch(/BLOCK/);

  await visit(page, `/gates/${gate}?tab=dry-run`);
  await page.getByRole('row', { name: /PERMIT BLOCK spend limit exceeded 1 \$12\.00/ }).waitFor();
  await looksGood(page, 'gate-shadow-report');
  await button('End the trial').click();
  await says('No policy is tried here');
  expect((await api.call({ url: `/v1/gates/${gate}/shadow` })).status).toBe(404);

  await page.getByRole('link', { name: 'Change the policy' }).click();
  await field('One request, USD').fill('10');
  await button('Try it from now on').click();
  await button('Make it the policy').click();
  await says('It is the policy of the gate.');
  await says('No policy is tried here');
  expect((await api.call({ url: `/v1/gates/${gate}` })).body.constraints).toMatchObject({
    spend_limits: { per_transaction_usd: 10 },
  });
});

it('a policy is tested on the past from its editor, and what would differ leads to its records', async () => {
  const { api } = world;
  const { gate_id: gate } = await api.createGate();
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  for (const amount of [5, 12, 12.5]) {
    const body = { passport: jwt, request: { permission_key: 'orders:create', amount } };
    expect((await api.call({ url: `/v1/gates/${gate}/check`, body })).body.decision).toBe('PERMIT');
  }
  await visit(page, `/gates/${gate}?tab=policy`);
  await field('One request, USD').fill('10');
  await button('Test it on the past').click();
  await says('0 % of the records are decided again.');
  await button('Cancel').click();
  await says('It was cancelled.');
  await page.getByRole('link', { name: 'Policy', exact: true }).click();
  await field('One request, USD').fill('10');
  await button('Test it on the past').click();
  await says('0 % of the records are decided again.');
  const loop = startBacktests(api.deps);
  const row = page.getByRole('row', { name: /PERMIT BLOCK spend limit exceeded 2 \$24\.50/ });
  await row.waitFor().finally(() => loop.stop());
  await page.getByRole('img', { name: /2 .*would differ/ }).waitFor();
  await looksGood(page, 'gate-backtest');
  await page.getByText('The newest records that would differ').click();
  await page.getByRole('link', { name: /^att_/ }).first().click();
  await page.getByRole('heading', { name: /Record \d of its chain/ }).waitFor();
  expect((await api.call({ url: `/v1/gates/${gate}` })).body.constraints).toEqual({});
});
