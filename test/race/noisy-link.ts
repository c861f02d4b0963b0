import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Chance } from './chance.ts';

/**
 * What stands between a sidecar and its control planes: a proxy that sends each call to one of them, and
 * while it is noisy loses calls before and answers after they were delivered, delivers calls twice, at once
 * or much later, and holds them up, also past the moment when the sidecar gives up.
 */
export interface NoisyLink {
  /** Of this end, to be called as the control plane. */
  readonly origin: string;
  isNoisy: boolean;
  /** What was done to calls so far. */
  readonly done: Readonly<Record<Noise, number>>;
  close(): Promise<void>;
}

type Noise = 'lost call' | 'lost answer' | 'twice at once' | 'twice, late' | 'held up';

/** Of a hundred calls. */
const percent: Readonly<Record<Noise, number>> = {
  'lost call': 2,
  'lost answer': 4,
  'twice at once': 4,
  'twice, late': 4,
  'held up': 6,
};
/** Past the second after which a sidecar gives up one attempt, and past the half minute of none. */
const holdUpMsMax = 1_200;
const lateMsMax = 3_000;

export async function noisyLink(origins: readonly string[], chance: Chance): Promise<NoisyLink> {
  // A sidecar gives up when it wants to; what it asks for may be news that come in half a minute.
  const pools = origins.map((origin) => new Pool(origin, { headersTimeout: 0, bodyTimeout: 0 }));
  const done = { 'lost call': 0, 'lost answer': 0, 'twice at once': 0, 'twice, late': 0, 'held up': 0 };
  let isClosed = false;

  const deliver = async (call: Arrived): Promise<Answer | null> => {
    try {
      const { statusCode, headers, body } = await chance.pick(pools).request({
        method: call.method as 'GET' | 'POST',
        path: call.path,
        headers: call.headers,
        body: call.body.length === 0 ? null : call.body,
      });
      return {
        status: statusCode,
        type: headers['content-type'],
        body: Buffer.from(await body.arrayBuffer()),
      };
    } catch {
      // That control plane is down, or went down: for the sidecar the connection ends.
      return null;
    }
  };
  const pass = async (call: Arrived, noise: Noise | null): Promise<Answer | null> => {
    if (noise !== null) done[noise]++;
    switch (noise) {
      case null:
        return deliver(call);
      case 'lost call':
        return null;
      case 'lost answer':
        await deliver(call);
        return null;
      case 'twice at once':
        return (await Promise.all([deliver(call), deliver(call)]))[0];
      case 'twice, late': {
        const answer = await deliver(call);
        void pause(chance.below(lateMsMax), null, { ref: false }).then(() =>
          isClosed ? null : deliver(call),
        );
        return answer;
      }
      case 'held up':
        await pause(chance.below(holdUpMsMax));
        return deliver(call);
    }
  };

  const link: NoisyLink = {
    origin: '',
    isNoisy: false,
    done,
    close: async () => {
      isClosed = true;
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
  const server = createServer((request, response) => {
    void arrived(request)
      .then((call) => pass(call, link.isNoisy ? noiseFor(call, chance) : null))
      .catch(() => null)
      .then((answer) => reply(response, answer));
  });
  server.requestTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(link, { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

/** What all of them have done. */
export function doneBy(links: readonly NoisyLink[]): Readonly<Record<Noise, number>> {
  const sums = { 'lost call': 0, 'lost answer': 0, 'twice at once': 0, 'twice, late': 0, 'held up': 0 };
  for (const { done } of links)
    for (const noise of Object.keys(percent) as Noise[]) sums[noise] += done[noise];
  return sums;
}

/** Null: the call passes as it is. */
function noiseFor({ path, method }: Arrived, chance: Chance): Noise | null {
  let left = chance.below(100);
  for (const noise of Object.keys(percent) as Noise[]) {
    left -= percent[noise];
    if (left >= 0) continue;
    // A second connection takes over from the first, by intention: delivered again it would shut the sidecar
    // out, as another process does.
    const isOnce = path.startsWith('/v1/sync/connect') || method === 'GET';
    return isOnce && noise.startsWith('twice') ? 'held up' : noise;
  }
  return null;
}

interface Arrived {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

interface Answer {
  readonly status: number;
  readonly type: string | string[] | undefined;
  readonly body: Buffer;
}

async function arrived(request: IncomingMessage): Promise<Arrived> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { authorization, 'content-type': type } = request.headers;
  return {
    method: request.method ?? 'GET',
    path: request.url ?? '/',
    headers: {
      ...(authorization === undefined ? {} : { authorization }),
      ...(type === undefined ? {} : { 'content-type': type }),
    },
    body: Buffer.concat(chunks),
  };
}

function reply(response: ServerResponse, answer: Answer | null): void {
  if (answer === null) {
    response.destroy();
    return;
  }
  response.writeHead(answer.status, answer.type === undefined ? {} : { 'content-type': answer.type });
  response.end(answer.body);
}
