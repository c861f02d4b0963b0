import { RawConnection } from './raw-http.ts';

/** What a server answers to this request line with these headers, byte for byte. */
export async function answer(
  origin: string,
  { line, headers }: { readonly line: string; readonly headers: Readonly<Record<string, string>> },
) {
  const client = await RawConnection.open(Number(new URL(origin).port));
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  await client.send(`${line} HTTP/1.1\r\nhost: test\r\n${lines.join('')}\r\n`);
  const reply = await client.next();
  await client.leave();
  const body = reply === null || reply.body === '' ? null : JSON.parse(reply.body);
  return { status: reply?.status, headers: reply?.headers ?? new Map<string, string>(), body };
}
