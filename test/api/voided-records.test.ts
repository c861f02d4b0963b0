import { expect, it } from 'vitest';
import { startOwnApi } from '../support/service/api.ts';
import { append, exportText, newRecord, operatorOf, verifyText } from '../support/service/exports.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

it('a record that voids a PERMIT is no PERMIT: it counts nowhere, spends nothing and causes no event', async () => {
  const owner = await operatorOf(api);
  const { passport_id: passportId } = await api.issuePassport();
  const { gate_id: gateId } = await api.createGate({ constraints: { spend_limits: { daily_usd: 20 } } });
  const events = ['passport.verified', 'spend_limit.approaching'];
  const webhook = await api.call({
    url: '/v1/webhooks',
    body: { url: 'https://hooks.example.com/x', events },
  });
  expect(webhook.status).toBe(201);

  const about = { passport: { id: passportId, owner }, gateId, gateOwner: owner };
  const permit = newRecord(api, about);
  const voided = newRecord(api, about, { resolution: 'voided', refersTo: permit.record.id });
  await append(api, [permit, voided]);

  expect((await api.call({ url: `/v1/passports/${passportId}` })).body).toMatchObject({ use_count: 1 });
  const { stats } = (await api.call({ url: `/v1/gates/${gateId}` })).body;
  expect(stats).toMatchObject({ total_requests: 1, permits: 1 });
  // 12.5 of 20 are spent: were the second record counted too, the alert at 16 would be due.
  const told = await api.deps.sql`SELECT event FROM webhook_events`;
  expect([...told]).toEqual([{ event: 'passport.verified' }]);

  const { body } = await api.call({ url: `/v1/attestations/${voided.record.id}` });
  expect(body).toMatchObject({
    decision: 'PERMIT',
    resolution: 'voided',
    refers_to: permit.record.id,
    source_account: expect.stringMatching(/^acct_/),
  });
  expect(await verifyText(api, await exportText(api))).toMatchObject({ kind: 'valid', records: 2 });
  await expectSoundStore(api);
});
