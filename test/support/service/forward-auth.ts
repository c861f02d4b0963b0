import { RawConnection } from '../base/raw-http.ts';
import type { TestSidecar } from './sidecar.ts';

/** What a proxy reads of an answer at the per-gate address. */
export interface ForwardAnswer {
  readonly status: number;
  readonly decision: string | null;
  readonly reason: string | null;
  readonly attestationId: string | null;
  readonly passportId: string | null;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: as the body of `Reply`
  readonly body: any;
}

export interface ForwardRequest {
  readonly method?: string;
  /** After the origin: `/gate_…/orders`. */
  readonly target: string;
  /** In this order, names as they are, several of one name possible. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: string;
  readonly version?: string;
}

/** Sends one request as it is, on a connection of its own. Null: the connection closed without an answer. */
export async function askForward(
  sidecar: Pick<TestSidecar, 'origin'>,
  request: ForwardRequest,
): Promise<ForwardAnswer | null> {
  const connection = await RawConnection.open(Number(new URL(sidecar.origin).port));
  try {
    await connection.send(textOf(request));
    const answer = await connection.next({ isHead: request.method === 'HEAD' });
    if (answer === null) return null;
    const header = (name: string) => answer.headers.get(name) ?? null;
    const isJson = (header('content-type') ?? '').startsWith('application/json');
    return {
      status: answer.status,
      decision: header('x-gate-decision'),
      reason: header('x-gate-reason'),
      attestationId: header('x-attestation-id'),
      passportId: header('x-passport-id'),
      headers: Object.fromEntries(answer.headers),
      body: isJson && answer.body !== '' ? JSON.parse(answer.body) : answer.body,
    };
  } finally {
    await connection.leave();
  }
}

function textOf({ method = 'GET', target, headers = [], body, version = '1.1' }: ForwardRequest): string {
  const lines = [`${method} ${target} HTTP/${version}`, 'Host: proxy.test'];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body, 'latin1')}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}
