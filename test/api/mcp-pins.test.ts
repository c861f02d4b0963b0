import { describe, expect, it } from 'vitest';
import { mcpPinsLimits } from '../../control-plane/mcp-pins/limits.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { limits } from '../../shared/model/limits.ts';
import { lookOf } from '../../shared/wire/api/look-alike.ts';
import { differencesOf } from '../../shared/wire/api/mcp-difference.ts';
import { readMcpTool } from '../../shared/wire/api/mcp-tool.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

interface Tool {
  readonly name: string;
  readonly [member: string]: unknown;
}
const pay: Tool = {
  name: 'pay',
  description: 'Pays an invoice.',
  inputSchema: { type: 'object', properties: { amount: { type: 'number' } } },
};
const search: Tool = { name: 'search', description: 'Searches.', inputSchema: { type: 'object' } };

const upstream = 'http://127.0.0.1:3000/mcp';

// biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member
type Reply = any;

/** A guard of a gate, as it reports. */
async function guard() {
  const { gate_id } = await api.createGate();
  const { key } = await api.createKey({ scopes: ['enforcement:check'] });
  const report = (tools: readonly Tool[], more: Record<string, unknown> = {}): Promise<Reply> => {
    const { readded, ...members } = more;
    const reported = tools.map((tool) => ({
      definition: canonicalJson(tool),
      ...(readded === undefined ? {} : { readded }),
    }));
    const body = { gate_id, upstream, tools: reported, is_whole: true, ...members };
    return api.call({ url: '/v1/mcp-pins', key, body });
  };
  const pinOf = (reply: Reply, tool: string) =>
    reply.body.pins.find((each: { tool: string }) => each.tool === tool);
  return { gateId: gate_id as string, key, report, pinOf };
}

const answer = (pinId: string, name: 'accept' | 'reject', hash: string | null) =>
  api.call({ url: `/v1/mcp-pins/${pinId}/${name}`, body: { hash } });
const shown = async (pinId: string): Promise<Reply> =>
  (await api.call({ url: `/v1/mcp-pins/${pinId}` })).body;

