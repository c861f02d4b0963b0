import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import { decide as guardedBy } from '../../clients/node/src/guard.ts';
import type { Sidecar } from '../../clients/node/src/sidecar.ts';
import {
  type Decision,
  type EmbeddedAgentTrust,
  type EmbeddedOptions,
  ForbiddenError,
  InvalidRequestError,
  NotFoundError,
  startEmbedded,
} from '../../sidecar/embedded/start-embedded.ts';
import { removeFolder, temporaryFolder } from '../support/base/temporary-folder.ts';
import { untilAnswer } from '../support/base/until.ts';
import { startTestEmbedded, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create', amount: 5 };

const api = useApi();
let world: TestSidecar;
let trust: EmbeddedAgentTrust;
let gate: string;
let passport: string;
let passportId: string;

beforeAll(async () => {
  const started = await startTestEmbedded({ api });
  world = started;
  trust = started.embedded;
  gate = (await api.createGate()).gate_id;
  const issued = await api.issuePassport();
  passport = issued.jwt;
  passportId = issued.passport_id;
  await world.caughtUp();
});
afterAll(async () => {
  await world?.close();
  world?.removeFolder();
});

const ask = (request: Readonly<Record<string, unknown>> = order): Promise<Decision> =>
  trust.check({ gate, passport, request });

/** The record, as soon as it is in its chain. */
async function attestation(id: string | null) {
  const read = () => api.call({ url: `/v1/attestations/${id}` });
  return (await untilAnswer(read, ({ status }) => status === 200, { what: `attestation ${id}` })).body;
}

describe('a check in the process that asks', () => {
  it('is decided and recorded as a check over HTTP', async () => {
    const ours = await ask();
    const theirs = await api.call({ url: `/v1/gates/${gate}/check`, body: { passport, request: order } });
    expect({ ...ours, attestation_id: null }).toEqual({ ...theirs.body, attestation_id: null });
    const [record, other] = [await attestation(ours.attestation_id), theirs.body.attestation_id];
    expect(record).toMatchObject({ decision: 'PERMIT', gate_id: gate, passport_id: passportId });
    expect(record.request_hash).toBe((await attestation(other)).request_hash);
  });

  it('takes its arguments as the client of a sidecar does, which guards rely on', async () => {
    expectTypeOf<EmbeddedAgentTrust>().toExtend<Pick<Sidecar, 'check' | 'enforce' | 'checkBatch'>>();
    expect(await trust.check(gate, { passport, request: order })).toMatchObject({ decision: 'PERMIT' });
    expect(await trust.enforce({ passport, request: order })).toMatchObject({ decision: 'PERMIT' });
    expect(await trust.enforce({ passport, request: { ...order, gate_id: gate } })).toMatchObject({
      decision: 'PERMIT',
      constraints_evaluated: expect.arrayContaining(['trust_level']),
    });
  });

  it('is charged once under an idempotency key', async () => {
    const keyed = () => trust.check({ gate, passport, request: order, idempotencyKey: 'order-17' });
    const [first, second] = [await keyed(), await keyed()];
    expect(first).toMatchObject({ decision: 'PERMIT', attestation_id: expect.any(String) });
    expect(second).toEqual(first);
    const differs = { ...order, idempotency_key: 'order-18' };
    await expect(
      trust.check({ gate, passport, request: differs, idempotencyKey: 'order-17' }),
    ).rejects.toMatchObject({ code: 'invalid_request', param: 'idempotencyKey' });
  });

  it('throws what a repetition cannot cure, in words of the service', async () => {
    const unknown = trust.check('gate_01m7w8f9hdzbnzm1x73rrwwwpj', { passport, request: order });
    await expect(unknown).rejects.toThrow(NotFoundError);
    await expect(unknown).rejects.toMatchObject({ code: 'gate_not_found', http_status: 404 });
    await expect(ask({ ...order, amount: -1 })).rejects.toThrow(InvalidRequestError);
    await expect(ask({ ...order, amount: -1 })).rejects.toMatchObject({ param: 'request.amount' });
    await expect(ask({ ...order, amount: Number.NaN })).rejects.toThrow(InvalidRequestError);
    const noText = trust.check({ gate, passport: 7 as unknown as string, request: order });
    await expect(noText).rejects.toThrow(InvalidRequestError);
  });

  it('never takes a gate that was left out or misspelled for a check without one', async () => {
    const check = { passport, request: order };
    const wrong = [
      () => trust.check(check as typeof check & { gate: string }),
      () => trust.check({ ...check, gateId: gate } as unknown as typeof check & { gate: string }),
      () => trust.check({ ...check, gate: null as unknown as string }),
      () => trust.check(undefined as unknown as string, check),
      () => trust.check(null as unknown as string, check),
      () => trust.checkBatch(undefined as unknown as string, [check]),
      () => trust.checkBatch(null as unknown as string, [check]),
    ];
    for (const call of wrong) {
      await expect(call()).rejects.toMatchObject({ code: 'gate_not_found', param: 'gate' });
    }
  });

  it('refuses a gate beside a request in enforce, which would not look at it', async () => {
    const check = { gate, passport, request: order };
    await expect(trust.enforce(check)).rejects.toMatchObject({ code: 'invalid_request', param: 'gate' });
    expect(await trust.enforce({ passport, request: order, ...{ gate: undefined } })).toMatchObject({
      decision: 'PERMIT',
    });
  });

  it('names a check that is none, alone and in a batch', async () => {
    const none = undefined as unknown as { passport: string; request: typeof order };
    const refused = { code: 'invalid_request', param: 'check' };
    await expect(trust.check(gate, none)).rejects.toMatchObject(refused);
    await expect(trust.enforce(none)).rejects.toMatchObject(refused);
    const withHole = [{ passport, request: order }, null as unknown as typeof none, none];
    delete withHole[2];
    expect(await trust.checkBatch(gate, withHole)).toEqual([
      expect.objectContaining({ decision: 'PERMIT' }),
      expect.objectContaining(refused),
      expect.objectContaining(refused),
    ]);
  });

  it('stands behind a guard in place of the client', async () => {
    const setup = { sidecar: trust, controlPlaneUrl: 'http://127.0.0.1:8080' };
    const body = { kind: 'read', value: { item: 'tea' } } as const;
    const incoming = { method: 'POST', path: '/orders', header: () => undefined, body };
    const verdict = (options: object) =>
      guardedBy(setup, { gate, permission: 'orders:create', ...options }, {}, incoming);
    const shown = { passportFrom: () => passport };
    expect(await verdict(shown)).toMatchObject({ kind: 'pass', decision: { decision: 'PERMIT' } });
    expect(await verdict({ ...shown, permission: 'orders:delete' })).toMatchObject({
      kind: 'refuse',
      status: 403,
      body: { reason: 'permission_not_granted' },
    });
    expect(await verdict({ ...shown, amount: -1 })).toMatchObject({ kind: 'refuse', status: 400 });
    for (const wrong of ['gate_x', undefined])
      await expect(verdict({ ...shown, gate: wrong })).rejects.toThrow('agent-trust refuses this guard');
  });
});

describe('the program around it', () => {
  it('may change its object after the call: the original is decided, and redacted', async () => {
    const redacting = await api.createGate({ constraints: { pii_controls: { mode: 'redact' } } });
    await world.caughtUp();
    const note = { text: 'write to jane@example.com' };
    const answer = trust.check({ gate: redacting.gate_id, passport, request: { ...order, note } });
    note.text = 'changed';
    expect(await answer).toMatchObject({
      decision: 'PERMIT',
      request_redacted: { note: { text: expect.stringContaining('write to [') } },
    });
  });

  it('gets back what its own getter throws, and nothing is recorded', async () => {
    const before = await decisions();
    const request = {
      ...order,
      get item(): string {
        throw new Error('no item today');
      },
    };
    await expect(ask(request)).rejects.toThrow('no item today');
    const batch = [
      { passport, request: order },
      { passport, request },
    ];
    await expect(trust.checkBatch(gate, batch)).rejects.toThrow('no item today');
    expect(await decisions()).toBe(before);
    expect(await ask()).toMatchObject({ decision: 'PERMIT' });
  });

  it('may give a check up, by a signal or a deadline, and nothing is taken for it', async () => {
    const limited = await api.createGate({ constraints: { rate_limits: { requests_per_day: 1 } } });
    await world.caughtUp();
    const check = { gate: limited.gate_id, passport, request: order };
    await expect(trust.check({ ...check, signal: AbortSignal.abort('no use') })).rejects.toBe('no use');
    world.link.cut();
    const leaving = new AbortController();
    const given = trust.check({ ...check, signal: leaving.signal });
    const late = trust.check({ ...check, deadlineMs: 1 });
    leaving.abort('its client has gone');
    await expect(given).rejects.toBe('its client has gone');
    expect(await late).toMatchObject({ decision: 'UNAVAILABLE', reason: 'timeout' });
    world.resume();
    // All of the limit is left.
    expect(await decided(trust, check)).toMatchObject({ decision: 'PERMIT' });
    await expect(trust.check({ ...check, deadlineMs: 0 })).rejects.toThrow(TypeError);
  });
});

describe('what goes wrong around it', () => {
  it('decides nothing on a stale state after the program blocked the event loop', async () => {
    // Long polls alone: a push would reach it in this process.
    const own = await startTestEmbedded({ api, bus: null });
    const { passport_id, jwt } = await api.issuePassport();
    await own.caughtUp();
    const check = { gate, passport: jwt, request: order };
    expect(await own.embedded.check(check)).toMatchObject({ decision: 'PERMIT' });
    own.link.cut();
    await api.call({ url: `/v1/passports/${passport_id}/revoke`, body: {} });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
    own.link.restore();
    expect(await own.embedded.check(check)).toMatchObject({ reason: 'passport_revoked' });
    await own.close();
    own.removeFolder();
  });

  it('is UNAVAILABLE without its folder, and decides again in a new one', async () => {
    const own = await startTestEmbedded({ api });
    await own.caughtUp();
    const check = () => own.embedded.check({ gate, passport, request: order });
    const before = await check();
    removeFolder(join(own.folder, 'spool'));
    expect(await check()).toMatchObject({ decision: 'UNAVAILABLE', reason: 'overloaded' });
    expect(own.embedded.isReady()).toBe(false);
    const isBack = ({ decision }: Decision) => decision === 'PERMIT';
    const after = await untilAnswer(check, isBack, { what: 'a decision' });
    for (const { attestation_id } of [before, after]) await attestation(attestation_id);
    await own.close();
    own.removeFolder();
  });

  it('throws ForbiddenError while its account is suspended', async () => {
    const account = await api.createAccount();
    const own = await startTestEmbedded({ api, accountKey: account.key });
    const of = { gate: (await api.createGate({}, account.key)).gate_id, passport, request: order };
    const suspended = {
      method: 'PUT',
      url: `/v1/accounts/${account.accountId}`,
      key: api.operatorKey,
      body: { status: 'suspended' },
    };
    expect((await api.call(suspended)).status).toBe(200);
    await expect(
      untilAnswer(
        () => own.embedded.check(of),
        () => false,
        { what: 'the suspension' },
      ),
    ).rejects.toThrow(ForbiddenError);
    await own.close();
    own.removeFolder();
  });
});

describe('starting and stopping', () => {
  const folders: ReturnType<typeof temporaryFolder>[] = [];
  afterAll(() => {
    for (const folder of folders) folder.remove();
  });
  const newFolder = () => {
    const folder = temporaryFolder();
    folders.push(folder);
    return folder.path;
  };
  const optionsIn = async (dataDir: string): Promise<EmbeddedOptions> => ({
    controlPlaneUrl: `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`,
    apiKey: (await api.createKey({ scopes: ['sidecars:connect'] })).key,
    dataDir,
    logLevel: 'silent',
  });
  const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);

  it('shares a process with others, each in its folder, and leaves the process as it was', async () => {
    const before = listeners();
    const options = await Promise.all([newFolder(), newFolder()].map(optionsIn));
    const both = await Promise.all(options.map((each) => startEmbedded(each)));
    expect(listeners()).toEqual(before);
    const limited = await api.createGate({ constraints: { rate_limits: { requests_per_day: 3 } } });
    const check = { gate: limited.gate_id, passport, request: order };
    for (const each of both) {
      const knows = () => each.check(check).catch((error: Error) => error);
      const isDecided = (answer: Decision | Error) => !(answer instanceof NotFoundError) && stays(answer);
      await untilAnswer(knows, isDecided, { what: 'the gate' });
    }
    const answers = await Promise.all(both.flatMap((each) => [decided(each, check), decided(each, check)]));
    const permits = answers.filter(({ decision }) => decision === 'PERMIT');
    // Two of the three were taken while they got to know the gate.
    expect(permits).toHaveLength(1);
    await expect(startEmbedded(options[0] as EmbeddedOptions)).rejects.toThrow('is in use by another');
    await Promise.all(both.map((each) => each.stop()));
    for (const { attestation_id } of permits) {
      // Already there, when `stop` has resolved.
      expect((await api.call({ url: `/v1/attestations/${attestation_id}` })).status).toBe(200);
    }
    expect(listeners()).toEqual(before);
  });

  it('answers checks in flight, then UNAVAILABLE, and starts again in its folder; its units go back', async () => {
    const limited = await api.createGate({ constraints: { rate_limits: { requests_per_day: 3 } } });
    const check = { gate: limited.gate_id, passport, request: order };
    const options = await optionsIn(newFolder());
    const first = await startEmbedded(options);
    expect(await decided(first, check)).toMatchObject({ decision: 'PERMIT' });
    const underWay = first.check({ gate, passport, request: order });
    const stopped = first.stop();
    expect(await underWay).toMatchObject({ decision: 'PERMIT' });
    expect(first.isReady()).toBe(false);
    expect(await first.check({ gate, passport, request: order })).toMatchObject({
      decision: 'UNAVAILABLE',
      reason: 'service_unavailable',
    });
    await stopped;
    await first.stop();
    const again = await startEmbedded(options);
    expect(again.isReady()).toBe(true);
    expect(await again.check({ gate, passport, request: order })).toMatchObject({ decision: 'PERMIT' });
    await again.stop();
    const second = await startEmbedded(await optionsIn(newFolder()));
    expect(await decided(second, check)).toMatchObject({ decision: 'PERMIT' });
    expect(await decided(second, check)).toMatchObject({ decision: 'PERMIT' });
    expect(await decided(second, check)).toMatchObject({ reason: 'rate_limit_exceeded' });
    await second.stop();
  });

  it('is not ready without a control plane, says so to each check, and refuses a batch that is none', async () => {
    const own = await startEmbedded({
      ...(await optionsIn(newFolder())),
      controlPlaneUrl: 'http://127.0.0.1:1',
      readyWaitMs: 0,
    });
    expect(own.isReady()).toBe(false);
    const unavailable = { decision: 'UNAVAILABLE', reason: 'service_unavailable' };
    expect(await own.check({ gate, passport, request: order })).toMatchObject(unavailable);
    const none = own.checkBatch(gate, 'nonsense' as unknown as [], { deadlineMs: 1 });
    await expect(none).rejects.toThrow(InvalidRequestError);
    // Its deadline finds nothing to do.
    const one = [{ passport, request: order }];
    expect(await own.checkBatch(gate, one, { deadlineMs: 1 })).toMatchObject([{ decision: 'UNAVAILABLE' }]);
    await own.stop();
  });
});

/** Not one for a moment, as a busy machine may give. */
const stays = (answer: Decision | Error): boolean =>
  answer instanceof Error || (answer.decision !== 'UNAVAILABLE' && answer.reason !== 'quota_unavailable');
const decided = (
  by: EmbeddedAgentTrust,
  check: { readonly gate: string; readonly passport: string; readonly request: typeof order },
) => untilAnswer(() => by.check(check), stays, { what: 'an answer that stays' });

async function metric(name: string): Promise<number> {
  const lines = (await trust.metrics())
    .split('\n')
    .filter((line) => line.startsWith(`agent_trust_sidecar_${name}`));
  expect(lines.length).toBeGreaterThan(0);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

const decisions = () => metric('decisions_total');
