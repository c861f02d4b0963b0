import { setTimeout as pause } from 'node:timers/promises';
import { must } from '../../../shared/errors/assert.ts';
import { type Chance, chance } from '../base/chance.ts';
import { call } from '../base/http-client.ts';
import type { Installation } from './installation.ts';

/**
 * Agents of a shop, over several sidecars at once: most requests are permitted, and limits on requests and
 * money bind. Money is held and settled, people answer or do not, passports are revoked on the way. Nothing
 * breaks, and hardly anybody sends what is no passport.
 */
export interface TrafficOptions {
  readonly world: Installation;
  /** Where checks and outcomes go, in turns. */
  readonly sidecars: readonly string[];
  /** About so many decisions. */
  readonly decisions: number;
  readonly seed: number;
}

interface Gate {
  readonly id: string;
  readonly amountsUsd: readonly number[];
  readonly isHolding: boolean;
}

interface Agent {
  readonly id: string;
  readonly token: string;
}

/** A part of a batch, as the sidecar answers it. */
interface Answer {
  readonly decision?: string;
  readonly reason?: string | null;
  readonly attestation_id?: string | null;
  readonly approval_id?: string;
  readonly error?: { readonly code: string };
}

const agentCount = 60;
const batchSize = 32;
const clients = 6;
/** A busy machine sends many away; this is how often each may be. */
const triesMax = 5;
const amountsUsd = [0.01, 0.25, 0.37, 1, 1.99, 3.1];
/** Of requests with an amount. */
const meanUsd = amountsUsd.reduce((sum, each) => sum + each, 0) / amountsUsd.length;
/** Of what is asked of a gate with a limit, so much fits: one request in ten is too many. */
const fits = 0.9;
/** Of 10,000 requests. */
const forgedOf10k = 5;

export interface Traffic {
  /** How many answers there were, by outcome and reason. */
  readonly counts: ReadonlyMap<string, number>;
  /** How many of them have a record. */
  readonly recorded: number;
}

export async function ordinaryTraffic(options: TrafficOptions): Promise<Traffic> {
  const { world, decisions } = options;
  const random = chance(options.seed);
  const gates = await makeGates(world, decisions);
  const agents = await makeAgents(world, decisions);
  const told: Told = { counts: new Map(), recorded: 0 };
  let asked = 0;
  const isOver = () => told.recorded >= decisions || asked >= decisions * triesMax;
  const one = async (client: Chance): Promise<void> => {
    while (!isOver()) {
      asked += batchSize;
      await askBatch({ ...options, client, told, gate: client.pick(gates), agents });
    }
  };
  const revoking = revokeSome(world, agents, () => (isOver() ? 1 : told.recorded / decisions));
  await Promise.all(Array.from({ length: clients }, (_, number) => one(random.branch(`client ${number}`))));
  await revoking;
  return told;
}

async function makeGates(world: Installation, decisions: number): Promise<readonly Gate[]> {
  const share = Math.ceil(decisions / 6);
  const gate = async (constraints: object, about: Partial<Gate> = {}, rest: object = {}): Promise<Gate> => ({
    id: await world.createGate({ constraints, ...rest }),
    amountsUsd,
    isHolding: false,
    ...about,
  });
  const money = Math.ceil(share * meanUsd * fits);
  return [
    await gate({ rate_limits: { requests_per_day: Math.ceil(share * fits) } }, { amountsUsd: [] }),
    await gate({ spend_limits: { daily_usd: money, per_transaction_usd: 3 } }),
    await gate({
      spend_limits: { monthly_usd: Math.ceil(money / agentCount), per: 'passport' },
      rate_limits: { requests_per_minute: 200, per: 'passport' },
    }),
    await gate(
      { spend_limits: { daily_usd: money }, holds: { expires_in_s: 3_600, on_expiry: 'release' } },
      { isHolding: true },
    ),
    await gate({ spend_limits: { daily_usd: money }, approvals: { above_usd: 3, expires_in_s: 60 } }),
    await gate(
      { allowed_domains: ['*.example.com'], pii_controls: { mode: 'log_only' } },
      {},
      { trust_level: 'L2' },
    ),
  ];
}

