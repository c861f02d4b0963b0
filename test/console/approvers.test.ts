import { isDeepStrictEqual } from 'node:util';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { until } from '../support/base/until.ts';
import { giveAuthenticator, looksGood, sharedConsole, visit } from '../support/programs/console.ts';
import { askApproval } from '../support/service/approvals.ts';

const world = sharedConsole();

/** The browser of an approver, with an authenticator that holds a passkey of theirs. */
async function withPasskey(): Promise<{ page: Page; unlock(isUnlocked: boolean): Promise<void> }> {
  const user = await world.api.createUser({ role: 'approver' });
  const page = await world.open({ user });
  const { unlock } = await giveAuthenticator(page);
  await visit(page, '/settings');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByLabel('Name of the passkey').fill('Laptop');
  await page.getByLabel('Your password').fill(user.password);
  await page.getByRole('button', { name: 'Add it' }).click();
  await page.getByText('The passkey was added.').waitFor();
  return { page, unlock };
}

async function asked(approvals: object): Promise<string> {
  const { gate_id: gateId } = await world.api.createGate({
    constraints: { approvals, spend_limits: { daily_usd: 1_000 } },
  });
  const { passport_id: passportId } = await world.api.issuePassport();
  return (await askApproval(world.api.deps, { gateId, passportId, amountUsd: 250 })).approvalId;
}

describe('the page of an approval', () => {
  it('takes the answers of two people, each signed with a passkey of their own', async () => {
    const ada = await withPasskey();
    const ben = await withPasskey();
    const id = await asked({ above_usd: 10, approvers: { count: 2 }, passkey: true });

    await visit(ada.page, `/approvals/${id}`);
    await ada.page.getByText('2 more people have to approve, 2 in all.').waitFor();
    await looksGood(ada.page, 'approval-signed');
    await ada.unlock(false);
    await ada.page.getByRole('button', { name: 'Approve $250.00' }).click();
    await ada.page.getByRole('alert').getByText('No passkey was used').waitFor();
    expect((await world.api.call({ url: `/v1/approvals/${id}` })).body.answers).toEqual([]);
    await ada.unlock(true);
    await ada.page.getByLabel('Note').fill('For the new office');
    await ada.page.getByRole('button', { name: 'Approve $250.00' }).click();
    await ada.page.getByText('Approved by you. It waits for others.').waitFor();
    await ada.page.getByText('You have answered it already. It waits for somebody else.').waitFor();
    await looksGood(ada.page, 'approval-half-answered');

    await visit(ben.page, '/approvals?status=mine');
    await ben.page.getByRole('button', { name: 'Approve $250.00' }).click();
    await ben.page.getByText(/^Approved: agent-\d+ may go on\.$/).waitFor();
    await visit(ben.page, `/approvals/${id}`);
    await ben.page.getByText('For the new office').waitFor();
    await looksGood(ben.page, 'approval-answered');
    const { body } = await world.api.call({ url: `/v1/approvals/${id}` });
    expect(body.status).toBe('approved');
    for (const answer of body.answers)
      expect(answer).toMatchObject({ signed: true, assertion: { rp_id: 'localhost', origin: world.origin } });
    expect(
      new Set(
        body.answers.map((each: { assertion: { credential_id: string } }) => each.assertion.credential_id),
      ).size,
    ).toBe(2);
  });

  it('names who answered and who had invited them, and says what the time is for', async () => {
    const page = await world.open({ role: 'approver' });
    const id = await asked({ above_usd: 10 });
    await visit(page, `/approvals/${id}`);
    await page.getByText(/^Time left to answer: \d/).waitFor();
    await page.getByRole('button', { name: 'Approve $250.00' }).click();
    await page.getByText(/^Time left to use it: \d/).waitFor();
    await page.getByText(', invited by first key').waitFor();
    const record = page.getByRole('region', { name: 'The record' });
    await record.getByText('Somebody', { exact: true }).waitFor();
    expect(await record.innerText()).not.toContain('usr_');
  });

  it('of which there is none says so', async () => {
    const page = await world.open({ role: 'approver' });
    await visit(page, '/approvals/appr_00000000000000000000000000');
    await page.getByText('It may have been removed, or belong to another account').waitFor();
    expect(await page.getByText('Try again').count()).toBe(0);
  });

  it('says why the reader may not answer', async () => {
    const admin = await world.api.createUser({ role: 'admin' });
    const reader = await world.api.createUser({ role: 'approver' });
    const { gate_id: gateId } = await world.api.createGate({
      constraints: { approvals: { above_usd: 10, approvers: {} } },
    });
    const issued = await world.api.call({
      url: '/v1/passports',
      key: null,
      headers: admin.headers,
      body: { agent_id: 'of-the-admin', permissions: ['orders:create'] },
    });
    const passportId: string = issued.body.passport_id;
    const { approvalId } = await askApproval(world.api.deps, { gateId, passportId });
    const page = await world.open({ user: admin });
    await visit(page, `/approvals/${approvalId}`);
    await page
      .getByText('You own or made the passport, or made the key that asks, so somebody else has to answer.')
      .waitFor();
    expect(await page.getByRole('button', { name: /^Approve/ }).count()).toBe(0);
    await looksGood(page, 'approval-requester');
    await visit(page, '/approvals?status=mine');
    expect(await page.getByRole('link', { name: 'of-the-admin' }).count()).toBe(0);
    await visit(page, '/approvals');
    const card = page.getByRole('article', { name: 'Request of of-the-admin' });
    await card.getByText('It waits for others. The details say why.').waitFor();
    const other = await world.open({ user: reader });
    await visit(other, '/approvals?status=mine');
    await other
      .getByRole('article', { name: 'Request of of-the-admin' })
      .getByRole('button', { name: /^Approve/ })
      .waitFor();
  });
});