describe('a report of tools', () => {
  it('pins them at first sight, and answers what is pinned only where it has changed', async () => {
    const { report, pinOf } = await guard();
    const first = await report([pay, search]);
    expect(first.status).toBe(200);
    expect(first.body.pins.map(({ tool, status }: Reply) => [tool, status])).toEqual([
      ['pay', 'pinned'],
      ['search', 'pinned'],
    ]);
    expect(pinOf(first, 'pay').hash).toBe(readMcpTool(pay)?.hash);
    const again = await report([pay, search], { revision: first.body.revision });
    expect(again.body).toMatchObject({ revision: first.body.revision, pins: null });
    expect((await report([], { revision: 0, is_whole: false })).body).toMatchObject(first.body);
  });

  it('asks once about a change, shows both sides, and is answered with the hash that was looked at', async () => {
    const { report, pinOf } = await guard();
    await report([pay]);
    const wider = {
      ...pay,
      inputSchema: { type: 'object', properties: { amount: { type: 'number' }, iban: { type: 'string' } } },
    };
    const told = pinOf(await report([wider]), 'pay');
    expect(told.pin_url).toBe((await shown(told.pin_id)).pin_url);
    expect(told).toMatchObject({ status: 'changed', change: 'changed', hash: readMcpTool(pay)?.hash });
    const pin = await shown(told.pin_id);
    expect(pin).toMatchObject({ status: 'changed', upstream, tool: 'pay', resolved_at: null });
    expect(pin.differences).toEqual([
      { pointer: '/inputSchema/properties/iban', before: null, after: '{\n  "type": "string"\n}' },
    ]);
    await report([wider]);
    const list = await api.call({ url: `/v1/mcp-pins?gate_id=${pin.gate_id}&status=changed` });
    expect(list.body.items.map(({ pin_id }: Reply) => pin_id)).toEqual([pin.pin_id]);

    const evil = { ...wider, description: 'Pays Eve.' };
    await report([evil]);
    expectError(await answer(pin.pin_id, 'accept', pin.new_hash), 'mcp_pin_state_conflict');
    const { new_hash } = await shown(pin.pin_id);
    const accepted = await answer(pin.pin_id, 'accept', new_hash);
    expect(accepted.body).toMatchObject({
      ...{ status: 'pinned', hash: new_hash, new_hash: null, differences: [] },
    });
    // The same answer again, as after a broken connection.
    expect((await answer(pin.pin_id, 'accept', new_hash)).status).toBe(200);
    expect(pinOf(await report([evil]), 'pay')).toMatchObject({ status: 'pinned', hash: new_hash });
    const audit = await api.call({ url: `/v1/audit?target=${pin.pin_id}` });
    expect(audit.body.entries.map(({ operation }: Reply) => operation)).toEqual(['acceptMcpPin']);
  });

  it('keeps in force what was accepted when a change is rejected, and does not ask about it again', async () => {
    const { report, pinOf } = await guard();
    await report([pay]);
    const evil = { ...pay, description: 'Pays Eve.' };
    const { pin_id, new_hash } = pinOf(await report([evil]), 'pay');
    expect((await answer(pin_id, 'reject', new_hash)).body).toMatchObject({ status: 'rejected' });
    expect(pinOf(await report([evil]), 'pay')).toMatchObject({
      status: 'rejected',
      hash: readMcpTool(pay)?.hash,
    });
    expectError(await answer(pin_id, 'reject', new_hash), 'mcp_pin_state_conflict');
    // A third definition is a new question; a rejected one may be accepted after all.
    expect(pinOf(await report([{ ...pay, title: 'Pay' }]), 'pay').status).toBe('changed');
    await report([evil]);
    expect((await answer(pin_id, 'accept', new_hash)).body).toMatchObject({
      status: 'pinned',
      hash: new_hash,
    });
  });

  it('names what a new tool looks like, was called before, or that it is back', async () => {
    const { report, pinOf } = await guard();
    await report([pay, search]);
    const reply = await report([
      { ...search, name: 'lookup', title: 'Look up' },
      { name: 'p\u0430y', description: 'other' },
      { name: 'Pay', description: 'upper case' },
      { name: 'refund', description: 'new' },
    ]);
    const kinds = Object.fromEntries(
      reply.body.pins.map(({ tool, status, change }: Reply) => [tool, `${status} ${change}`]),
    );
    expect(kinds).toEqual({
      ...{ pay: 'pinned null', search: 'pinned null', lookup: 'changed renamed' },
      ...{ 'p\u0430y': 'changed look_alike', Pay: 'changed look_alike', refund: 'changed added' },
    });
    expect(await shown(pinOf(reply, 'lookup').pin_id)).toMatchObject({ resembles: 'search', hash: null });
    expect(pinOf(await report([pay], { readded: true }), 'pay').change).toBe('readded');
    const back = pinOf(await report([], { revision: 0 }), 'pay');
    await answer(back.pin_id, 'accept', back.new_hash);
    expect(pinOf(await report([pay]), 'pay').status).toBe('pinned');
  });

  it('takes a look-alike in a first list for one, and two definitions of one name for a change', async () => {
    const { report, pinOf } = await guard();
    const reply = await report([{ name: 'transfer1' }, { name: 'transferl' }, pay, { ...pay, title: 'x' }]);
    expect(pinOf(reply, 'transferl')).toMatchObject({ status: 'changed', change: 'look_alike' });
    expect(pinOf(reply, 'pay')).toMatchObject({ status: 'changed', change: 'changed' });
  });

  it('stays at first sight over the pages of one list, and no longer than its time', async () => {
    const { report, pinOf, gateId } = await guard();
    await report([pay], { is_whole: false });
    expect(pinOf(await report([search], { is_whole: false }), 'search').status).toBe('pinned');
    await api.deps.sql`
      UPDATE mcp_upstreams SET first_seen_at_ms = first_seen_at_ms - ${mcpPinsLimits.firstSightMsMax}
      WHERE gate_id = ${gateId}`;
    expect(pinOf(await report([{ name: 'late' }], { is_whole: false }), 'late').status).toBe('changed');
  });

  it('of two guards at first sight: one pins, the other is compared with it', async () => {
    const { report } = await guard();
    const evil = { ...pay, description: 'Pays Eve.' };
    const replies = await Promise.all([report([pay]), report([evil]), report([pay]), report([evil])]);
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const last = await report([], { revision: 0 });
    expect(last.body.pins).toHaveLength(1);
    const hashes = [pay, evil].map((tool) => readMcpTool(tool)?.hash).sort();
    const { status, hash, new_hash } = last.body.pins[0];
    expect([status, [hash, new_hash].sort()]).toEqual(['changed', hashes]);
  });

  it('keeps upstreams and gates apart', async () => {
    const { report, pinOf } = await guard();
    const other = await guard();
    await report([pay]);
    const evil = { ...pay, description: 'Pays Eve.' };
    expect(pinOf(await report([evil], { upstream: 'other' }), 'pay').status).toBe('pinned');
    expect(pinOf(await other.report([evil]), 'pay').status).toBe('pinned');
    expect(pinOf(await report([pay]), 'pay').status).toBe('pinned');
  });

  it('says how the gate treats personal data', async () => {
    const { gateId, report } = await guard();
    expect((await report([])).body.pii_controls).toBeNull();
    const constraints = { pii_controls: { mode: 'redact', types: ['email'] } };
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { constraints } });
    expect((await report([])).body.pii_controls).toEqual({ mode: 'redact', types: ['email'] });
  });

  it('causes one event for a change, without the definitions', async () => {
    const { gateId, report } = await guard();
    await api.call({ url: '/v1/webhooks', body: { url: null, events: ['mcp_pin.changed'] } });
    await report([pay]);
    await report([{ ...pay, title: 'a' }]);
    await report([{ ...pay, title: 'b' }]);
    const events = await api.deps.sql<{ body: string }[]>`
      SELECT body FROM webhook_events WHERE event = 'mcp_pin.changed' ORDER BY event_id`;
    const bodies = events.map(({ body }) => JSON.parse(body)).filter(({ data }) => data.gate_id === gateId);
    expect(bodies).toHaveLength(1);
    expect(bodies[0].data).toMatchObject({ tool: 'pay', status: 'changed' });
    expect(JSON.stringify(bodies)).not.toContain('Pays');
  });
});

