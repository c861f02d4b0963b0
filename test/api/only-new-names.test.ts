import { describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

/** `If-None-Match: *` on what creates (contract §4): one resource of a name, whoever asks at once. */
const api = useApi();

const bodies: Readonly<Record<string, (name: string) => object>> = {
  gates: (name) => ({ name, trust_level: 'L1' }),
  issuers: (name) => ({ name }),
  templates: (name) => ({ name }),
  webhooks: (name) => ({ url: `https://shop.example/${name}`, events: ['gate.created'] }),
};
const onlyNew = { 'if-none-match': '*' };

describe.each(Object.entries(bodies))('of %s', (resource, bodyOf) => {
  const url = `/v1/${resource}`;
  const create = (name: string, headers: Readonly<Record<string, string>>, key?: string) =>
    api.call({ method: 'POST', url, body: bodyOf(name), headers, ...(key === undefined ? {} : { key }) });

  it('makes one of a name, however many ask at once', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => create('first', onlyNew)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array(9).fill(412)]);
    const refused = answers.filter(({ status }) => status !== 201);
    for (const answer of refused) expectError(answer, 'precondition_failed');
  });

  it('makes another one without the header, in another account, and for a replay', async () => {
    const keyed = { ...onlyNew, 'idempotency-key': `${resource}-1` };
    const made = await create('shared', keyed);
    expect(made.status).toBe(201);
    expect(await create('shared', keyed)).toMatchObject({ status: 201 });
    expect(await create('shared', {})).toMatchObject({ status: 201 });
    expect(await create('shared', onlyNew)).toMatchObject({ status: 412 });
    const { key } = await api.createAccount();
    expect(await create('shared', onlyNew, key)).toMatchObject({ status: 201 });
  });

  it('takes no tag', async () => {
    const answer = await create('tagged', { 'if-none-match': '"3"' });
    expectError(answer, 'invalid_request', 'If-None-Match');
  });
});

it('takes the name of a deleted gate, and lets webhooks without a URL be', async () => {
  const gate = { method: 'POST', url: '/v1/gates', body: { name: 'again', trust_level: 'L1' } };
  const { body } = await api.call({ ...gate, headers: onlyNew });
  await api.call({ method: 'DELETE', url: `/v1/gates/${body.gate_id}` });
  expect(await api.call({ ...gate, headers: onlyNew })).toMatchObject({ status: 201 });
  const pulled = { method: 'POST', url: '/v1/webhooks', body: { url: null, events: ['gate.created'] } };
  for (let n = 0; n < 2; n++) {
    expect(await api.call({ ...pulled, headers: onlyNew })).toMatchObject({ status: 201 });
  }
});
