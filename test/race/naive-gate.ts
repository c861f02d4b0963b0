import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { parseUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Cap, countsFor, unitsOf } from './caps.ts';

/**
 * A gate as it is often written: reads the counters that all its processes share in Redis, and where there is
 * room adds to them. Between the two it writes its record, and others do the same. Speaks as much of the API
 * of a sidecar as clients of a race need; the token of a passport is its id.
 *
 *     REDIS_URL=redis://... CAPS='[...]' node --import tsx naive-gate.ts      prints `port <n>`
 */
const caps: readonly Cap[] = JSON.parse(process.env['CAPS'] ?? '[]');
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
  const { passport, request: asked } = JSON.parse(await text(request));
  const gateId = request.url?.split('/')[3] ?? '';
  const isPermitted = await permits(gateId, passport, asked.amount ?? 0);
  return isPermitted
    ? { decision: 'PERMIT', reason: null, attestation_id: randomUUID() }
    : { decision: 'BLOCK', reason: 'limit_exceeded', attestation_id: randomUUID() };
}

async function permits(gateId: string, passportId: string, amountUsd: number): Promise<boolean> {
  const nowMs = Date.now();
  const moneyMicroUsd = parseUsd(amountUsd) ?? 0;
  const given = {
    gateId,
    passportId,
    requests: 1,
    moneyMicroUsd,
    earliestMs: nowMs,
    latestMs: nowMs,
  } as const;
  const drawn = caps.filter((cap) => countsFor(cap, given));
  if (drawn.length === 0) return true;
  const keys = drawn.map((cap) => keyOf(cap, nowMs));
  const used = await redis.mget(keys);
  if (drawn.some((cap, place) => Number(used[place] ?? 0) + unitsOf(cap, given) > cap.limit)) return false;
  // As ours does, it has the record before the answer.
  await redis.rpush('records', JSON.stringify(given));
  await Promise.all(drawn.map((cap, place) => redis.incrby(keys[place] ?? '', unitsOf(cap, given))));
  return true;
}

/** Caps of several courses have one name. */
const keyOf = ({ kind, gateId, passportId, window }: Cap, nowMs: number): string =>
  `${kind} ${gateId} ${passportId} ${window} ${windowAt(window, nowMs as UnixMillis).startsAtMs}`;
