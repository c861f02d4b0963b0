import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { parseUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Cap, countsFor, type Given, unitsOf } from './caps.ts';

/**
 * A gate as it is often written: reads the counters that all its processes share in Redis, and where there is
 * room adds to them. Between the two it writes its record, and others do the same. An outcome gives back what
 * was not spent, each time that it comes. Speaks as much of the API of a sidecar as clients of a race need;
 * the token of a passport is its id. With ATOMIC=1 it checks and adds at once, so that outcomes alone are
 * naive.
 *
 *     REDIS_URL=redis://... node --import tsx naive-gate.ts
 *
 * takes its caps as a message, and then prints `port <n>`.
 */
const caps: readonly Cap[] = await new Promise((resolve) => process.once('message', resolve));
const redis = new Redis(process.env['REDIS_URL'] ?? '');

// Whoever started this is gone.
process.on('disconnect', () => process.exit());

const server = createServer((request, response) => {
  answerTo(request).then(
    (answer) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer));
    },
    // Its client has left before it had sent all, or Redis is away: no answer.
    () => response.destroy(),
  );
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(`port ${typeof address === 'object' ? address?.port : ''}`);
});

async function answerTo(request: IncomingMessage): Promise<object> {
  const body = JSON.parse(await text(request));
  const [, , , id = '', action] = request.url?.split('/') ?? [];
  if (action === 'outcome') return settle(id, body);
  const attestationId = randomUUID();
  const given = givenTo(id, body.passport, body.request.amount ?? 0);
  if (!(await permits(given))) {
    return { decision: 'BLOCK', reason: 'limit_exceeded', attestation_id: attestationId };
  }
  if (caps.length > 0) await redis.set(attestationId, JSON.stringify(given));
  return { decision: 'PERMIT', reason: null, attestation_id: attestationId };
}

async function settle(
  id: string,
  { outcome, amount }: { outcome: string; amount?: number },
): Promise<object> {
  const given: Given = JSON.parse((await redis.get(id)) ?? '');
  const held = given.moneyMicroUsd;
  const spent = outcome === 'failed' ? 0 : amount === undefined ? held : (parseUsd(amount) ?? 0);
  const back = Math.max(0, held - spent);
  const drawn = caps.filter((cap) => countsFor(cap, given));
  await Promise.all(drawn.map((cap) => redis.decrby(keyOf(cap, given.latestMs), back)));
  return { status: 'accepted' };
}

function givenTo(gateId: string, passportId: string, amountUsd: number): Given {
  const nowMs = Date.now();
  const moneyMicroUsd = parseUsd(amountUsd) ?? 0;
  return { gateId, passportId, requests: 1, moneyMicroUsd, earliestMs: nowMs, latestMs: nowMs };
}

async function permits(given: Given): Promise<boolean> {
  const drawn = caps.filter((cap) => countsFor(cap, given));
  if (drawn.length === 0) return true;
  const keys = drawn.map((cap) => keyOf(cap, given.latestMs));
  if (process.env['ATOMIC'] === '1') {
    const numbers = drawn.flatMap((cap) => [cap.limit, unitsOf(cap, given)]);
    return (await redis.eval(checkAndAdd, keys.length, ...keys, ...numbers)) === 1;
  }
  const used = await redis.mget(keys);
  if (drawn.some((cap, place) => Number(used[place] ?? 0) + unitsOf(cap, given) > cap.limit)) return false;
  // As ours does, it has the record before the answer.
  await redis.rpush('records', JSON.stringify(given));
  await Promise.all(drawn.map((cap, place) => redis.incrby(keys[place] ?? '', unitsOf(cap, given))));
  return true;
}

const checkAndAdd = `
  for i, key in ipairs(KEYS) do
    if tonumber(redis.call('GET', key) or '0') + ARGV[2 * i] > tonumber(ARGV[2 * i - 1]) then return 0 end
  end
  for i, key in ipairs(KEYS) do redis.call('INCRBY', key, ARGV[2 * i]) end
  return 1`;

/** Caps of several courses have one name. */
const keyOf = ({ kind, gateId, passportId, wallet, window }: Cap, nowMs: number): string =>
  `${kind} ${wallet?.counter ?? `${gateId} ${passportId}`} ${window} ${windowAt(window, nowMs as UnixMillis).startsAtMs}`;
