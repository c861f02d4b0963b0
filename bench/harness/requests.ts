import { must } from '../../shared/errors/assert.ts';

/** A request; those of one load have the same origin. */
export interface Sent {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Digits of the length in bytes before each request in a file. */
export const lengthDigits = 8;

/** Whole requests as they travel, for a load generator to read from a file. */
export function rawRequests(requests: readonly Sent[]): Buffer {
  const pieces = requests.flatMap(({ url, headers, body }) => {
    const { pathname, host } = new URL(url);
    const fields = { Host: host, 'Content-Length': String(Buffer.byteLength(body)), ...headers };
    const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
    const request = Buffer.from(`POST ${pathname} HTTP/1.1\r\n${head.join('')}\r\n${body}`);
    return [Buffer.from(String(request.length).padStart(lengthDigits)), request];
  });
  return Buffer.concat(pieces);
}

export function splitRequests(file: Buffer): readonly Buffer[] {
  const requests: Buffer[] = [];
  for (let at = 0; at < file.length; ) {
    const start = at + lengthDigits;
    at = start + Number(file.toString('latin1', at, start));
    requests.push(file.subarray(start, at));
  }
  return requests;
}

/** Common to all: the permission, the domain and the limit of row `warm`. */
const asked = { permission_key: 'orders:create', amount: 12.5, currency: 'USD', domain: 'api.example.com' };

const words = 'order item note customer region carrier channel campaign invoice batch site shelf'.split(' ');
const shapes = 200;

/**
 * Requests with members of many names, orders, types and depths, as of many agents: 200 shapes, with new
 * values each time.
 */
export function diverseRequest(number: number): Readonly<Record<string, unknown>> {
  const shape = number % shapes;
  const request: Record<string, unknown> = { ...asked };
  if (shape % 3 === 0) request['requested_for'] = `team-${number % 17}`;
  for (let i = 0; i <= shape % 7; i += 1) request[nameOf(shape, i)] = memberOf(number, shape + i);
  if (shape % 2 === 1) return request;
  // The same members in reverse order.
  return Object.fromEntries(Object.entries(request).toReversed());
}

const nameOf = (shape: number, i: number): string =>
  `${must(words[(shape + 5 * i) % words.length], 'a word')}_${(shape * 7 + i) % 40}`;

function memberOf(number: number, kind: number): unknown {
  switch (kind % 6) {
    case 0:
      return number;
    case 1:
      return `value ${number} of ${kind}`;
    case 2:
      return number % 2 === 0;
    case 3:
      return { sku: `A-${number % 1_000}`, quantity: (number % 9) + 1, tags: ['fresh', `lot-${kind}`] };
    case 4:
      return `Größe ${number} — „klein“`;
    default:
      return [number % 5, number % 7, { depth: { of: { three: kind } } }];
  }
}

/** A request of about so many bytes of JSON: a list of equal items, as orders have them. */
export function requestOfBytes(bytes: number): Readonly<Record<string, unknown>> {
  const item = { sku: 'A-1027', quantity: 3, price: 4.15, title: 'Stapler, long reach, 240 mm' };
  const items = Array.from(
    {
      length: Math.max(
        0,
        Math.round((bytes - JSON.stringify(asked).length) / (JSON.stringify(item).length + 1)),
      ),
    },
    () => item,
  );
  return items.length === 0 ? asked : { ...asked, items };
}
