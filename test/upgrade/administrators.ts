import { setTimeout as pause } from 'node:timers/promises';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Chance } from '../support/base/chance.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import type { Fleet, Kind } from './fleet.ts';

export interface Administrators {
  readonly done: Readonly<Record<string, number>>;
  /** Sentences: a change that was refused. */
  readonly refused: readonly string[];
  /** Sentences: a change that was not in force in its time. */
  readonly late: readonly string[];
  /** The longest that a change took to be in force everywhere, from its answer, in milliseconds. */
  readonly slowestMs: number;
  /** Changes that took longer than they may while the machine stood still. */
  readonly inconclusive: number;
  stop(): Promise<void>;
}

/**
 * "Within 2 s without a push" (contract §4): while a control plane is replaced a sidecar may have none for a
 * moment. The machine may be busy besides.
 */
const boundMs = 2_000;
/** So long is looked whether it is in force. */
const watchedMs = 4_000;
const pauseMs = 150;
const order = { permission_key: 'orders:create' };

/** Changes what must hold at once: gates, passports and keys, each made, used, ended and then tried again. */
export function startAdministrators(fleet: Fleet, chance: Chance): Administrators {
  const key = fleet.installation.adminKey;
  const done: Record<string, number> = {};
  const refused: string[] = [];
  const late: string[] = [];
  let slowestMs = 0;
  let inconclusive = 0;

  const change = async (method: string, path: string, body?: object): Promise<Reply['body'] | null> => {
    const origin = chance.pick(fleet.in('control plane'));
    const reply = await call(`${origin}/v1${path}`, { method, key, ...(body && { body }) }).catch(
      (error: unknown) => ({ status: 0, body: { error: String(error) } }),
    );
    if (reply.status >= 200 && reply.status < 300) return reply.body;
    refused.push(`${method} ${path.split('/')[1]}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return null;
  };
  const decide = async (
    at: string,
    gateId: string,
    passport: string,
    { by = key, request = order }: { readonly by?: string; readonly request?: object } = {},
  ): Promise<string> => {
    const url = `${at}/v1/gates/${gateId}/check`;
    const reply = await call(url, { key: by, body: { passport, request } }).catch(() => null);
    if (reply === null) return 'no answer';
    const { body, status } = reply;
    return body.error === undefined ? (body.reason ?? body.decision) : `${status} ${body.error.code}`;
  };
  /** From the answer to a change until each program says so to a request that began then. */
  const inForce = async (
    what: string,
    kinds: readonly Kind[],
    said: (at: string) => Promise<string>,
    wanted: string,
  ): Promise<void> => {
    done[what] = (done[what] ?? 0) + 1;
    const stalledMs = measureStall();
    const answeredMs = performance.now();
    await Promise.all(
      kinds
        .flatMap((kind) => fleet.in(kind))
        .map(async (at) => {
          let last = '';
          let beganMs = 0;
          do {
            beganMs = performance.now() - answeredMs;
            last = await said(at);
            // Replaced just now: another one answers for it.
            if (last === 'no answer' || last === '503 service_unavailable') return;
            if (last === wanted) break;
            await pause(10);
          } while (beganMs < watchedMs);
          slowestMs = Math.max(slowestMs, beganMs);
          if (last === wanted && beganMs <= boundMs) return;
          // As in time-promise.ts: a machine that stands still says nothing about a promise.
          if (last === wanted && stalledMs() > boundMs / 2) inconclusive++;
          else late.push(`${what}: ${wanted} after ${Math.round(beganMs)} ms, ${last} then`);
        }),
    );
  };
  const everywhere = ['control plane', 'sidecar'] as const;
  const makeBoth = async () => [
    await change('POST', '/gates', { name: 'gate of an administrator', trust_level: 'L1' }),
    await change('POST', '/passports', {
      agent_id: `agent-${chance.below(1e9)}`,
      permissions: ['orders:create'],
    }),
  ];

  const work: readonly (() => Promise<void>)[] = [
    async () => {
      const [gate, passport] = await makeBoth();
      if (gate === null || passport === null) return;
      const said = (at: string) => decide(at, gate.gate_id, passport.jwt);
      await inForce('gate made', everywhere, said, 'PERMIT');
      const url = `/passports/${passport.passport_id}/revoke`;
      if ((await change('POST', url, {})) === null) return;
      await inForce('passport revoked', everywhere, said, 'passport_revoked');
      // Once more after a while: nobody may forget it.
      await pause(chance.below(2_000));
      await inForce('passport still revoked', everywhere, said, 'passport_revoked');
      if ((await change('DELETE', `/gates/${gate.gate_id}`)) === null) return;
      await inForce('gate deleted', everywhere, said, '404 gate_not_found');
    },
    async () => {
      const [gate, passport] = await makeBoth();
      if (gate === null || passport === null) return;
      const request = { ...order, domain: 'b.example' };
      const said = (at: string) => decide(at, gate.gate_id, passport.jwt, { request });
      await inForce('gate made', everywhere, said, 'PERMIT');
      const body = { constraints: { allowed_domains: ['a.example'] } };
      if ((await change('PUT', `/gates/${gate.gate_id}`, body)) === null) return;
      await inForce('gate changed', everywhere, said, 'domain_not_allowed');
      if ((await change('POST', `/passports/${passport.passport_id}/suspend`, {})) === null) return;
      await inForce('passport suspended', everywhere, said, 'passport_suspended');
    },
    async () => {
      const [gate, passport] = await makeBoth();
      const made = await change('POST', '/api-keys', { name: 'caller', scopes: ['enforcement:check'] });
      if (gate === null || passport === null || made === null) return;
      const said = (at: string) => decide(at, gate.gate_id, passport.jwt, { by: made.key });
      await inForce('key made', everywhere, said, 'PERMIT');
      if ((await change('DELETE', `/api-keys/${made.key_id}`)) === null) return;
      await inForce('key deleted', everywhere, said, '401 unauthorized');
    },
  ];
  const workers: Repetition[] = work.map((each) =>
    repeat(async () => {
      try {
        await each();
      } catch (error) {
        refused.push(`an administrator stopped: ${error instanceof Error ? error.message : error}`);
      }
      return pauseMs;
    }),
  );
  return {
    done,
    refused,
    late,
    get slowestMs() {
      return slowestMs;
    },
    get inconclusive() {
      return inconclusive;
    },
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
    },
  };
}
