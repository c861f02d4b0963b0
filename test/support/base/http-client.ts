import { request } from 'undici';
import { countCost } from './costs.ts';

/** One call to a running program. Nothing is retried or redirected: a test sees what a client sees. */
export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member in tests
  readonly body: any;
  readonly headers: Headers;
}

export async function call(
  url: string,
  options: {
    readonly method?: string;
    readonly key?: string;
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  } = {},
): Promise<Reply> {
  countCost('requests');
  // Not `fetch`, which takes four times the processor's time: many tests ask thousands of times.
  const response = await request(url, {
    method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }),
      ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    body: options.body === undefined ? null : JSON.stringify(options.body),
  });
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(response.headers)) {
    for (const value of [values].flat()) headers.append(name, value);
  }
  const text = await response.body.text();
  const isJson = (headers.get('content-type') ?? '').startsWith('application/json');
  return { status: response.statusCode, body: isJson ? JSON.parse(text) : text, headers };
}