describe('a guard that lies', () => {
  it('reports for gates of its own account and mode alone', async () => {
    const { gateId } = await guard();
    const { key } = await api.createAccount();
    const body = { gate_id: gateId, upstream, tools: [] };
    expectError(await api.call({ url: '/v1/mcp-pins', key, body }), 'gate_not_found', 'gate_id');
    const test = await api.createKey({ scopes: ['enforcement:check'], mode: 'test' });
    expectError(await api.call({ url: '/v1/mcp-pins', key: test.key, body }), 'gate_not_found', 'gate_id');
  });

  it('fills no more than its upstreams, its pins and its body', async () => {
    const { report } = await guard();
    for (let n = 0; n < mcpPinsLimits.upstreamsPerGateMax; n += 1) {
      expect((await report([pay], { upstream: `stdio:${n}` })).status).toBe(200);
    }
    expectError(await report([pay], { upstream: 'stdio:more' }), 'mcp_pins_full');
    const names = Array.from({ length: limits.mcpPinsPerUpstreamMax + 50 }, (_, n) => `tool_${n}_x`);
    let last: Reply;
    for (let at = 0; at < names.length; at += limits.mcpReportToolsMax) {
      const tools = names.slice(at, at + limits.mcpReportToolsMax).map((name) => ({ name }));
      last = await report(tools, { upstream: 'stdio:0', is_whole: false });
      expect(last.status).toBe(200);
    }
    expect(last.body.pins).toHaveLength(limits.mcpPinsPerUpstreamMax);
    const huge = { ...pay, description: 'x'.repeat(limits.mcpToolBytesMax) };
    expectError(await report([huge]), 'invalid_request', 'tools.0.definition');
    const many = Array.from({ length: 13 }, (_, n) => ({ name: `t${n}`, description: 'x'.repeat(31_000) }));
    expectError(await report(many), 'invalid_request', 'tools');
  });

  it.each([
    ['in another spelling', '{"name":"pay","description":"x"}'],
    ['with members that are not compared', '{"extra":1,"name":"pay"}'],
    ['without a name', '{"description":"x"}'],
    ['with a name that disguises itself', '{"name":"\u202eyap"}'],
    ['that is too deep', `{"inputSchema":${'['.repeat(70)}${']'.repeat(70)},"name":"pay"}`],
  ])('is refused a tool %s', async (_what, definition) => {
    const { gateId, key } = await guard();
    const body = { gate_id: gateId, upstream, tools: [{ definition }] };
    expectError(await api.call({ url: '/v1/mcp-pins', key, body }), 'invalid_request', 'tools.0.definition');
  });
});

it('forgets the pins of a deleted gate', async () => {
  const { gateId, report, pinOf } = await guard();
  const { pin_id } = pinOf(await report([pay]), 'pay');
  await api.call({ method: 'DELETE', url: `/v1/gates/${gateId}` });
  expectError(await api.call({ url: `/v1/mcp-pins/${pin_id}` }), 'mcp_pin_not_found');
  expectError(await report([pay]), 'gate_not_found', 'gate_id');
});

describe('the look of a name', () => {
  it.each([
    ['pay', 'p\u0430y'],
    ['pay', 'PAY'],
    ['form', 'forrn'],
    ['transfer1', 'transferI'],
    ['pay', 'p\u200bay'],
    ['pay', '\u{1d4c5}\u{1d4b6}\u{1d4ce}'],
  ])('is the same for %s and %s', (one, other) => {
    expect(lookOf(other)).toBe(lookOf(one));
  });

  it.each([
    ['pay', 'pray'],
    ['get_user', 'get_users'],
  ])('is another for %s and %s', (one, other) => {
    expect(lookOf(other)).not.toBe(lookOf(one));
  });
});

it('shows hidden characters in differences, and members called __proto__', () => {
  const before = '{"description":"a","name":"x"}';
  const after = '{"description":"a\u202eb\u200b\u{e0041}","inputSchema":{"__proto__":{"a":1}},"name":"x"}';
  expect(differencesOf(before, after)).toEqual([
    { pointer: '/description', before: '"a"', after: '"a\\u202eb\\u200b\\udb40\\udc41"' },
    { pointer: '/inputSchema', before: null, after: '{\n  "__proto__": {\n    "a": 1\n  }\n}' },
  ]);
});
