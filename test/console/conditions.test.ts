import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { noCarried } from '../../shared/model/attestation.ts';
import { openingOf } from '../../shared/wire/evidence/fact.ts';
import { until } from '../support/base/until.ts';
import { looksGood, sharedConsole, violations, visit } from '../support/programs/console.ts';
import { append, newRecord, ownerOf } from '../support/service/exports.ts';

const world = sharedConsole();
let page: Page;
beforeAll(async () => {
  page = await world.open({ role: 'owner' });
});

const button = (name: string | RegExp) => page.getByRole('button', { name });
const field = (label: string | RegExp) => page.getByLabel(label);
const says = (text: string | RegExp) => page.getByText(text).first().waitFor();

it('a condition is written with its fault at its place, taken from an example, and explained when it blocks', async () => {
  const { api } = world;
  const { gate_id: gate } = await api.createGate();
  const stored = async () => (await api.call({ url: `/v1/gates/${gate}` })).body.constraints.conditions ?? [];
  await visit(page, `/gates/${gate}?tab=policy`);
  await field('Add a condition').selectOption({ label: 'A new one' });
  const expression = field('It must be true that');
  await expression.fill('request.arguments.limit <= 100 &&\n  request.arguments.limit >');
  await expression.and(page.locator('[aria-invalid="true"]')).waitFor();
  const fault = await page.locator('.fault.code').innerText();
  expect(fault).toMatch(
    /^Line 2, column 28:\n {4}request\.arguments\.limit >\n {29}\^ expected a value, found the end\.$/,
  );
  expect(await violations(page)).toEqual([]);

  // What the service says of a write stands at the same place.
  await button('Save the policy').click();
  await page.locator('textarea[aria-invalid="true"]:focus').waitFor();
  expect(await stored()).toEqual([]);
  await expression.fill('request.arguments.limit <= 100');
  await says('It reads /request/arguments/limit.');
  await page.getByRole('textbox', { name: 'Id', exact: true }).fill('rows');
  await field('Asked of these permissions').fill('tools:query');
  await field('Add a condition').selectOption('below-workspace');
  await says(/must meet the condition below-workspace/);
  await looksGood(page, 'gate-conditions');
  await button('Remove the condition rows').click();
  await field('Add a condition').selectOption('four-eyes');
  await button('Save the policy').click();
  await until(async () => (await stored()).length === 2, { what: 'the conditions' });
  expect(await stored()).toMatchObject([
    { id: 'below-workspace', permissions: ['tools:write_file'], message: 'Write below /workspace.' },
    { id: 'four-eyes', otherwise: 'approve' },
  ]);

  await visit(page, `/gates/${gate}?tab=try`);
  await field('Permission').fill('tools:write_file');
  await field('More of the request').fill('{ "arguments": { "path": "/workspace/../etc/passwd" } }');
  await button('Ask').click();
  await says('It would be blocked');
  await says('Write below /workspace.');
  await page.locator('code', { hasText: 'below-workspace' }).waitFor();
  expect(await page.locator('.steps code').allInnerTexts()).toContain('conditions');
});

it('a record shows what its decision read, and asks its gate again with it', async () => {
  const { api } = world;
  const conditions = [{ id: 'rows', require: 'request.arguments.limit <= 100' }];
  const { gate_id: gateId } = await api.createGate({ constraints: { conditions } });
  const owner = await ownerOf(api);
  const read = [
    ['/request/arguments/limit', 101],
    ['/request/arguments/all', undefined],
  ] as const;
  const salt = Buffer.alloc(16, 1).toString('base64url');
  const made = read.map(([path, value]) => ({ path, ...openingOf(path, salt, value) }));
  const facts = made.map(({ path, commitment }) => ({ path, commitment }));
  const about = {
    passport: { id: (await api.issuePassport()).passport_id, owner },
    gateId,
    gateOwner: owner,
  };
  const record = newRecord(api, about, {
    policyHash: null,
    asserted: false,
    carried: { ...noCarried, facts },
  });
  await append(api, [{ ...record, facts: made.map(({ opening }) => opening) }]);
  await visit(page, `/attestations/${record.record.id}`);
  await page.getByRole('row', { name: '/request/arguments/limit not shown' }).waitFor();
  await button('Show the values').click();
  await page.getByRole('row', { name: '/request/arguments/limit 101' }).waitFor();
  await page.getByRole('row', { name: '/request/arguments/all absent' }).waitFor();
  await looksGood(page, 'attestation-facts');
  await page.getByRole('link', { name: 'Ask the gate again with these values' }).click();
  const more = field('More of the request');
  expect(JSON.parse(await more.inputValue())).toEqual({ arguments: { limit: 101 } });
  await button('Ask').click();
  await page.locator('code', { hasText: 'rows' }).waitFor();
  await more.fill('{ "arguments": { "limit": 100 } }');
  await button('Ask').click();
  await says('It would be permitted');
});
