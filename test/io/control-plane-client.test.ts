import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SidecarId } from '../../shared/model/ids.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { Settlement } from '../../shared/wire/sync/settlement.ts';
import { syncVersion, syncVersionHeader } from '../../shared/wire/sync/sync.ts';
import { ControlPlaneClient } from '../../sidecar/replica/control-plane-client.ts';
import { ControlPlaneError } from '../../sidecar/replica/control-plane-error.ts';
import { type ListeningServer, listening } from '../support/base/listening.ts';
import { until } from '../support/base/until.ts';
import { numbered } from '../support/data/model-service.ts';
import { sampleId } from '../support/data/sample-chains.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly authorization: string | undefined;
  readonly version: string | string[] | undefined;
  readonly body: string;
}

const sidecarId = `side_${'0'.repeat(26)}` as SidecarId;
const apiKey = 'at_live_of_a_test';
const position = { account: { revision: 1, mark: 'a' }, global: { revision: 2, mark: 'g' } };
let server: ListeningServer;
let client: ControlPlaneClient;
let seen: Seen[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  seen = [];
  const handler = createServer((request, response) => {
    void text(request).then((body) => {
      const { method, url, headers } = request;
      const version = headers[syncVersionHeader];
      seen.push({ method, url, authorization: headers.authorization, version, body });
      answer(request, response);
    });
  });
  server = await listening(handler);
  client = new ControlPlaneClient({
    origin: server.origin,
    apiKey,
    sidecarId,
    clock: systemClock,
    logger: silentLogger,
  });
});
afterEach(async () => {
  await client.close();
  await server.close();
});

