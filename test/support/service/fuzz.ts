import fc from 'fast-check';
import { catalogue, type ErrorCode } from '../../../shared/errors/catalogue.ts';
import { type Logger, silentLogger } from '../../../shared/runtime/logger.ts';
import { arbitraryRequest, type FuzzedRequest, placeholders } from '../data/arbitrary-request.ts';
import { operationsOf } from '../data/document.ts';
import { startTestProvider } from '../peers/test-provider.ts';
import { type Api, documentOf, type Reply, startOwnApi } from './api.ts';
import { goodCalls } from './good-calls.ts';
import { expectSoundDatabase } from './sound-database.ts';

/**
 * Requests made from the document, as it describes them, nearly so and not at all, several at once: nothing
 * is answered with a 5xx or in another shape, and after each batch the database is sound. `Api.call` holds
 * every answer against the document.
 */
interface Fuzz {
  readonly api: Api;
  /** Operations of the document. */
  readonly operations: number;
  /** Those that have succeeded. */
  readonly succeeded: ReadonlySet<string>;
  /** So many runs; from this seed where there is one. */
  run(options: { readonly numRuns: number; readonly seed?: number }): Promise<void>;
  close(): Promise<void>;
}

/** The one name without https at which there are passkeys. */
const origin = 'http://localhost:8080';
const ids = /^(?:pass|gate|appr|att|iss|tmpl|key|acct)_[0-9a-z]{26}$/;
/**
 * What the service has named so far, by kind; with ids that nothing has. What the test needs for itself is
 * not among it.
 */
const seen = new Map<string, string[]>();
const kept = new Set<string>();
/** Under which every answer so far was given. */
const requestIds = new Set<unknown>();
/** What went wrong inside, for the message of a test that fails: the answer itself does not say. */
let lastFailure: object = {};
const note = (fields: object) => {
  lastFailure = fields;
};
const logger: Logger = { ...silentLogger, warn: note, error: note, child: () => logger };

/** With something of every kind in it, of the first caller and of others. */
export async function startFuzz(): Promise<Fuzz> {
  const provider = await startTestProvider({ origin });
  const api = await startOwnApi({ logger, origin, provider: provider.settings });
  const other = await api.createAccount();
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
  const reader = await api.createKey({ scopes: ['gates:read', 'passports:read'] });
  // The operator, another account, the test world, a key that may little, nobody, and two that are none.
  const callers = [
    api.adminKey,
    other.key,
    test.key,
    reader.key,
    null,
    'at_live_nonsense',
    `${api.adminKey}x`,
  ];
  for (const url of ['/v1/api-keys', '/v1/accounts']) {
    const { body } = await api.call({ url });
    for (const { key_id, account_id } of body.items) kept.add(key_id ?? account_id);
  }
  kept.add((await api.call({ url: '/v1/api-keys', key: other.key })).body.items[0].key_id);
  kept.add((await api.call({ url: '/v1/api-keys', key: test.key })).body.items[0].key_id);
  for (const prefix of ['pass', 'gate', 'appr', 'att', 'iss', 'tmpl', 'key', 'acct']) {
    seen.set(prefix, [`${prefix}_${'0'.repeat(26)}`]);
  }
  seen.set('token', ['a.b.c']);
  for (const call of Object.values(goodCalls(api))) remember((await api.call(await call())).body);
  for (const { key } of [other, test]) {
    remember(await api.createGate({}, key));
    remember(await api.issuePassport({}, key));
  }
  const document = documentOf(api.app);
  const request = arbitraryRequest(document, { callers: callers.length });
  const succeeded = new Set<string>();
  const batches = fc.asyncProperty(
    fc.array(fc.array(request, { minLength: 1, maxLength: 4 }), { minLength: 10, maxLength: 20 }),
    async (batch) => {
      for (const atOnce of batch) {
        for (const { of, reply } of await Promise.all(atOnce.map((each) => send(api, callers, each)))) {
          expectSpecified(of, reply);
          remember(reply.body);
          if (reply.status < 300) succeeded.add(of.operation);
        }
      }
      await expectSoundDatabase(api);
    },
  );
  return {
    api,
    operations: operationsOf(document).length,
    succeeded,
    // What is there piles up from run to run, so that a shrunk example alone would not fail again.
    run: (options) => fc.assert(batches, { ...options, endOnFailure: true }),
    close: async () => {
      await api.close();
      await provider.close();
    },
  };
}

interface Sent {
  readonly of: FuzzedRequest;
  readonly reply: Reply;
}

async function send(api: Api, callers: readonly (string | null)[], of: FuzzedRequest): Promise<Sent> {
  const query = new URLSearchParams(
    of.query.map(([name, value]): [string, string] => [name, resolved(value)]),
  );
  const path = resolved(of.path);
  const isBytes = of.body instanceof Uint8Array;
  const body =
    of.body === undefined || isBytes
      ? of.body
      : resolved(typeof of.body === 'string' ? of.body : JSON.stringify(of.body));
  const reply = await api.call({
    method: of.method,
    url: query.size === 0 ? path : `${path}?${query}`,
    key: callers[of.caller] ?? null,
    headers: of.headers,
    ...(body === undefined ? {} : { body }),
  });
  requestIds.add(reply.headers['x-request-id']);
  return { of, reply };
}

const resolved = (text: string): string =>
  text.replace(placeholders, (_all, kind: string, nth: string) => {
    const things = seen.get(kind) ?? [];
    return things[Number(nth) % things.length] ?? 'nothing';
  });

function expectSpecified(of: FuzzedRequest, reply: Reply): void {
  const where = () => `${JSON.stringify(of)}: ${reply.status} ${JSON.stringify(reply.body)}`;
  if (reply.status >= 500) throw new Error(`${where()} ${JSON.stringify(lastFailure)}`);
  if (reply.status < 400) return;
  // That the code is one of this operation's, and that there is no field too many, was seen when the answer
  // was held against the document.
  const { code, message, status, request_id } = reply.body.error;
  // A refusal that is replayed names the request that was refused (docs/idempotency.md).
  const isReplayed = reply.headers['idempotent-replayed'] === 'true';
  const namesItsRequest = isReplayed
    ? requestIds.has(request_id)
    : request_id === reply.headers['x-request-id'];
  const isSpecified =
    status === reply.status &&
    catalogue[code as ErrorCode].status === status &&
    typeof message === 'string' &&
    message.endsWith('.') &&
    namesItsRequest &&
    reply.headers['content-type'] === 'application/json; charset=utf-8';
  if (!isSpecified) throw new Error(where());
}

/** Collects every id and token of an answer, for later requests. */
function remember(answer: unknown): void {
  if (typeof answer === 'string') {
    const kind = answer.startsWith('eyJ')
      ? 'token'
      : ids.test(answer) && !kept.has(answer)
        ? answer.split('_')[0]
        : undefined;
    const things = kind === undefined ? undefined : seen.get(kind);
    if (things !== undefined && !things.includes(answer)) things.push(answer);
    // Old things must not drown the new ones.
    if (things !== undefined && things.length > 40) things.splice(1, 1);
  } else if (typeof answer === 'object' && answer !== null) {
    for (const each of Object.values(answer)) remember(each);
  }
}
