/** Where a page of the console is: its `$id` and the query of its address. */
export interface PagePlace {
  readonly id: string;
  readonly search: Readonly<Record<string, string | undefined>>;
}

export interface PageSource {
  /** The request of the API that the page shows. Null: no key opens it, only a session does. */
  request(place: PagePlace): string | null;
  /** Its page, and anchor, below `/docs/guide`. */
  readonly guide: string;
}

/** A list with those filters of the page's address that the API knows by the same name. */
const list =
  (path: string, filters: readonly string[] = [], always: Readonly<Record<string, string>> = {}) =>
  ({ search }: PagePlace): string => {
    const given = filters.flatMap((name) => {
      const value = search[name] ?? always[name];
      return value === undefined || value === '' ? [] : [[name, value] as [string, string]];
    });
    const query = new URLSearchParams(given).toString();
    return query === '' ? path : `${path}?${query}`;
  };

const one =
  (path: string) =>
  ({ id }: PagePlace): string =>
    `${path}/${encoded(id)}`;

/** Also what `encodeURIComponent` leaves as it is and a shell reads. */
const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);

const jwks = () => '/.well-known/jwks.json';
const records = [
  'passport_id',
  'gate_id',
  'agent_id',
  'decision',
  'reason',
  'permission_key',
  'outcome',
  'since',
  'until',
] as const;

/** What a tab of a gate shows beside the gate. */
const partOfTab: Readonly<Record<string, string>> = { catalog: '/catalog', 'dry-run': '/shadow' };

/** By the paths of the router. */
export const pageSources: Readonly<Record<string, PageSource>> = {
  '/': { request: () => '/v1/attestations?limit=6', guide: 'console' },
  '/first-request': { request: list('/v1/gates'), guide: 'console#the-first-guarded-request' },
  '/approvals': {
    request: list('/v1/approvals', ['status'], { status: 'pending' }),
    guide: 'approvals',
  },
  '/approvals/$id': { request: one('/v1/approvals'), guide: 'approvals' },
  '/holds': { request: list('/v1/holds', ['status', 'gate_id'], { status: 'open' }), guide: 'money' },
  '/passports': { request: list('/v1/passports', ['status', 'trust_tier']), guide: 'contract/03-passports' },
  '/passports/$id': { request: one('/v1/passports'), guide: 'contract/03-passports' },
  '/gates': { request: list('/v1/gates'), guide: 'contract/04-gates#gates' },
  '/gates/$id': {
    request: (place) => `${one('/v1/gates')(place)}${partOfTab[place.search['tab'] ?? ''] ?? ''}`,
    guide: 'limits',
  },
  '/wallets': {
    request: ({ search: { name = '' } }) =>
      name === '' ? '/v1/wallets?parent_wallet_id=' : `/v1/wallets?name=${encoded(name)}`,
    guide: 'wallets',
  },
  '/wallets/$id': { request: one('/v1/wallets'), guide: 'wallets' },
  '/log': { request: () => '/v1/attestations?limit=500', guide: 'console#records' },
  '/attestations': { request: list('/v1/attestations', records), guide: 'exports' },
  '/attestations/$id': { request: one('/v1/attestations'), guide: 'decisions' },
  '/verify': { request: jwks, guide: 'verify' },
  '/api-keys': { request: list('/v1/api-keys'), guide: 'keys' },
  '/channels': { request: list('/v1/channels'), guide: 'channels' },
  '/channels/$id': { request: one('/v1/channels'), guide: 'channels' },
  '/mcp-pins': {
    request: list('/v1/mcp-pins', ['status'], { status: 'changed' }),
    guide: 'integrations/mcp',
  },
  '/mcp-pins/$id': { request: one('/v1/mcp-pins'), guide: 'integrations/mcp' },
  '/approvals/standing': { request: list('/v1/approvals/standing'), guide: 'approvals' },
  '/webhooks': { request: list('/v1/webhooks'), guide: 'webhooks' },
  '/webhooks/$id': { request: one('/v1/webhooks'), guide: 'webhooks' },
  '/audit': {
    request: list('/v1/audit', ['actor', 'operation', 'target', 'since', 'until']),
    guide: 'audit',
  },
  '/signing-keys': { request: jwks, guide: 'keys' },
  '/issuers': { request: list('/v1/issuers'), guide: 'contract/04-gates#issuers' },
  '/templates': { request: list('/v1/templates'), guide: 'catalogs#templates' },
  '/discovery': {
    request: ({ search }) =>
      list('/v1/discover', ['capability', 'sort', 'min_security_profile'], { capability: 'orders' })({
        id: '',
        search: { ...search, min_security_profile: search['level'] },
      }),
    guide: 'catalogs',
  },
  '/people': { request: list('/v1/users'), guide: 'people' },
  '/settings': { request: () => null, guide: 'people' },
};

/** A command that asks for `path` with a key of the person's own, which no page knows. */
export const curlOf = (origin: string, path: string): string =>
  `curl -sS '${origin}${path}' -H "Authorization: Bearer $AGENT_TRUST_KEY"`;
