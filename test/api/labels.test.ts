import { describe, expect, it } from 'vitest';
import type { Reply } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { useApi } from '../support/service/use-api.ts';

/** Labels of gates and webhooks (contract §4): names of the owner's, which decide nothing. */
const api = useApi();

const post = (url: string, body: object) => api.call({ method: 'POST', url: `/v1${url}`, body });
const put = (url: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  api.call({ method: 'PUT', url: `/v1${url}`, body, headers });
const get = (url: string) => api.call({ url: `/v1${url}` });
const hook = { url: 'https://shop.example/hook', events: ['gate.created'] };

describe('of a gate', () => {
  it('are answered, listed, merged and removed, and are on record', async () => {
    const made = await api.createGate({ labels: { zone: 'b', a: '1' } });
    expect(Object.entries(made.labels)).toEqual([
      ['a', '1'],
      ['zone', 'b'],
    ]);
    const at = `/gates/${made.gate_id}`;
    expect((await get(at)).body.labels).toEqual({ a: '1', zone: 'b' });
    expect((await get('/gates')).body.items[0].labels).toEqual({ a: '1', zone: 'b' });
    expect((await put(at, { labels: { a: null, team: 'x' } })).body.labels).toEqual({ team: 'x', zone: 'b' });
    expect((await put(at, { name: 'other' })).body.labels).toEqual({ team: 'x', zone: 'b' });
    const entries = (await get(`/audit?target=${made.gate_id}&operation=updateGate`)).body.entries;
    expect(entries[1]).toMatchObject({ before: { labels: { a: '1' } }, after: { labels: { team: 'x' } } });
    expect((await put(at, { labels: null })).body).not.toHaveProperty('labels');
    expect((await get(at)).body).not.toHaveProperty('labels');
  });

  it('change the entity tag, and neither the policy nor what sidecars have', async () => {
    const opened = await openAnApproval(api);
    const at = `/gates/${opened.gateId}`;
    const before = await get(at);
    const tag = String(before.headers['etag']);
    const changed = await put(at, { labels: { team: 'x' } }, { 'if-match': tag });
    expect(changed.status).toBe(200);
    expect(changed.headers['etag']).not.toBe(tag);
    expect((await put(at, { labels: { team: 'y' } }, { 'if-match': tag })).status).toBe(412);
    expect((await get(`/approvals/${opened.approvalId}`)).body.status).toBe('pending');
    const { body } = await get(at);
    const told = await api.deps.sql<{ body: Reply['body'] }[]>`
      SELECT body FROM changes WHERE body->>'gate_id' = ${opened.gateId} ORDER BY revision`;
    expect(told.length).toBeGreaterThan(1);
    for (const change of told) expect(change.body).not.toHaveProperty('labels');
    expect(told.at(-1)?.body.policy_version).toBe(told[0]?.body.policy_version);
    expect(body.labels).toEqual({ team: 'x' });
  });
});

it('of a webhook are answered and listed, and replaced as a whole', async () => {
  const made = (await post('/webhooks', { ...hook, labels: { a: '1', b: '2' } })).body;
  const at = `/webhooks/${made.webhook_id}`;
  expect(made.labels).toEqual({ a: '1', b: '2' });
  expect((await put(at, { labels: { c: '3' } })).body.labels).toEqual({ c: '3' });
  expect((await put(at, { description: 'x' })).body.labels).toEqual({ c: '3' });
  expect((await get('/webhooks')).body.items[0].labels).toEqual({ c: '3' });
  expect((await put(at, { labels: {} })).body).not.toHaveProperty('labels');
});

it.each([
  ['a name in capitals', { Team: 'x' }, 'labels'],
  ['a long name', { ['a'.repeat(64)]: 'x' }, 'labels'],
  ['a number', { team: 1 }, 'labels.team'],
  ['a long text', { team: 'x'.repeat(64) }, 'labels.team'],
  ['a text that disguises', { team: 'a\u202eb' }, 'labels.team'],
  ['too many', Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`l${n}`, 'x'])), 'labels'],
])('%s is refused, by the name of the label', async (_what, labels, param) => {
  for (const answer of [
    await post('/gates', { name: 'g', trust_level: 'L1', labels }),
    await post('/webhooks', { ...hook, labels }),
    await put(`/gates/${(await api.createGate()).gate_id}`, { labels }),
  ]) {
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'invalid_request', param });
  }
});
