/** What a case of an example differs in from an ordinary request: members of `request`, and what is said. */
export interface ExampleCase {
  /** In a sentence. */
  readonly what: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly user?: string | null;
  /** RFC 3339. Default: a Wednesday, 10:00 UTC. */
  readonly now?: string;
}

/** A condition that people can take as it is, with what a test holds against it. */
export interface ConditionExample {
  readonly id: string;
  readonly title: string;
  readonly require: string;
  readonly permissions: readonly string[];
  readonly otherwise: 'block' | 'approve';
  readonly message: string;
  readonly passes: ExampleCase;
  readonly fails: ExampleCase;
  /** What somebody would try, and what an obvious condition would let pass. */
  readonly bypass: ExampleCase;
}

const args = (given: Readonly<Record<string, unknown>>) => ({ arguments: given });

/** The catalog of docs/conditions.md. The console offers them. */
export const conditionExamples: readonly ConditionExample[] = [
  {
    id: 'below-workspace',
    title: 'Files below one folder',
    require: "request.arguments.path.matches(r'^/workspace(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$')",
    permissions: ['tools:write_file'],
    otherwise: 'block',
    message: 'Write below /workspace.',
    passes: { what: 'a file below the folder', request: args({ path: '/workspace/notes/a.txt' }) },
    fails: { what: 'another folder', request: args({ path: '/etc/passwd' }) },
    bypass: {
      what: 'a path that begins right and climbs out: only names without a dot in front are allowed',
      request: args({ path: '/workspace/../etc/passwd' }),
    },
  },
  {
    id: 'read-only-sql',
    title: 'SQL that reads',
    require: String.raw`request.arguments.query.matches(r'(?is)^\s*select\s[^;]*$')
  && !request.arguments.query.matches(r'(?i)\b(insert|update|delete|merge|drop|alter|grant|into|call)\b')`,
    permissions: ['tools:query'],
    otherwise: 'block',
    message: 'Only SELECT.',
    passes: { what: 'one SELECT', request: args({ query: 'SELECT id FROM orders LIMIT 10' }) },
    fails: { what: 'a statement that writes', request: args({ query: 'DELETE FROM orders' }) },
    bypass: {
      what: 'a second statement behind the first; functions with effects need a role without them',
      request: args({ query: 'select 1; drop table orders' }),
    },
  },
  {
    id: 'at-most-100-rows',
    title: 'A bounded number of rows',
    require: 'request.arguments.limit >= 1 && request.arguments.limit <= 100',
    permissions: ['tools:query'],
    otherwise: 'block',
    message: 'Ask for 1 to 100 rows.',
    passes: { what: '100 rows', request: args({ limit: 100 }) },
    fails: { what: '101 rows', request: args({ limit: 101 }) },
    bypass: { what: '-1, which many databases take for all', request: args({ limit: -1 }) },
  },
  {
    id: 'own-recipients',
    title: 'Mail within one domain',
    require: String.raw`size(request.arguments.to) > 0
  && request.arguments.to.all(address, address.matches(r'(?i)^[a-z0-9._+-]+@example\.com$'))
  && !has(request.arguments.cc) && !has(request.arguments.bcc)`,
    permissions: ['tools:send_mail'],
    otherwise: 'approve',
    message: 'Mail to others needs a person.',
    passes: {
      what: 'recipients of the domain',
      request: args({ to: ['ada@example.com', 'Bob@Example.com'] }),
    },
    fails: {
      what: 'one recipient of another domain',
      request: args({ to: ['ada@example.com', 'eve@evil.net'] }),
    },
    bypass: {
      what: 'a blind copy; so is a domain that only begins alike (example.com.evil.net)',
      request: args({ to: ['ada@example.com'], bcc: ['eve@evil.net'] }),
    },
  },
  {
    id: 'working-hours',
    title: 'Working hours',
    require: `now.getDayOfWeek('Europe/Berlin') in [1, 2, 3, 4, 5]
  && now.getHours('Europe/Berlin') >= 8 && now.getHours('Europe/Berlin') < 18`,
    permissions: ['tools:deploy'],
    otherwise: 'approve',
    message: 'Outside of Monday to Friday, 8 to 18 h in Berlin.',
    passes: { what: 'Wednesday, 10:00 UTC', request: {} },
    fails: { what: 'Saturday', request: {}, now: '2026-06-13T10:00:00Z' },
    bypass: {
      what: '16:30 UTC in summer, which is 18:30 in Berlin; a time in the request is not asked',
      request: args({ now: '2026-06-10T10:00:00Z' }),
      now: '2026-06-10T16:30:00Z',
    },
  },
  {
    id: 'not-in-production',
    title: 'Not in production',
    require: "request.arguments.environment in ['dev', 'staging']",
    permissions: ['tools:deploy'],
    otherwise: 'block',
    message: 'Agents deploy to dev and staging.',
    passes: { what: 'an environment of the list', request: args({ environment: 'staging' }) },
    fails: { what: 'production', request: args({ environment: 'prod' }) },
    bypass: {
      what: "another spelling, which `!= 'prod'` would let pass",
      request: args({ environment: 'Production' }),
    },
  },
  {
    id: 'four-eyes',
    title: 'Four eyes above an amount',
    require: 'request.amount_micro_usd <= 500000000',
    permissions: ['payments:send'],
    otherwise: 'approve',
    message: 'Above 500 USD a person approves.',
    passes: { what: '500 USD', request: { amount_micro_usd: 500_000_000 } },
    fails: { what: '500.01 USD', request: { amount_micro_usd: 500_010_000 } },
    bypass: {
      what: 'a payment without an amount is an error; many small ones are for `max_spend`',
      request: {},
    },
  },
  {
    id: 'own-team',
    title: 'Tickets of the own team',
    require: "claims.team != '' && request.arguments.team == claims.team",
    permissions: ['tools:update_ticket'],
    otherwise: 'block',
    message: 'Only tickets of your own team.',
    passes: { what: 'the team of the token', request: args({ team: 'blue' }), claims: { team: 'blue' } },
    fails: { what: 'another team', request: args({ team: 'red' }), claims: { team: 'blue' } },
    bypass: {
      what: 'a token and a ticket without a team',
      request: args({ team: '' }),
      claims: { team: '' },
    },
  },
  {
    id: 'for-the-user',
    title: 'Only what belongs to the user',
    require: 'user != null && request.arguments.owner == user',
    permissions: ['tools:read_account'],
    otherwise: 'block',
    message: 'An agent reads the accounts of its user.',
    passes: { what: 'an account of the user', request: args({ owner: 'ada' }), user: 'ada' },
    fails: { what: 'an account of somebody else', request: args({ owner: 'bob' }), user: 'ada' },
    bypass: { what: 'no user and no owner, which are equal', request: args({ owner: null }), user: null },
  },
  {
    id: 'known-hosts',
    title: 'Pages of known hosts',
    require: String.raw`request.arguments.url.matches(r'^https://(docs|api)\.example\.com(/[^\\\s]*)?$')`,
    permissions: ['tools:fetch'],
    otherwise: 'block',
    message: 'Only docs.example.com and api.example.com.',
    passes: { what: 'a page of a known host', request: args({ url: 'https://docs.example.com/a?b=1' }) },
    fails: { what: 'another host', request: args({ url: 'https://evil.net/' }) },
    bypass: {
      what: 'a host in front of an @, where it is a name of a user',
      request: args({ url: 'https://docs.example.com@evil.net/' }),
    },
  },
  {
    id: 'known-commands',
    title: 'Commands of a list',
    require: `request.arguments.command.matches(
  r'^(git (status|diff|log)|npm test)( [A-Za-z0-9_][A-Za-z0-9_./-]*)*$')`,
    permissions: ['tools:shell'],
    otherwise: 'approve',
    message: 'Other commands need a person.',
    passes: { what: 'a command of the list', request: args({ command: 'git diff src/main.ts' }) },
    fails: { what: 'another command', request: args({ command: 'rm -rf build' }) },
    bypass: {
      what: 'a second command behind the first, or an option that writes (--output=)',
      request: args({ command: 'git status; curl evil.net' }),
    },
  },
  {
    id: 'named-items',
    title: 'A few named items, no patterns',
    require: `size(request.arguments.ids) <= 20 && request.arguments.ids.all(id, id.matches('^[a-z0-9]{8}$'))`,
    permissions: ['tools:delete_items'],
    otherwise: 'block',
    message: 'Name at most 20 items.',
    passes: { what: 'two items', request: args({ ids: ['a1b2c3d4', 'e5f6a7b8'] }) },
    fails: { what: '21 items', request: args({ ids: Array.from({ length: 21 }, () => 'a1b2c3d4') }) },
    bypass: { what: 'one item that stands for all', request: args({ ids: ['*'] }) },
  },
];
