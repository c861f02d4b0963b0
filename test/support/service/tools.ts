import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:https';
import { listening } from '../base/listening.ts';
import { selfSigned } from '../base/self-signed.ts';
import { type Api, type ApiOptions, startOwnApi } from './api.ts';

/**
 * A control plane with its tools on a socket, and a web site that holds the metadata documents of clients.
 */
export interface Tools {
  readonly api: Api;
  /** As the world knows it, which is not the address of the socket: use `fetch`. */
  readonly origin: string;
  readonly mcpUrl: string;
  /** Goes to the socket where the origin is meant. Does not follow redirects unless asked to. */
  readonly fetch: (input: string | URL, init?: RequestInit) => Promise<Response>;
  /**
   * Puts a document on the web site, with `client_id` as its own address unless it says otherwise, and
   * answers that address.
   */
  publish(document: object): string;
  /** A form with no header of its own. */
  form(path: string, form: Readonly<Record<string, string>>): Promise<Response>;
  /** How many documents the web site was asked for. */
  documentsAsked(): number;
  /** A token for the key itself. */
  tokenOf(credentials: { readonly keyId: string; readonly key: string }, params?: object): Promise<Response>;
  accessTokenOf(
    credentials: { readonly keyId: string; readonly key: string },
    scope?: string,
  ): Promise<string>;
  /** One message, with the contract's bare body and no header but these. */
  post(token: string | null, message: unknown, headers?: Record<string, string>): Promise<Response>;
  call(token: string, name: string, args?: object): Promise<Response>;
  close(): Promise<void>;
}

const webSite = 'clients.example';

export async function startTools(
  options: Pick<ApiOptions, 'opensToolsToKeys' | 'provider' | 'origin'> = {},
): Promise<Tools> {
  const { cert, key } = selfSigned(webSite);
  const documents = new Map<string, string>();
  let asked = 0;
  const site = createServer({ cert, key }, (request, response) => {
    asked += 1;
    const document = documents.get(request.url ?? '');
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(document);
  });
  const { port, close } = await listening(site);

  const api = await startOwnApi({
    ...options,
    outbound: { allowPrivate: true, ca: cert, resolve: async () => ['127.0.0.1'] },
  });
  const origin = new URL(api.deps.baseUrl).origin;
  const socket = await api.app.listen({ host: '127.0.0.1', port: 0 });
  const fetchHere: Tools['fetch'] = (input, init) =>
    fetch(String(input).replace(origin, socket), { redirect: 'manual', ...init });

  const tokenOf: Tools['tokenOf'] = ({ keyId, key: secret }, params = {}) =>
    fetchHere(`${origin}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${keyId}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...params }),
    });
  const post: Tools['post'] = (token, message, headers = {}) =>
    fetchHere(`${origin}/mcp`, {
      method: 'POST',
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
      body: typeof message === 'string' ? message : JSON.stringify(message),
    });
  return {
    api,
    origin,
    mcpUrl: `${origin}/mcp`,
    fetch: fetchHere,
    publish: (document) => {
      const path = `/${randomBytes(6).toString('hex')}.json`;
      const url = `https://${webSite}:${port}${path}`;
      documents.set(path, JSON.stringify({ client_id: url, ...document }));
      return url;
    },
    form: (path, form) => fetchHere(origin + path, { method: 'POST', body: new URLSearchParams(form) }),
    documentsAsked: () => asked,
    tokenOf,
    accessTokenOf: async (credentials, scope) => {
      const response = await tokenOf(credentials, scope === undefined ? {} : { scope });
      const body = (await response.json()) as { access_token: string };
      if (response.status !== 200) throw new Error(`no token: ${response.status} ${JSON.stringify(body)}`);
      return body.access_token;
    },
    post,
    call: (token, name, args = {}) =>
      post(token, { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name, arguments: args } }),
    close: async () => {
      await api.close();
      await close();
    },
  };
}

/** A person's browser: keeps cookies, each for its path, and follows no redirect by itself. */
export class Browser {
  readonly #cookies = new Map<string, { readonly path: string; readonly pair: string }>();
  readonly #tools: Pick<Tools, 'fetch' | 'origin'>;

  constructor(tools: Pick<Tools, 'fetch' | 'origin'>) {
    this.#tools = tools;
  }

  async open(url: string | URL, form?: Readonly<Record<string, string>>): Promise<Response> {
    const { href, pathname } = new URL(url, this.#tools.origin);
    const cookie = [...this.#cookies.values()]
      .filter(({ path }) => pathname.startsWith(path))
      .map(({ pair }) => pair)
      .join('; ');
    const response = await this.#tools.fetch(href, {
      headers: { cookie, accept: 'text/html' },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split('; ');
      const path = attributes.find((each) => each.startsWith('path='))?.slice('path='.length) ?? '/';
      this.#cookies.set(`${pair.split('=')[0]} ${path}`, { path, pair });
    }
    return response;
  }

  /** From the client's authorization address to the page that asks for the key. */
  async openConsent(
    url: string | URL,
  ): Promise<{ readonly page: Response; readonly html: string; readonly at: string }> {
    const at = locationOf(await this.open(url));
    const page = await this.open(at);
    return { page, html: await page.text(), at };
  }

  /** Fills in the form, and goes on to where the client is sent. */
  async consent(url: string | URL, apiKey: string, choice = 'allow'): Promise<URL> {
    const { html, at } = await this.openConsent(url);
    const answered = await this.open(at, { form_token: formTokenOf(html), api_key: apiKey, choice });
    return new URL(locationOf(await this.open(locationOf(answered))));
  }
}

export function locationOf(response: Response): string {
  const location = response.headers.get('location');
  if (location === null) throw new Error(`answered ${response.status} and no redirect`);
  return location;
}

export const formTokenOf = (html: string): string =>
  /name="form_token" value="([^"]+)"/.exec(html)?.[1] ?? '';

/** What a client sends a person's browser to, and what it needs afterwards. */
export function authorization(
  { origin, mcpUrl }: Pick<Tools, 'origin' | 'mcpUrl'>,
  wanted: {
    readonly clientId: string;
    readonly redirectUri: string;
    readonly params?: Readonly<Record<string, string>>;
  },
): { readonly url: URL; readonly verifier: string } {
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL(`${origin}/oauth/authorize`);
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: wanted.clientId,
    redirect_uri: wanted.redirectUri,
    state: 'a state',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: mcpUrl,
    ...wanted.params,
  }).toString();
  return { url, verifier };
}
