/** A request; those of one load have the same origin. */
export interface Sent {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Digits of the length in bytes that stands before each request in a file. */
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