async function makeAgents(world: Installation, decisions: number): Promise<readonly Agent[]> {
  const own = Math.ceil((decisions / agentCount) * meanUsd * fits);
  const agents: Agent[] = [];
  while (agents.length < agentCount) {
    const constraints = agents.length % 10 === 0 ? { spend_limits: { daily_usd: own } } : {};
    agents.push(await world.issuePassport({ trust_tier: 'L2', constraints }));
  }
  return agents;
}

/** Three of them on the way. */
async function revokeSome(world: Installation, agents: readonly Agent[], done: () => number): Promise<void> {
  for (const [place, { id }] of agents.slice(0, 3).entries()) {
    while (done() < (place + 1) / 4) await pause(50);
    const { status } = await world.api('POST', `/passports/${id}/revoke`, {});
    if (status !== 200) throw new Error(`a revocation was answered ${status}`);
  }
}

interface Told {
  readonly counts: Map<string, number>;
  recorded: number;
}

interface Batch extends TrafficOptions {
  readonly client: Chance;
  readonly told: Told;
  readonly gate: Gate;
  readonly agents: readonly Agent[];
}

async function askBatch(batch: Batch): Promise<void> {
  const { gate, client, agents } = batch;
  const checks = Array.from({ length: batchSize }, () => {
    const { token } = client.pick(agents);
    const passport = client.below(10_000) < forgedOf10k ? `${token.slice(0, -8)}AAAAAAAA` : token;
    const domain = client.below(100) === 0 ? 'example.org' : 'shop.example.com';
    return {
      passport,
      request: {
        permission_key: client.below(200) === 0 ? 'orders:delete' : 'orders:create',
        domain,
        ...(gate.amountsUsd.length === 0 ? {} : { amount: client.pick(gate.amountsUsd) }),
        ...(gate.isHolding ? { hold: true } : {}),
        turn: client.below(2 ** 31),
      },
    };
  });
  const answers = await check(batch, checks);
  for (const [place, answer] of answers.entries()) {
    const { decision, attestation_id: id, approval_id: approvalId } = answer;
    note(batch.told, answer);
    if (gate.isHolding && decision === 'PERMIT') await settle(batch, String(id));
    if (decision === 'SUSPEND') await answerApproval(batch, must(checks[place], 'asked'), String(approvalId));
  }
}

const sidecarOf = ({ client, sidecars }: Batch): string => client.pick(sidecars);

async function check(batch: Batch, checks: readonly object[]): Promise<readonly Answer[]> {
  const url = `${sidecarOf(batch)}/v1/gates/${batch.gate.id}/check/batch`;
  const { status, body } = await call(url, { key: batch.world.adminKey, body: { checks } });
  const answers: readonly Answer[] = status === 200 ? body.results : [];
  if (answers.length === 0 || answers.some(({ error }) => error?.code === 'overloaded')) await pause(50);
  return answers;
}

/** A quarter: what came to less goes back, or all of it. */
async function settle(batch: Batch, id: string): Promise<void> {
  const turn = batch.client.below(8);
  if (turn > 1) return;
  const body = turn === 0 ? { outcome: 'failed' } : { outcome: 'served', amount: 0.01 };
  const url = `${sidecarOf(batch)}/v1/attestations/${id}/outcome`;
  await call(url, { key: batch.world.adminKey, body });
}

/** One in twenty is answered; the others expire, or wait still at the end. */
async function answerApproval(batch: Batch, asked: { readonly request: object }, id: string): Promise<void> {
  const turn = batch.client.below(60);
  if (turn > 2) return;
  await batch.world.api('POST', `/approvals/${id}/${turn === 2 ? 'deny' : 'approve'}`, {});
  const again = { ...asked, request: { ...asked.request, approval_id: id } };
  const [answer] = await check(batch, [again]);
  if (answer !== undefined) note(batch.told, answer);
}

function note(told: Told, { decision, reason, attestation_id: id, error }: Answer): void {
  const word = decision === undefined ? `error ${error?.code}` : `${decision} ${reason ?? ''}`.trim();
  told.counts.set(word, (told.counts.get(word) ?? 0) + 1);
  if (typeof id === 'string') told.recorded += 1;
}
