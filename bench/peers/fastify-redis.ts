import Fastify from 'fastify';
import { Redis } from 'ioredis';
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose';

/**
 * The stack that a team would write for itself: Fastify, jose for the token on every request, one Redis
 * script on every request for the counters. Settings come by the environment: REDIS_URL, JWKS (the key set as
 * JSON), API_KEY, DOMAIN, PER_TRANSACTION_USD.
 */
const { REDIS_URL = '', JWKS = '', API_KEY = '', DOMAIN = '', PER_TRANSACTION_USD = '0' } = process.env;

/** Counts the request in its minute and its amount in its day, unless either would pass its limit. */
const take = `
local requests = redis.call('INCR', KEYS[1])
if requests == 1 then redis.call('EXPIRE', KEYS[1], 60) end
if requests > tonumber(ARGV[1]) then return 0 end
local spent = redis.call('INCRBY', KEYS[2], ARGV[2])
if spent == tonumber(ARGV[2]) then redis.call('EXPIRE', KEYS[2], 86400) end
if spent > tonumber(ARGV[3]) then redis.call('DECRBY', KEYS[2], ARGV[2]) return 0 end
return 1`;

class Quota extends Redis {
  declare take: (...values: (string | number)[]) => Promise<number>;
}

const quota = new Quota(REDIS_URL);
quota.defineCommand('take', { numberOfKeys: 2, lua: take });
const keys = createLocalJWKSet(JSON.parse(JWKS) as JSONWebKeySet);

interface Check {
  readonly passport: string;
  readonly request: { readonly permission_key: string; readonly amount: number; readonly domain: string };
}

const app = Fastify({ logger: false });
app.post<{ Body: Check; Params: { gate: string } }>('/v1/gates/:gate/check', async (request, reply) => {
  if (request.headers.authorization !== `Bearer ${API_KEY}`) {
    return reply.code(401).send({ error: { code: 'unauthorized', status: 401 } });
  }
  const { passport, request: asked } = request.body;
  const { payload } = await jwtVerify(passport, keys, { typ: 'passport+jwt', algorithms: ['EdDSA'] });
  const block = (reason: string) => ({ decision: 'BLOCK', reason, attestation_id: null });
  const permissions = payload['permissions'];
  if (!Array.isArray(permissions) || !permissions.includes(asked.permission_key))
    return block('permission_not_granted');
  if (asked.domain !== DOMAIN) return block('domain_not_allowed');
  if (asked.amount > Number(PER_TRANSACTION_USD)) return block('spend_limit_exceeded');
  const now = Date.now();
  const minute = `${request.params.gate}:minute:${Math.floor(now / 60_000)}`;
  const day = `${request.params.gate}:day:${Math.floor(now / 86_400_000)}`;
  const micro = Math.round(asked.amount * 1e6);
  const isTaken = await quota.take(minute, day, 1e12, micro, Number.MAX_SAFE_INTEGER);
  if (isTaken !== 1) return block('rate_limit_exceeded');
  return { decision: 'PERMIT', reason: null, attestation_id: null, constraints_evaluated: ['passport'] };
});

await app.listen({ host: '127.0.0.1', port: 0 });
const address = app.server.address();
console.log(`port ${typeof address === 'object' && address !== null ? address.port : ''}`);