it('edits who answers at a gate, and keeps it when something else is changed', async () => {
  await world.api.createUser({ role: 'approver' });
  await world.api.createUser({ role: 'approver' });
  const gate = await world.api.createGate({ constraints: { approvals: { above_usd: 10 } } });
  const url = `/v1/gates/${gate.gate_id}`;
  const stored = async () => (await world.api.call({ url })).body.constraints.approvals;
  const page = await world.open({ role: 'owner' });
  await visit(page, `/gates/${gate.gate_id}?tab=policy`);
  await page.getByLabel('Who answers').selectOption('people');
  await page.getByLabel('How many different people').fill('6');
  const save = page.getByRole('button', { name: 'Save the policy' });
  await page.getByLabel('People with these roles').fill('admin');
  await page.getByLabel('How many different people').fill('5');
  await save.click();
  await page
    .getByText(/active (?:person|people) of this account could answer/)
    .first()
    .waitFor();
  await page.getByLabel('How many different people').fill('2');
  await page.getByLabel('People with these roles').fill('approver');
  await page.getByLabel('Signed with a passkey').selectOption('yes');
  await page.getByText('2 different people of these must approve: approvers. One denial ends it.').waitFor();
  await looksGood(page, 'gate-approvers');
  await save.click();
  await page.getByText('Saved.').waitFor();
  expect(await stored()).toEqual({
    above_usd: 10,
    approvers: { roles: ['approver'], count: 2 },
    passkey: true,
  });
  await page.getByLabel('Above, USD').fill('20');
  await page.getByLabel('People with these roles').fill('');
  await save.click();
  const withCount = { above_usd: 20, approvers: { count: 2 }, passkey: true };
  await until(async () => isDeepStrictEqual(await stored(), withCount), { what: 'the count alone' });
  await page.getByLabel('Who answers').selectOption('any');
  await save.click();
  const withoutPeople = { above_usd: 20, passkey: true };
  await until(async () => isDeepStrictEqual(await stored(), withoutPeople), { what: 'the passkey alone' });
});