const json = (status: number, body: unknown) => {
  answer = (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
};
const error = (status: number, code: string) =>
  json(status, { error: { code, message: 'Why.', status, request_id: 'req_x' } });

async function connected(): Promise<void> {
  json(200, { account_id: numbered.account(1), connection_id: 'conn', replica: 'r', now_ms: 5 });
  await client.connect();
}

const noSignal = new AbortController().signal;

describe('the client of the control plane', () => {
  it('is not connected at first, and names its connection afterwards', async () => {
    expect(client.connection).toBeNull();
    await expect(client.changes(position, 0, noSignal)).rejects.toThrow('not connected');
    expect(seen).toEqual([]);
    await connected();
    expect(client.connection).toEqual({ sidecarId, accountId: numbered.account(1), connectionId: 'conn' });
    expect(seen[0]).toMatchObject({
      method: 'POST',
      url: '/v1/sync/connect',
      authorization: `Bearer ${apiKey}`,
    });
    json(200, {});
    await client.ack(position);
    expect(JSON.parse(seen[1]?.body ?? '')).toEqual({
      sidecar_id: sidecarId,
      connection_id: 'conn',
      account_revision: 1,
      account_mark: 'a',
      global_revision: 2,
      global_mark: 'g',
    });
  });

  it('states its version in each call', async () => {
    await connected();
    json(200, {});
    await client.ack(position);
    await client.shipAttestations(Buffer.from('{}')).catch(() => undefined);
    await client.snapshot().catch(() => undefined);
    expect(seen.map(({ version }) => version)).toEqual(Array.from(seen, () => String(syncVersion)));
    expect(seen).toHaveLength(4);
  });

  describe('where the control plane is of the version before', () => {
    const form1 = spooledRecord({ id: sampleId('att', 1) });
    const form2 = { policy_hash: null, trust_level: 'L1', state_age_ms: 1, extras: null };
    /** As 0.2.0 refuses a member that it does not know. */
    const refusesForm = (good: object) => {
      answer = (_request, response) => {
        const isKnown = !('form' in JSON.parse(seen.at(-1)?.body ?? '{}'));
        const error = {
          code: 'invalid_request',
          message: 'No.',
          status: 400,
          param: 'form',
          request_id: 'r',
        };
        response.writeHead(isKnown ? 200 : 400).end(JSON.stringify(isKnown ? good : { error }));
      };
    };

    it('ships a batch once more in form 1, with nothing else changed', async () => {
      await connected();
      refusesForm({ next_seq: 5 });
      const { chain_id, passport_id, token_hash } = form1;
      const outcome = { gate_id: null, decision: 'PERMIT', pii: [] };
      const { state_age_ms, extras, ...ofGate } = form2;
      const row = ['att', 'hash', 1, 2, [3]];
      const batch = {
        ...{ sidecar_id: sidecarId, first_seq: 1, form: 2 },
        records: [
          { chains: [{ chain_id, passport_id, token_hash }], outcomes: [{ ...outcome, ...ofGate }, outcome] },
          [...row, state_age_ms, extras, 0, 0],
          [...row, 0, 1],
          { void: 'damaged', count: 2 },
        ],
      };
      const body = Buffer.from(JSON.stringify(batch));
      expect(await client.shipAttestations(body)).toEqual({ kind: 'taken', nextSeq: 5 });
      const { form: _, ...others } = batch;
      expect(JSON.parse(seen.at(-1)?.body ?? '')).toEqual({
        ...others,
        records: [
          { chains: [{ chain_id, passport_id, token_hash }], outcomes: [outcome, outcome] },
          [...row, 0, 0],
          [...row, 0, 1],
          { void: 'damaged', count: 2 },
        ],
      });
      expect(seen).toHaveLength(3);
    });

    it('settles once more in form 1', async () => {
      await connected();
      refusesForm({ answers: [{ kind: 'committed' }] });
      const settlement = {
        ...{ kind: 'permit', wanted_ms: 1, passport_id: form1.passport_id, token_hash: form1.token_hash },
        ...{ gate_id: null, gate_version: 0, request_hash: form1.request_hash, idempotency_key: 'k' },
        ...{ reader_id: sampleId('att', 2), approval_id: null },
      };
      const settle = (record: object) => client.settle([{ ...settlement, record } as Settlement], 'holder');
      expect(await settle({ ...form1, ...form2 })).toEqual([{ kind: 'committed' }]);
      const [whole, again] = seen.slice(1).map(({ body }) => JSON.parse(body));
      expect(whole).toMatchObject({ form: 2, settlements: [{ record: form2 }] });
      expect(again.settlements[0].record).toEqual(form1);
      expect('form' in again).toBe(false);
      await settle(form1);
      expect(seen, 'form 1 is sent once').toHaveLength(4);
    });
  });

  it('throws the error of the answer, without the key or the connection in its message', async () => {
    await connected();
    error(412, 'precondition_failed');
    const failure = await client.changes(position, 0, noSignal).catch((thrown: unknown) => thrown);
    expect(failure).toBeInstanceOf(ControlPlaneError);
    expect(failure).toMatchObject({ status: 412, code: 'precondition_failed', isSuperseded: true });
    expect(String(failure)).not.toContain('conn=');
    expect(String(failure)).not.toContain('connection_id');
    expect(String(failure)).not.toContain(apiKey);
  });

  it('gives up an answer that is larger than it may be', async () => {
    await connected();
    answer = (_request, response) => {
      response.writeHead(200);
      const chunk = Buffer.alloc(256 * 1024, 0x20);
      for (let i = 0; i < 6; i++) response.write(chunk);
      response.end('{}');
    };
    await expect(client.ack(position)).rejects.toThrow('more than');
  });

  it('ships a batch byte for byte and returns the answer', async () => {
    json(200, { next_seq: 3 });
    expect(await client.shipAttestations(Buffer.from('{"records":[]}'))).toEqual({
      kind: 'taken',
      nextSeq: 3,
    });
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/v1/sync/attestations', body: '{"records":[]}' });
    error(409, 'connection_superseded');
    expect(await client.shipAttestations(Buffer.from('{}'))).toEqual({ kind: 'superseded' });
    error(503, 'service_unavailable');
    await expect(client.shipAttestations(Buffer.from('{}'))).rejects.toMatchObject({ status: 503 });
  });

  it('drops a connection that the control plane does not know, but no newer one', async () => {
    await connected();
    error(409, 'connection_unknown');
    await expect(client.changes(position, 0, noSignal)).rejects.toMatchObject({ isSuperseded: false });
    expect(client.connection).toBeNull();
    await connected();
    error(409, 'connection_unknown');
    expect(await client.shipAttestations(Buffer.from('{}'))).toEqual({ kind: 'reconnect' });
    expect(client.connection).toBeNull();

    await connected();
    let reply: () => void = () => undefined;
    answer = (_request, response) => {
      reply = () => void response.writeHead(409).end('{"error":{"code":"connection_unknown","message":"m"}}');
    };
    const late = client.ack(position).catch(() => undefined);
    await until(() => seen.at(-1)?.url === '/v1/sync/ack', { what: 'the acknowledgement is on its way' });
    await connected();
    const newer = client.connection;
    reply();
    await late;
    expect(client.connection).toBe(newer);
  });
});
